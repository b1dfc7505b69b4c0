package planjson

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

func TestActions(t *testing.T) {
	for actions, want := range map[string]runspec.Changes{
		`["no-op"]`:               {},
		`["read"]`:                {},
		`["create"]`:              {Add: 1},
		`["update"]`:              {Change: 1},
		`["delete"]`:              {Destroy: 1},
		`["delete","create"]`:     {Replace: 1},
		`["create","delete"]`:     {Replace: 1},
		`["forget"]`:              {Forget: 1},
		`["create","forget"]`:     {Add: 1, Forget: 1},
		`["forget","create"]`:     {Add: 1, Forget: 1},
		`["evaporate"]`:           {Destroy: 1},
		`["evaporate","no-op"]`:   {Destroy: 1},
		`["update","evaporate"]`:  {Change: 1, Destroy: 1},
		`["Delete"]`:              {Destroy: 1},
		`["create","evaporate"]`:  {Add: 1, Destroy: 1},
		`["delete","deposed-no"]`: {Destroy: 2},
	} {
		got, err := Read(strings.NewReader(fmt.Sprintf(
			`{"format_version":"1.2","resource_changes":[{"address":"a","change":{"actions":%s,"before":{"x":[1,{}]}}}]}`, actions)))
		if err != nil || got.Changes != want || got.Empty != (actions == `["no-op"]`) {
			t.Errorf("%s: got %+v, %v; want %+v", actions, got, err, want)
		}
	}
}

