//go:build runpod

package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// The sources of values, those that win last. A set is the winner among VariableSets: the Workspace's over the Project's is
// decided before the run begins.
const (
	fromDefaultFile = "terraform.tfvars"
	fromDefaultJSON = "terraform.tfvars.json"
	fromAutoHCL     = "a.auto.tfvars"
	fromAutoJSON    = "b.auto.tfvars.json"
	fromTfvarsPath  = "../envs/dev.tfvars"
	fromSet         = "set"
)

var sources = []string{fromDefaultFile, fromDefaultJSON, fromAutoHCL, fromAutoJSON, fromTfvarsPath, fromSet}

// kind is a type of variable with two values of it.
type kind struct {
	name, declared string
	// values as Go has them.
	values [2]any
	// texts are the values as a set gives them; empty for the JSON of the value, or the value itself where it is a string.
	texts [2]string
	// onlySets leaves out pairs of two files: what a file says is the tool's own business, and large ones take it long.
	onlySets bool
}

var kinds = []kind{
	{name: "string", declared: "string", values: [2]any{"one", "two"}},
	{name: "untyped", values: [2]any{"007", "true"}},
	{name: "empty", declared: "string", values: [2]any{"", " "}},
	{name: "number", declared: "number", values: [2]any{json.Number("1.5"), json.Number("12345678901234567890")}},
	{name: "bool", declared: "bool", values: [2]any{true, false}},
	{name: "list", declared: "list(string)", values: [2]any{[]any{"a", "b"}, []any{}}},
	{name: "object", declared: "object({ a = string, l = list(number), o = optional(bool) })", values: [2]any{
		map[string]any{"a": "x", "l": []any{json.Number("1")}, "o": nil}, map[string]any{"a": "q\"\\\n", "l": []any{}, "o": true}}},
	{name: "any", declared: "any", values: [2]any{[]any{"a", json.Number("1"), map[string]any{"b": nil}}, map[string]any{"k": "v"}}},
	{name: "hcl", declared: "map(string)", values: [2]any{map[string]any{"a": "${x}"}, map[string]any{"b": "%{if}"}},
		texts: [2]string{"{\n  a = \"$${x}\"\n}", `{ b = "%%{if}" }`}},
	{name: "null", declared: "list(string)", values: [2]any{nil, []any{"x"}}},
	{name: "lines", declared: "string", values: [2]any{"a\nb\n", "\r\n\tx\n\n"}},
	{name: "quotes", declared: "string", values: [2]any{`"a" 'b' \c \\n`, `{"a":1} ${HOME} %{if} "q" 'x' $(id) \n \\`}},
	{name: "templates", declared: "string", values: [2]any{"${x} $${x} %{if} %%{if}", "$$ $$$"}},
	{name: "reference", declared: "string", values: [2]any{"$(HOME) $$(HOME)", "-var=x"}},
	{name: "unicode", declared: "string", values: [2]any{"größe 日本 😀", "\u0001\u2028é"}},
	{name: "large", declared: "string", values: [2]any{strings.Repeat("0123456789ü\"${x}\n", 30_000), "small"}, onlySets: true},
	{name: "large_list", declared: "list(string)", values: [2]any{[]any{strings.Repeat("a${", 170_000), "x"}, []any{"small"}}, onlySets: true},
}

func (k kind) text(i int) string {
	if k.texts[i] != "" {
		return k.texts[i]
	}
	if text, isString := k.values[i].(string); isString && (k.declared == "string" || k.declared == "") {
		return text
	}
	// A set gives lists and objects as expressions, in which templates are templates.
	return templates.Replace(asJSON(k.values[i]))
}

var templates = strings.NewReplacer("${", "$${", "%{", "%%{")

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// matrix is one module whose every variable is defined in two sources, with different values.
type matrix struct {
	module string
	// files by source, as members of them.
	files map[string]map[string]any
	set   map[string]string
	want  map[string]any
	// shadowed are the lines that the log must have.
	shadowed []string
}

