// Package planjson reads what `show -json` prints of a plan: only what the runner reports of it, element by element,
// so that its size does not matter.
package planjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"magosproject.io/services/runner/internal/runspec"
)

var (
	// ErrUnreadable is wrapped when the text is not wholly a plan of a known format.
	ErrUnreadable = errors.New("the plan cannot be read")
	// ErrErrored is returned for a plan that its tool could not finish.
	ErrErrored = errors.New("the plan is incomplete: the tool met an error while planning")
)

const formatMajor = "1."

// Bounds of what a Summary lists, in entries and in bytes of addresses.
const (
	maxListed  = 5000
	maxDrifted = 20
	maxBytes   = 512 << 10
)

// Summary of a plan.
type Summary struct {
	Changes runspec.Changes
	// Empty says that applying the plan would change nothing at all, state included.
	Empty bool
	// Listed are the resources that the plan does something to, in its order; the first ones where there are very many. Total is how many there are.
	Listed []runspec.ResourceChange
	Total  int32
	// Drifted are the addresses of resources that changed outside of the tool; the first ones of DriftedTotal.
	Drifted      []string
	DriftedTotal int32
}

type plan struct {
	seen       map[string]bool
	format     string
	errored    bool
	applyable  bool
	incomplete bool
	changes    runspec.Changes
	summary    Summary
	listed     int
	// acts says that the plan does something, whether or not it counts as a change.
	acts bool
}

// Read summarizes the plan that r holds, to its end.
func Read(r io.Reader) (Summary, error) {
	p := plan{seen: map[string]bool{}}
	decoder := json.NewDecoder(r)
	if err := p.object(decoder); err != nil {
		return Summary{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Summary{}, fmt.Errorf("%w: something follows it", ErrUnreadable)
	}
	switch {
	case !strings.HasPrefix(p.format, formatMajor):
		return Summary{}, fmt.Errorf("%w: its format is %q, want %sx", ErrUnreadable, p.format, formatMajor)
	case p.errored:
		return Summary{}, ErrErrored
	}
	// Older tools print no "applyable"; what it says follows from the changes then.
	p.summary.Changes, p.summary.Empty = p.changes, !p.applyable && !p.acts && !p.incomplete
	return p.summary, nil
}

func (p *plan) object(d *json.Decoder) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if p.seen[name] {
			return fmt.Errorf("%q appears twice", name)
		}
		p.seen[name] = true
		if err := p.member(d, name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return expect(d, '}')
}

func (p *plan) member(d *json.Decoder, name string) error {
	switch name {
	case "format_version":
		return d.Decode(&p.format)
	case "errored":
		return d.Decode(&p.errored)
	case "applyable":
		return d.Decode(&p.applyable)
	case "resource_changes":
		return elements(d, func() error { return p.resource(d) })
	case "resource_drift":
		return elements(d, func() error { return p.drift(d) })
	case "output_changes":
		return p.outputs(d)
	case "deferred_changes", "action_invocations", "deferred_action_invocations":
		return elements(d, func() error { p.incomplete = true; return skip(d) })
	default:
		return skip(d)
	}
}

// drift notes a resource that is not as the state has it. A resource that only moved has not drifted.
func (p *plan) drift(d *json.Decoder) error {
	var r struct {
		Address string `json:"address"`
		Change  change `json:"change"`
	}
	if err := d.Decode(&r); err != nil {
		return err
	}
	if len(r.Change.Actions) == 0 || slices.Equal(r.Change.Actions, []string{"no-op"}) {
		return nil
	}
	p.summary.DriftedTotal++
	if len(p.summary.Drifted) < maxDrifted {
		p.summary.Drifted = append(p.summary.Drifted, r.Address)
	}
	return nil
}

type change struct {
	Actions   []string        `json:"actions"`
	Importing json.RawMessage `json:"importing"`
}

func (p *plan) resource(d *json.Decoder) error {
	var r struct {
		Address         string `json:"address"`
		PreviousAddress string `json:"previous_address"`
		ActionReason    string `json:"action_reason"`
		Change          change `json:"change"`
	}
	if err := d.Decode(&r); err != nil {
		return err
	}
	if len(r.Change.Actions) == 0 {
		return fmt.Errorf("%s has no actions", r.Address)
	}
	listed := runspec.ResourceChange{Address: r.Address, Actions: r.Change.Actions, Reason: r.ActionReason}
	if r.PreviousAddress != "" && r.PreviousAddress != r.Address {
		p.changes.Move++
		listed.From = r.PreviousAddress
	}
	if len(r.Change.Importing) > 0 && string(r.Change.Importing) != "null" {
		p.changes.Import++
		listed.Imported = true
	}
	count(&p.changes, r.Change.Actions)
	if listed.From != "" || listed.Imported || !slices.Equal(r.Change.Actions, []string{"no-op"}) {
		p.acts = true
		p.list(listed)
	}
	return nil
}

func (p *plan) list(r runspec.ResourceChange) {
	p.summary.Total++
	p.listed += len(r.Address) + len(r.From)
	if len(p.summary.Listed) < maxListed && p.listed <= maxBytes {
		p.summary.Listed = append(p.summary.Listed, r)
	}
}

// count adds one resource. A word that is not known counts as a destroy: it must not look harmless.
func count(changes *runspec.Changes, actions []string) {
	has := func(word string) bool { return slices.Contains(actions, word) }
	if has("create") && has("delete") {
		changes.Replace++
		return
	}
	for _, action := range actions {
		switch action {
		case "no-op", "read":
		case "create":
			changes.Add++
		case "update":
			changes.Change++
		case "forget":
			changes.Forget++
		default:
			changes.Destroy++
		}
	}
}

func (p *plan) outputs(d *json.Decoder) error {
	if isNull, err := open(d, '{'); err != nil || isNull {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var c change
		if err := d.Decode(&c); err != nil {
			return err
		}
		if len(c.Actions) == 0 {
			return fmt.Errorf("output %v has no actions", name)
		}
		if !slices.Equal(c.Actions, []string{"no-op"}) {
			p.changes.Outputs++
			p.acts = true
		}
	}
	return expect(d, '}')
}

func elements(d *json.Decoder, each func() error) error {
	if isNull, err := open(d, '['); err != nil || isNull {
		return err
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

func open(d *json.Decoder, want json.Delim) (isNull bool, err error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return false, err
	case token == nil:
		return true, nil
	case token != want:
		return false, fmt.Errorf("found %v, want %v", token, want)
	}
	return false, nil
}

func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("found %v, want %v", token, want)
	}
	return nil
}

// skip passes over one value without holding it.
func skip(d *json.Decoder) error {
	depth := 0
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
