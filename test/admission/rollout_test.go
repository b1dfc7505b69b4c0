package admission

import (
	"strings"
	"testing"
)

func window(kind, cron, duration, zone string) map[string]any {
	return map[string]any{"kind": kind, "cron": cron, "duration": duration, "zone": zone}
}

func TestARolloutThatIsWrongIsRefusedWithAMessageThatSaysWhatToWrite(t *testing.T) {
	c := newClient(t)
	step := func(field string, value any) any {
		return []any{map[string]any{"name": "dev", "selector": map[string]any{"matchLabels": map[string]any{"env": "dev"}}, field: value}}
	}
	for name, tc := range map[string]struct {
		path    string
		value   any
		message string
	}{
		"none at a time":                  {"spec.strategy.steps", step("maxParallel", int64(0)), "write a number above zero"},
		"less than none at a time":        {"spec.strategy.steps", step("maxParallel", int64(-1)), "write a number above zero"},
		"more than a number holds":        {"spec.strategy.steps", step("maxParallel", int64(3_000_000_000)), "leave it out for no bound"},
		"no percent":                      {"spec.strategy.steps", step("maxParallel", "0%"), "should match '^([1-9][0-9]?|100)%$'"},
		"more than all":                   {"spec.strategy.steps", step("maxParallel", "101%"), "should match '^([1-9][0-9]?|100)%$'"},
		"a word":                          {"spec.strategy.steps", step("maxParallel", "half"), "should match '^([1-9][0-9]?|100)%$'"},
		"a number in quotes":              {"spec.strategy.steps", step("maxParallel", "5"), "should match '^([1-9][0-9]?|100)%$'"},
		"an action that there is not":     {"spec.strategy.onFailure", map[string]any{"action": "Ignore"}, `supported values: "Halt", "Continue", "Retry", "Abort"`},
		"retrying without saying how":     {"spec.strategy.onFailure", map[string]any{"action": "Retry"}, "write retries, such as 3"},
		"retrying never":                  {"spec.strategy.onFailure", map[string]any{"action": "Retry", "retries": int64(0)}, "write how often to try again"},
		"retrying for ever":               {"spec.strategy.onFailure", map[string]any{"action": "Retry", "retries": int64(101)}, "write how often to try again"},
		"retries of a step without Retry": {"spec.strategy.steps", step("onFailure", map[string]any{"action": "Abort", "retries": int64(3)}), "leave it out with any other action"},
		"a soak of no time":               {"spec.strategy.steps", step("soak", "0s"), "write one such as 90s, 30m"},
		"a soak that ends before":         {"spec.strategy.steps", step("soak", "-5m"), "write one such as 90s, 30m"},
		"a soak in days":                  {"spec.strategy.steps", step("soak", "1d"), "write one such as 90s, 30m"},
		"a soak that nobody waits for":    {"spec.strategy.steps", step("soak", "721h"), "a duration from 1s to 720h"},
		"a Workspace without time":        {"spec.strategy.steps", step("workspaceDeadline", "0s"), "write one such as 30m, 2h"},
		"a Workspace with less":           {"spec.strategy.steps", step("workspaceDeadline", "-1h"), "write one such as 30m, 2h"},
		"a pass without time":             {"spec.strategy.progressDeadline", "0s", "write one such as 30m, 2h"},
		"a pass shorter than a Workspace": {"spec.strategy", map[string]any{"progressDeadline": "1h", "steps": step("workspaceDeadline", "2h")}, "write at least workspaceDeadline and soak of each step together"},
		"a pass shorter than its soaks": {"spec.strategy", map[string]any{"progressDeadline": "2h", "steps": []any{
			map[string]any{"name": "dev", "selector": map[string]any{}, "soak": "1h"}, map[string]any{"name": "prod", "selector": map[string]any{}, "soak": "1h"},
		}}, "write more than the soaks of all steps together"},
		"a commit that means something else": {"spec.strategy.onNewRevision", "Ignore", `supported values: "Finish", "Restart"`},
		"a window that cannot be told":       {"spec.strategy.windows", []any{window("Maybe", "0 8 * * *", "1h", "UTC")}, `supported values: "Allow", "Deny"`},
		"cron of four fields":                {"spec.strategy.windows", []any{window("Allow", "0 8 * *", "1h", "UTC")}, "write five fields"},
		"cron of the 61st minute":            {"spec.strategy.windows", []any{window("Allow", "61 8 * * *", "1h", "UTC")}, "write five fields"},
		"cron as a word":                     {"spec.strategy.windows", []any{window("Allow", "@daily", "1h", "UTC")}, "write five fields"},
		"the 30th of February":               {"spec.strategy.windows", []any{window("Allow", "0 8 30 2 *", "1h", "UTC")}, "a day that no year has"},
		"the 31st of short months":           {"spec.strategy.windows", []any{window("Allow", "0 8 31 JUN,9 *", "1h", "UTC")}, "a day that no year has"},
		"a window of no time":                {"spec.strategy.windows", []any{window("Allow", "0 8 * * *", "0s", "UTC")}, "write one such as 30m, 8h"},
		"a window that ends before":          {"spec.strategy.windows", []any{window("Allow", "0 8 * * *", "-1h", "UTC")}, "write one such as 30m, 8h"},
		"a Deny for all days":                {"spec.strategy.windows", []any{window("Deny", "0 0 * * *", "24h", "UTC")}, "nothing would ever run"},
		"a Deny for all hours":               {"spec.strategy.windows", []any{window("Deny", "0 * * * *", "1h", "UTC")}, "nothing would ever run"},
		"a zone that is none":                {"spec.strategy.windows", []any{window("Allow", "0 8 * * *", "1h", "+02:00")}, "such as Europe/Berlin"},
		"the zone of whatever machine":       {"spec.strategy.windows", []any{window("Allow", "0 8 * * *", "1h", "Local")}, "such as Europe/Berlin"},
		"an approval that says nothing":      {"spec.strategy.steps", step("approval", map[string]any{}), "Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := load(t, "rollout")
			set(t, obj, tc.path, tc.value)
			err := create(c, obj)
			if err == nil {
				t.Fatalf("%s = %v was accepted", tc.path, tc.value)
			}
			if !strings.Contains(err.Error(), tc.message) {
				t.Errorf("%s = %v was refused with\n  %v\nwhich does not say %q", tc.path, tc.value, err, tc.message)
			}
		})
	}
}