func newMatrix() matrix {
	m := matrix{files: map[string]map[string]any{}, set: map[string]string{}, want: map[string]any{}}
	var module strings.Builder
	for _, k := range kinds {
		for i, loser := range sources {
			for j, winner := range sources[i+1:] {
				if k.onlySets && winner != fromSet {
					continue
				}
				name := fmt.Sprintf("%s_%d_%d", k.name, i, i+1+j)
				fmt.Fprintf(&module, "variable %q {\n", name)
				if k.declared != "" {
					fmt.Fprintf(&module, "  type = %s\n", k.declared)
				}
				module.WriteString("}\n")
				// Each value wins in every second pair.
				first := (i + j) % 2
				if k.onlySets {
					first = 1
				}
				m.define(loser, name, k, first)
				m.define(winner, name, k, 1-first)
				m.want[name] = k.values[1-first]
				if winner == fromSet || winner == fromTfvarsPath {
					m.shadowed = append(m.shadowed, fmt.Sprintf("variable=%s file=%s", name, filepath.Join("m", loser)))
				}
			}
		}
	}
	m.module = module.String()
	return m
}

func (m matrix) define(source, name string, k kind, value int) {
	if source == fromSet {
		m.set[name] = k.text(value)
		return
	}
	if m.files[source] == nil {
		m.files[source] = map[string]any{}
	}
	m.files[source][name] = k.values[value]
}

// repository is the files of the module. HCL files have the members as JSON expressions, in which templates are templates.
func (m matrix) repository() map[string]string {
	files := map[string]string{}
	for source, members := range m.files {
		content := asJSON(members)
		if !strings.HasSuffix(source, ".json") {
			var lines strings.Builder
			for _, name := range slices.Sorted(maps.Keys(members)) {
				fmt.Fprintf(&lines, "%s = %s\n", name, templates.Replace(asJSON(members[name])))
			}
			content = lines.String()
		}
		files[filepath.Join("m", source)] = content
	}
	return files
}

func (m matrix) outputs() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.want)) {
		fmt.Fprintf(&text, "output %q {\n  value = var.%s\n}\n", name, name)
	}
	return text.String()
}

// check compares what arrived with what should have.
func (m matrix) check(t *testing.T, where string, got map[string]any) {
	t.Helper()
	for name, want := range m.want {
		value, found := got[name]
		if !found && want != nil || !reflect.DeepEqual(normal(value), normal(want)) {
			t.Errorf("%s: %s is %.200q, want %.200q", where, name, asJSON(value), asJSON(want))
		}
	}
}

// normal writes numbers the same way.
func normal(value any) any {
	decoder := json.NewDecoder(strings.NewReader(asJSON(value)))
	decoder.UseNumber()
	var again any
	if err := decoder.Decode(&again); err != nil {
		panic(err)
	}
	return again
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	file, err := os.Open(name)
	must(t, err)
	defer func() { _ = file.Close() }()
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	must(t, decoder.Decode(into))
}

func outputsOf(t *testing.T, name string) map[string]any {
	t.Helper()
	var state struct {
		Outputs map[string]struct{ Value any }
	}
	readJSON(t, name, &state)
	values := map[string]any{}
	for name, output := range state.Outputs {
		values[name] = output.Value
	}
	return values
}

// plannedOutputs are the outputs of the sealed plan, as the tool itself shows them.
func (p *pod) plannedOutputs() map[string]any {
	p.t.Helper()
	var plan struct {
		PlannedValues struct {
			Outputs map[string]struct{ Value any }
		} `json:"planned_values"`
	}
	readJSON(p.t, filepath.Join(p.dir, "shown", shownJSON), &plan)
	outputs := map[string]any{}
	for name, output := range plan.PlannedValues.Outputs {
		outputs[name] = output.Value
	}
	return outputs
}

// rotate mounts the plan's variables into the pod of the apply, with the values that they have by then.
func (p *pod) rotate(digest string, values map[string]string) *pod {
	p.t.Helper()
	apply := p.newApply(digest)
	apply.in.Variables, apply.in.Literals = p.in.Variables, p.in.Literals
	for i, name := range p.in.Variables {
		put(p.t, filepath.Join(apply.dir, "variables", fmt.Sprint(i)), values[name])
	}
	return apply
}