func TestSummaries(t *testing.T) {
	resource := func(extra string) string {
		return `"resource_changes":[{"address":"a",` + extra + `}]`
	}
	for name, c := range map[string]struct {
		body string
		want Summary
	}{
		"nothing":                   {`"applyable":false`, Summary{Empty: true}},
		"nothing, said by no word":  {`"resource_changes":[]`, Summary{Empty: true}},
		"null lists":                {`"resource_changes":null,"output_changes":null`, Summary{Empty: true}},
		"applyable alone is enough": {`"applyable":true`, Summary{}},
		"drift alone":               {`"resource_drift":[{"address":"a","change":{"actions":["update"]}}]`, Summary{Empty: true}},
		"no-op with after null":     {resource(`"change":{"actions":["no-op"],"after":null}`), Summary{Empty: true}},
		"move": {resource(`"previous_address":"b","change":{"actions":["no-op"]}`),
			Summary{Changes: runspec.Changes{Move: 1}}},
		"import": {resource(`"change":{"actions":["no-op"],"importing":{"id":"x"}}`),
			Summary{Changes: runspec.Changes{Import: 1}}},
		"import of null": {resource(`"change":{"actions":["no-op"],"importing":null}`), Summary{Empty: true}},
		"move and update": {resource(`"previous_address":"b","change":{"actions":["update"]}`),
			Summary{Changes: runspec.Changes{Move: 1, Change: 1}}},
		"deposed": {resource(`"deposed":"1234","change":{"actions":["delete"]}`),
			Summary{Changes: runspec.Changes{Destroy: 1}}},
		"outputs": {`"output_changes":{"a":{"actions":["create"]},"b":{"actions":["no-op"]}}`,
			Summary{Changes: runspec.Changes{Outputs: 1}}},
		"deferred":                              {`"deferred_changes":[{"reason":"x"}]`, Summary{}},
		"action":                                {`"action_invocations":[{"address":"x"}]`, Summary{}},
		"actions, not one":                      {`"action_invocations":[]`, Summary{Empty: true}},
		"unknown members":                       {`"prior_state":{"a":[{"b":null}]},"checks":[],"variables":{}`, Summary{Empty: true}},
		"applyable says no, but something acts": {`"applyable":false,` + resource(`"change":{"actions":["read"]}`), Summary{}},
	} {
		got, err := Read(strings.NewReader(`{"format_version":"1.2",` + c.body + `}`))
		if err != nil || got.Changes != c.want.Changes || got.Empty != c.want.Empty {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestChangesAndDriftAreListedWithoutValues(t *testing.T) {
	got, err := Read(strings.NewReader(`{"format_version":"1.2",
"resource_drift":[
 {"address":"a.drifted","change":{"actions":["update"],"before":{"x":"secret"},"after":{"x":"other"}}},
 {"address":"a.moved","previous_address":"a.before","change":{"actions":["no-op"]}},
 {"address":"a.gone","change":{"actions":["delete"]}}],
"resource_changes":[
 {"address":"a.same","change":{"actions":["no-op"]}},
 {"address":"a.drifted","action_reason":"replace_because_cannot_update","change":{"actions":["delete","create"],"before":{"x":"secret"}}},
 {"address":"a.moved","previous_address":"a.before","change":{"actions":["no-op"]}},
 {"address":"a.imported","change":{"actions":["no-op"],"importing":{"id":"x"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []runspec.ResourceChange{
		{Address: "a.drifted", Actions: []string{"delete", "create"}, Reason: "replace_because_cannot_update"},
		{Address: "a.moved", From: "a.before", Actions: []string{"no-op"}},
		{Address: "a.imported", Actions: []string{"no-op"}, Imported: true},
	}
	if !reflect.DeepEqual(got.Listed, want) || got.Total != 3 {
		t.Errorf("listed %+v of %d, want %+v", got.Listed, got.Total, want)
	}
	if !slices.Equal(got.Drifted, []string{"a.drifted", "a.gone"}) || got.DriftedTotal != 2 {
		t.Errorf("drifted %v of %d", got.Drifted, got.DriftedTotal)
	}
}

func TestListsAreBounded(t *testing.T) {
	entry := func(n int) string {
		return fmt.Sprintf(`{"address":"a.%d%s","change":{"actions":["update"]}}`, n, strings.Repeat("x", 200))
	}
	var entries []string
	for n := range 20_000 {
		entries = append(entries, entry(n))
	}
	list := "[" + strings.Join(entries, ",") + "]"
	got, err := Read(strings.NewReader(`{"format_version":"1.2","resource_drift":` + list + `,"resource_changes":` + list + `}`))
	size := 0
	for _, r := range got.Listed {
		size += len(r.Address)
	}
	if err != nil || got.Total != 20_000 || size > maxBytes || len(got.Listed) > maxListed || len(got.Listed) < 1000 {
		t.Errorf("%d of %d are listed, %d bytes, %v", len(got.Listed), got.Total, size, err)
	}
	if got.DriftedTotal != 20_000 || len(got.Drifted) != maxDrifted {
		t.Errorf("%d of %d drifted", len(got.Drifted), got.DriftedTotal)
	}
}

func TestWhatIsNotAPlanIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                  ``,
		"cut":                    `{"format_version":"1.2","resource_changes":[`,
		"cut before the end":     `{"format_version":"1.2"`,
		"unknown format":         `{"format_version":"2.0"}`,
		"major with a prefix":    `{"format_version":"11.0"}`,
		"no format":              `{"resource_changes":[]}`,
		"twice":                  `{"format_version":"1.2","resource_changes":[],"resource_changes":[]}`,
		"a second plan":          `{"format_version":"1.2"}{"format_version":"1.2"}`,
		"a list":                 `[]`,
		"no actions":             `{"format_version":"1.2","resource_changes":[{"address":"a","change":{}}]}`,
		"an object for a list":   `{"format_version":"1.2","resource_changes":{}}`,
		"output without actions": `{"format_version":"1.2","output_changes":{"a":{}}}`,
	} {
		if got, err := Read(strings.NewReader(text)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if _, err := Read(strings.NewReader(`{"format_version":"1.2","errored":true}`)); !errors.Is(err, ErrErrored) {
		t.Errorf("an errored plan: %v", err)
	}
}
