// Package admission holds the tests of what the API server accepts and refuses of our resources.
package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"magosproject.io/internal/testcluster"
)

// load reads a manifest of testdata as a user would apply it.
func load(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(data, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// create sends obj the way kubectl does: unknown fields are errors, and nothing is kept.
func create(c client.Client, obj *unstructured.Unstructured) error {
	return c.Create(context.Background(), obj, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

func set(t *testing.T, obj *unstructured.Unstructured, path string, value any) {
	t.Helper()
	fields := strings.Split(path, ".")
	if value == nil {
		unstructured.RemoveNestedField(obj.Object, fields...)
		return
	}
	if err := unstructured.SetNestedField(obj.Object, value, fields...); err != nil {
		t.Fatalf("setting %s: %v", path, err)
	}
}

func TestTheManifestsOfTheDocumentationApplyUnchanged(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"project", "rollout", "workspace", "variableset"} {
		t.Run(name, func(t *testing.T) {
			if err := create(c, load(t, name)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDefaultsOfAWorkspace(t *testing.T) {
	c := newClient(t)
	ws := load(t, "workspace")
	set(t, ws, "spec.source.path", nil)
	if err := create(c, ws); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"spec.autoApply": true, "spec.discardStalePlan": false, "spec.suspend": false, "spec.serviceAccountName": "magos-job",
		"spec.source.path": ".", "spec.terraform.engine": "Terraform", "spec.mountServiceAccountToken": false,
	}
	for path, value := range want {
		got, _, err := unstructured.NestedFieldNoCopy(ws.Object, strings.Split(path, ".")...)
		if err != nil || got != value {
			t.Errorf("%s = %v (%v), want %v", path, got, err, value)
		}
	}
}

// TestWhatIsWrongIsRefusedWithAMessageThatSaysWhatToWrite holds one entry per way to be wrong.
func TestWhatIsWrongIsRefusedWithAMessageThatSaysWhatToWrite(t *testing.T) {
	c := newClient(t)
	variables := func(vars ...any) []any { return vars }
	step := func(name string) any {
		return map[string]any{"name": name, "selector": map[string]any{"matchLabels": map[string]any{"env": "dev"}}}
	}
	secretRef := map[string]any{"name": "s", "key": "k"}
	cases := map[string]struct {
		manifest, path string
		value          any
		message        string
	}{
		"rollout named otherwise than its project": {"rollout", "spec.projectRef", "other", "write the same text in metadata.name and spec.projectRef"},
		"rollout without steps":                    {"rollout", "spec.strategy.steps", []any{}, "write at least one step"},
		"rollout without a list of steps":          {"rollout", "spec.strategy.steps", nil, "Required value"},
		"two steps of one name":                    {"rollout", "spec.strategy.steps", []any{step("dev"), step("prod"), step("dev")}, "give each step a name of its own"},
		"a step without a name":                    {"rollout", "spec.strategy.steps", []any{step("")}, "the name of a step is empty"},
		"an unknown field":                         {"rollout", "spec.strategie", "x", "unknown field"},
		"no project":                               {"workspace", "spec.projectRef.name", "", "write the name of a Project"},
		"no repository":                            {"workspace", "spec.source.repoURL", "", "write the URL of a Git repository"},
		"a repository that is an option":           {"workspace", "spec.source.repoURL", "--upload-pack=touch /tmp/x", "write the URL of a Git repository"},
		"a repository without a scheme":            {"workspace", "spec.source.repoURL", "infra", "write https://host/path"},
		"a remote helper":                          {"workspace", "spec.source.repoURL", "ext::sh -c touch%20/tmp/x", "write the URL of a Git repository"},
		"a password in the URL":                    {"workspace", "spec.source.repoURL", "https://me:secret@example.com/infra.git", "write the URL without it"},
		"no revision":                              {"workspace", "spec.source.targetRevision", "", "write a branch, a tag or a full commit SHA"},
		"a revision that is an option":             {"workspace", "spec.source.targetRevision", "-main", "write a branch, a tag or a full commit SHA"},
		"a revision that is an expression":         {"workspace", "spec.source.targetRevision", "main~1", "write a branch, a tag or a full commit SHA"},
		"a range of revisions":                     {"workspace", "spec.source.targetRevision", "a..b", "write a branch, a tag or a full commit SHA"},
		"a path that leaves the repository":        {"workspace", "spec.source.path", "../other", "write the folder from the repository's root"},
		"a path that leaves it in the middle":      {"workspace", "spec.source.path", "infra/../../other", "write the folder from the repository's root"},
		"a path that leaves it at the end":         {"workspace", "spec.source.path", "infra/..", "write the folder from the repository's root"},
		"a path with backslashes":                  {"workspace", "spec.source.path", `infra\dev`, "with forward slashes"},
		"a tfvars file outside the repository":     {"workspace", "spec.terraform.tfvarsPath", "../secret.tfvars", "write the file from the repository's root"},
		"no version":                               {"workspace", "spec.terraform.version", "", "write one such as 1.14.8"},
		"a version with a v":                       {"workspace", "spec.terraform.version", "v1.14.8", "without a leading v"},
		"half a version":                           {"workspace", "spec.terraform.version", "1.14", "write one such as 1.14.8"},
		"a range of versions":                      {"workspace", "spec.terraform.version", ">= 1.5", "without a range"},
		"a version by name":                        {"workspace", "spec.terraform.version", "latest", "write one such as 1.14.8"},
		"a version that climbs out of its folder":  {"workspace", "spec.terraform.version", "1.2.3-../x", "write one such as 1.14.8"},
		"an engine that does not exist":            {"workspace", "spec.terraform.engine", "Pulumi", `supported values: "Terraform", "OpenTofu"`},
		"a plan timeout of zero":                   {"workspace", "spec.plan.timeoutSeconds", int64(0), "write a number of seconds"},
		"a negative plan timeout":                  {"workspace", "spec.plan.timeoutSeconds", int64(-1), "write a number of seconds"},
		"a negative apply timeout":                 {"workspace", "spec.apply.timeoutSeconds", int64(-5), "write a number of seconds"},
		"an endless apply timeout":                 {"workspace", "spec.apply.timeoutSeconds", int64(9_000_000), "write a number of seconds"},
		"retries below zero":                       {"workspace", "spec.retry.limit", int64(-1), "0 for never, or leave it out for no limit"},
		"endless retries by number":                {"workspace", "spec.retry.limit", int64(1001), "0 for never, or leave it out for no limit"},
		"a retry interval that is none":            {"workspace", "spec.retry.maxInterval", "soon", "write one such as 90s, 30m or 1h30m"},
		"an empty retry interval":                  {"workspace", "spec.retry.maxInterval", "", "write one such as 90s, 30m or 1h30m"},
		"a retry interval without a unit":          {"workspace", "spec.retry.maxInterval", "90", "write one such as 90s, 30m or 1h30m"},
		"a retry interval of nothing":              {"workspace", "spec.retry.maxInterval", "0s", "write one such as 90s, 30m or 1h30m"},
		"a negative retry interval":                {"workspace", "spec.retry.maxInterval", "-5m", "write one such as 90s, 30m or 1h30m"},
		"a retry interval of years":                {"workspace", "spec.retry.maxInterval", "99999h", "write one such as 90s, 30m or 1h30m"},
		"a workspace name that labels cannot hold": {"workspace", "metadata.name", strings.Repeat("a", 64), "at most 63 characters"},
		"a set reference without a name":           {"workspace", "spec.variableSetRef", variables(map[string]any{"name": ""}), "write the name of a VariableSet"},
		"an unknown orchestration":                 {"project", "spec.orchestration", "None", `supported values: "Auto", "Rollout"`},
		"a variable with two sources":              {"variableset", "spec.variables", variables(map[string]any{"name": "a", "value": "1", "valueFrom": map[string]any{"secretKeyRef": secretRef}}), "write value or valueFrom"},
		"a variable without a source":              {"variableset", "spec.variables", variables(map[string]any{"name": "a"}), "write value or valueFrom"},
		"a reference to two things":                {"variableset", "spec.variables", variables(map[string]any{"name": "a", "valueFrom": map[string]any{"secretKeyRef": secretRef, "configMapKeyRef": secretRef}}), "write secretKeyRef or configMapKeyRef"},
		"a reference to nothing":                   {"variableset", "spec.variables", variables(map[string]any{"name": "a", "valueFrom": map[string]any{}}), "write secretKeyRef or configMapKeyRef"},
		"a reference into another namespace":       {"variableset", "spec.variables", variables(map[string]any{"name": "a", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k", "namespace": "kube-system"}}}), "unknown field"},
		"one variable twice":                       {"variableset", "spec.variables", variables(map[string]any{"name": "a", "value": "1"}, map[string]any{"name": "a", "value": "2"}), "write each name once in a VariableSet"},
		"one variable twice, far apart":            {"variableset", "spec.variables", append(manyVariables(127), map[string]any{"name": manyVariables(1)[0].(map[string]any)["name"], "value": "2"}), "write each name once in a VariableSet"},
		"one variable twice among very many":       {"variableset", "spec.variables", append(manyVariables(511), map[string]any{"name": manyVariables(1)[0].(map[string]any)["name"], "value": "2"}), "Duplicate value"},
		"a name that begins with a digit":          {"variableset", "spec.variables", variables(map[string]any{"name": "1a", "value": "1"}), "not a Terraform identifier"},
		"a name with a dot":                        {"variableset", "spec.variables", variables(map[string]any{"name": "my-key.name", "value": "1"}), "not a Terraform identifier"},
		"a name that is not ASCII":                 {"variableset", "spec.variables", variables(map[string]any{"name": "größe", "value": "1"}), "not a Terraform identifier"},
		"an empty name":                            {"variableset", "spec.variables", variables(map[string]any{"name": "", "value": "1"}), "not a Terraform identifier"},
		"a name with a line break":                 {"variableset", "spec.variables", variables(map[string]any{"name": "a\nb", "value": "1"}), "not a Terraform identifier"},
		"a reference without a key":                {"variableset", "spec.variables", variables(map[string]any{"name": "a", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": ""}}}), "write a key of the Secret or ConfigMap"},
		"a reference that leaves the key out":      {"variableset", "spec.variables", variables(map[string]any{"name": "a", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s"}}}), "write a key of the Secret or ConfigMap"},
		"a reference that leaves the name out":     {"variableset", "spec.variables", variables(map[string]any{"name": "a", "valueFrom": map[string]any{"configMapKeyRef": map[string]any{"key": "k"}}}), "write the name of a Secret or ConfigMap"},
		"a variable that leaves the name out":      {"variableset", "spec.variables", variables(map[string]any{"value": "1"}), "spec.variables[0].name: Required value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			obj := load(t, tc.manifest)
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

// manyVariables are n variables with the longest of names, which differ at the end alone.
func manyVariables(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprintf("%s%04d", strings.Repeat("n", 124), i), "value": "1"}
	}
	return list
}

// TestAFullVariableSetIsAccepted: a rule that costs too much would refuse what it has nothing against.
func TestAFullVariableSetIsAccepted(t *testing.T) {
	c := newClient(t)
	obj := load(t, "variableset")
	for _, n := range []int{128, 512} {
		set(t, obj, "spec.variables", manyVariables(n))
		if err := create(c, obj); err != nil {
			t.Errorf("%d variables: %v", n, err)
		}
	}
	set(t, obj, "spec.variables", manyVariables(513))
	if err := create(c, obj); err == nil || !strings.Contains(err.Error(), "must have at most 512 items") {
		t.Errorf("513 variables: %v", err)
	}
}

func TestWhatPeopleReallyWriteIsAccepted(t *testing.T) {
	c := newClient(t)
	cases := map[string]struct {
		path  string
		value any
	}{
		"ssh":                         {"spec.source.repoURL", "ssh://git@example.com:2222/team/infra.git"},
		"scp-like ssh":                {"spec.source.repoURL", "git@example.com:team/infra.git"},
		"a user name in the URL":      {"spec.source.repoURL", "https://team@dev.azure.com/team/p/_git/infra"},
		"a full tag":                  {"spec.source.targetRevision", "refs/tags/v1.0"},
		"a tag of a monorepo":         {"spec.source.targetRevision", "@name/sub@v1.0.1"},
		"a tag of digits":             {"spec.source.targetRevision", "20260817"},
		"HEAD":                        {"spec.source.targetRevision", "HEAD"},
		"a commit":                    {"spec.source.targetRevision", "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334"},
		"a leading dot":               {"spec.source.path", ".infra/dev"},
		"a leading slash":             {"spec.source.path", "/infra/dev"},
		"a doubled slash":             {"spec.source.path", "infra//dev/"},
		"a space and an umlaut":       {"spec.source.path", "infra/my büro"},
		"dots that are no parent":     {"spec.source.path", "infra/..dev/a..b"},
		"a pre-release":               {"spec.terraform.version", "1.12.0-rc1"},
		"a dotted pre-release":        {"spec.terraform.version", "1.12.0-beta.2"},
		"OpenTofu":                    {"spec.terraform.engine", "OpenTofu"},
		"a name of 63 characters":     {"metadata.name", strings.Repeat("a", 63)},
		"a name with dots":            {"metadata.name", "vpc.eu-west-1.dev"},
		"a timeout of one second":     {"spec.plan.timeoutSeconds", int64(1)},
		"no retry at all":             {"spec.retry.limit", int64(0)},
		"a retry interval":            {"spec.retry.maxInterval", "1h30m"},
		"a long retry interval":       {"spec.retry.maxInterval", "720h"},
		"a suspended Workspace":       {"spec.suspend", true},
		"a tfvars file in a folder":   {"spec.terraform.tfvarsPath", "env/dev.tfvars"},
		"approval before every apply": {"spec.autoApply", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ws := load(t, "workspace")
			set(t, ws, tc.path, tc.value)
			if err := create(c, ws); err != nil {
				t.Errorf("%s = %v: %v", tc.path, tc.value, err)
			}
		})
	}
}

func TestAWorkspaceCannotMoveToAnotherProject(t *testing.T) {
	c := newClient(t)
	ws := load(t, "workspace")
	if err := c.Create(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	set(t, ws, "spec.projectRef.name", "another")
	err := c.Update(t.Context(), ws)
	if err == nil || !strings.Contains(err.Error(), "delete the Workspace and create it in the other Project") {
		t.Fatalf("got %v", err)
	}
}

// config is of the one API server that the tests of this package share.
var config *rest.Config

func TestMain(m *testing.M) {
	testcluster.Main(m, func(c *rest.Config) { config = c })
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
