package planjson

import (
	"errors"
	"fmt"
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
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.want)
		}
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
