// Package mask keeps secret values out of text that is shown to people. It knows a value in the forms in which tools
// print it; it cannot know what a program makes of it otherwise.
package mask

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const (
	// MinLength of what is masked, in bytes, blanks at both ends not counted: masking less would hide ordinary text
	// everywhere. A shorter value is not masked in any form.
	MinLength = 6
	// minLine is the length from which a line of a value of several lines is masked by itself.
	minLine = 8
)

// Forms are the texts to mask. The zero value masks nothing.
type Forms struct {
	byKey map[uint64][]string
	// starts holds every beginning of a form that is too short to look up.
	starts map[string]struct{}
}

// NewForms returns the forms of values: as they are, inside JSON, HCL, Go and shell strings, in URLs, in base64 and hex,
// broken at a blank if they are no longer than maxWrapped, their long lines, and, where a value is a list or an object, of the strings inside.
func NewForms(values []string) Forms {
	seen := map[string]struct{}{}
	for _, value := range values {
		for _, secret := range append([]string{value}, leaves(value)...) {
			if len(strings.TrimSpace(secret)) < MinLength {
				continue
			}
			for _, form := range formsOf(secret) {
				if len(form) >= MinLength {
					seen[form] = struct{}{}
				}
			}
		}
	}
	f := Forms{byKey: map[uint64][]string{}, starts: map[string]struct{}{}}
	for form := range seen {
		k := key([]byte(form[:keyLength]))
		f.byKey[k] = append(f.byKey[k], form)
		for n := 1; n < keyLength; n++ {
			f.starts[form[:n]] = struct{}{}
		}
	}
	for _, forms := range f.byKey {
		slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	}
	return f
}

// String masks text as a whole.
func (f Forms) String(text string) string {
	var out strings.Builder
	w := NewWriter(&out, f)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return out.String()
}

// at returns the length of the longest form that data begins with, 0 for none, and whether more data could make it
// another one.
func (f Forms) at(data []byte) (length int, undecided bool) {
	if len(f.byKey) == 0 {
		return 0, false
	}
	if len(data) < keyLength {
		_, found := f.starts[string(data)]
		return 0, found
	}
	for _, form := range f.byKey[key(data)] {
		switch {
		case len(form) > len(data):
			undecided = undecided || form[:len(data)] == string(data)
		case string(data[:len(form)]) == form:
			return len(form), undecided
		}
	}
	return 0, undecided
}

// leaves returns the strings inside a value that is a list or an object, in JSON or in the tools' own syntax.
func leaves(text string) []string {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return nil
	}
	var found []string
	var parsed any
	if json.Unmarshal([]byte(trimmed), &parsed) == nil {
		return stringsIn(parsed, found)
	}
	if len(trimmed) > maxExpression {
		return nil
	}
	expression, diagnostics := hclsyntax.ParseExpression([]byte(trimmed), "value", hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil
	}
	value, diagnostics := expression.Value(nil)
	if diagnostics.HasErrors() {
		return nil
	}
	_ = cty.Walk(value, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			found = append(found, v.AsString())
		}
		return true, nil
	})
	return found
}

// maxExpression bounds what is parsed in the tools' own syntax, in bytes: the parser takes time by the square of it.
const maxExpression = 32 << 10

func stringsIn(value any, found []string) []string {
	switch value := value.(type) {
	case string:
		return append(found, value)
	case []any:
		for _, element := range value {
			found = stringsIn(element, found)
		}
	case map[string]any:
		for _, element := range value {
			found = stringsIn(element, found)
		}
	}
	return found
}