func TestARolloutThatPeopleReallyWriteIsAccepted(t *testing.T) {
	c := newClient(t)
	step := func(field string, value any) any {
		return []any{map[string]any{"name": "dev", "selector": map[string]any{"matchLabels": map[string]any{"env": "dev"}}, field: value}}
	}
	for name, tc := range map[string]struct {
		path  string
		value any
	}{
		"one at a time": {"spec.strategy.steps", step("maxParallel", int64(1))},
		"very many":     {"spec.strategy.steps", step("maxParallel", int64(100_000))},
		"a percentage":  {"spec.strategy.steps", step("maxParallel", "20%")},
		"all":           {"spec.strategy.steps", step("maxParallel", "100%")},
		"a soak":        {"spec.strategy.steps", step("soak", "1h30m")},
		"deadlines":     {"spec.strategy", map[string]any{"progressDeadline": "48h", "steps": step("workspaceDeadline", "2h")}},
		"windows": {"spec.strategy.windows", []any{
			window("Allow", "0 8 * * MON-FRI", "9h", "Europe/Berlin"), window("Deny", "0 0 20 12 *", "336h", "America/Argentina/Buenos_Aires"),
			window("Deny", "*/15 1,3-5 1-7 jan-MAR,12 0", "10m", "Etc/GMT+5"), window("Allow", "0 0 31 1-6 *", "1h", "UTC"), window("Deny", "0 8 31 9 MON", "1h", "UTC"),
		}},
		"an approval":        {"spec.strategy.steps", step("approval", map[string]any{"required": true})},
		"an action":          {"spec.strategy.onFailure", map[string]any{"action": "Abort"}},
		"retries":            {"spec.strategy.onFailure", map[string]any{"action": "Retry", "retries": int64(3)}},
		"a step's own word":  {"spec.strategy.steps", step("onFailure", map[string]any{"action": "Continue"})},
		"a pause from birth": {"spec.paused", true},
	} {
		t.Run(name, func(t *testing.T) {
			obj := load(t, "rollout")
			set(t, obj, tc.path, tc.value)
			if err := create(c, obj); err != nil {
				t.Errorf("%s = %v: %v", tc.path, tc.value, err)
			}
		})
	}
}