// TestPrecedenceIsTrueOfTheToolForEverySourceAndType (C39, C40): for each pair of sources and each type the value of the
// winner is in the plan as it was written, and in what the apply made, although every set has another value by then.
func TestPrecedenceIsTrueOfTheToolForEverySourceAndType(t *testing.T) {
	w := newWorkspace(t)
	m := newMatrix()
	files := m.repository()
	files["m/main.tf"] = w.backend() + m.module + m.outputs()
	p := w.newPlan(w.repo.Commit(files), m.set)
	p.in.Path, p.in.TfvarsPath = "m", "envs/dev.tfvars"
	record, result := p.mustPlan()
	if len(record.Warnings) > 0 {
		t.Errorf("warnings: %q", record.Warnings)
	}
	m.check(t, "the plan", p.plannedOutputs())
	for _, line := range m.shadowed {
		if !strings.Contains(result.tool.log, line) {
			t.Errorf("the log does not say %q", line)
		}
	}

	rotated := maps.Clone(m.set)
	for name := range rotated {
		rotated[name] = "rotated"
	}
	apply := p.rotate(record.Digest, rotated)
	w.repo.Commit(map[string]string{"envs/dev.tfvars": "", "m/a.auto.tfvars": "", "m/terraform.tfvars": "broken"})
	if end := apply.start(runspec.ArgApply).wait(); end.code != 0 {
		t.Fatalf("the apply ended with %d: %s\n%s", end.code, end.message, end.log)
	}
	m.check(t, "the state", outputsOf(t, w.state))
}

// TestAnApplyGetsEphemeralVariablesFreshAndTheOthersAsPlanned (C43).
func TestAnApplyGetsEphemeralVariablesFreshAndTheOthersAsPlanned(t *testing.T) {
	w := newWorkspace(t)
	mark := filepath.Join(w.root, "mark")
	commit := w.repo.Commit(map[string]string{
		"main.tf": w.backend() + `
variable "token" {
  type      = string
  ephemeral = true
}
variable "filed" {
  type      = string
  ephemeral = true
}
variable "size" {}
variable "zone" {}
resource "terraform_data" "x" {
  input = "${var.size} ${var.zone}"
  provisioner "local-exec" {
    command     = "printf %s \"$T $F\" >` + mark + `"
    environment = { T = var.token, F = var.filed }
  }
}
`,
		"dev.tfvars":       "filed = \"from a file\"\nzone = \"planned\"\n",
		"terraform.tfvars": "zone = \"shadowed\"\n",
	})
	p := w.newPlan(commit, map[string]string{"token": "token-of-plan", "size": "planned"})
	p.in.TfvarsPath = "dev.tfvars"
	record, _ := p.mustPlan()
	for _, name := range []string{confidentialName, planName} {
		content, err := os.ReadFile(filepath.Join(w.root, "data", "runs", "run-1", "sealed", "work", name))
		must(t, err)
		if strings.Contains(string(content), "token-of-plan") {
			t.Errorf("the ephemeral value is in %s", name)
		}
	}
	apply := p.rotate(record.Digest, map[string]string{"token": "token-of-apply", "size": "rotated"})
	if end := apply.start(runspec.ArgApply).wait(); end.code != 0 {
		t.Fatalf("the apply ended with %d: %s\n%s", end.code, end.message, end.log)
	}
	if got, err := os.ReadFile(mark); err != nil || string(got) != "token-of-apply from a file" {
		t.Errorf("the provisioner got %q, %v", got, err)
	}
	if _, resources := w.stateOf(); fmt.Sprint(resources["terraform_data.x"]["input"]) != fmt.Sprint(map[string]any{"type": "string", "value": "planned planned"}) {
		t.Errorf("the state has %v", resources)
	}
}

// TestRotatedSecretsAreMaskedAsTheyWereAndAsTheyAre (C72): the plan carries the old value to the apply, and the new one is
// mounted there.
func TestRotatedSecretsAreMaskedAsTheyWereAndAsTheyAre(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
variable "pw" {}
variable "token" {
  ephemeral = true
}
variable "region" {}
variable "pin" {}
resource "terraform_data" "x" {
  input = var.region
  provisioner "local-exec" {
    command     = "echo pw=${var.pw} region=${var.region} pin=${var.pin} token=$T $(printf %s \"user:${var.pw}\" | base64); exit 1"
    environment = { T = var.token }
  }
}
`}), map[string]string{"pw": "old-secret'1", "token": "old-token-1", "region": "eu-central-1", "pin": "4711"})
	p.in.Literals, p.in.Secrets = []string{"region"}, []string{"pw", "token"}
	record, planned := p.mustPlan()
	want := []string{"these variables come from Secrets and the module does not declare them sensitive, so plans may show their values: pw, token"}
	if !slices.Equal(record.Warnings, want) {
		t.Errorf("warnings: %q", record.Warnings)
	}
	if !strings.Contains(planned.tool.log, "eu-central-1") || !strings.Contains(planned.tool.log, "too short to be masked") || strings.Contains(planned.tool.log, "4711") {
		t.Errorf("the plan's log:\n%s", planned.tool.log)
	}
	end := p.rotate(record.Digest, map[string]string{"pw": "new-secret-2", "token": "new-token-2", "region": "eu-central-1", "pin": "4711"}).
		start(runspec.ArgApply).wait()
	if end.code != runspec.ExitToolFailed || !strings.Contains(end.log, "region=eu-central-1 pin=4711") || !strings.Contains(end.message, "pw=(masked)") {
		t.Errorf("the apply ended with %d: %s\n%s", end.code, end.message, end.log)
	}
	for _, secret := range []string{"old-secret", "new-secret", "new-token", "b2xkLXNlY3JldC"} {
		if strings.Contains(end.log, secret) || strings.Contains(end.message, secret) {
			t.Errorf("%s shows:\n%s\n%s", secret, end.message, end.log)
		}
	}
}

// TestWhatTheModuleDoesNotDeclareIsAWarning (C39): the tools say nothing of a misspelt TF_VAR_ name.
func TestWhatTheModuleDoesNotDeclareIsAWarning(t *testing.T) {
	w := newWorkspace(t)
	variables := map[string]string{"evn": "prod", "size": "1"}
	for i := range 40 {
		variables[fmt.Sprintf("long_name_of_a_variable_%02d", i)] = "x"
	}
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
variable "env" { default = "dev" }
variable "size" { sensitive = true }
output "o" {
  value = var.env
}
`}), variables)
	p.in.Secrets = []string{"size", "evn"}
	record, result := p.mustPlan()
	if len(record.Warnings) != 1 || !strings.HasPrefix(record.Warnings[0], "the module does not declare these variables") ||
		!strings.Contains(record.Warnings[0], ": evn, long_name_of_a_variable_00, ") || !strings.HasSuffix(record.Warnings[0], " and 35 more") {
		t.Errorf("warnings: %q", record.Warnings)
	}
	if len(result.keeper.message) > runspec.MaxRecordBytes {
		t.Errorf("the record has %d bytes", len(result.keeper.message))
	}
	for role, log := range map[string]string{"keeper": result.keeper.log, "tool": result.tool.log} {
		if !strings.Contains(log, "evn") {
			t.Errorf("the log of %s does not say it:\n%s", role, log)
		}
	}
}

// TestASecretThatTheToolBreaksAtABlankIsMasked: the tools fill the lines of an error.
func TestASecretThatTheToolBreaksAtABlankIsMasked(t *testing.T) {
	w := newWorkspace(t)
	phrase := "correct horse battery staple purple monkey dishwasher"
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
variable "phrase" {}
output "o" {
  value = 1
  precondition {
    condition     = var.phrase == ""
    error_message = "This is a long message that fills its line, so that it breaks: ${var.phrase}."
  }
}
`}), map[string]string{"phrase": phrase})
	_, result := p.mustFail(reasonPlanFailed)
	if !strings.Contains(result.tool.log, "(masked).") || !strings.Contains(result.tool.message, "(masked).") {
		t.Errorf("nothing is masked:\n%s", result.tool.log)
	}
	for _, word := range []string{"horse", "battery", "dishwasher"} {
		if strings.Contains(result.tool.log+result.tool.message, word) {
			t.Errorf("%q shows:\n%s", word, result.tool.log)
		}
	}
}
