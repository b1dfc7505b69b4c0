package execution

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"magosproject.io/services/runner/internal/runspec"
)

func TestCheckNamesTheFieldThatIsWrong(t *testing.T) {
	plan := map[string]struct {
		change func(*Request)
		field  string
	}{
		"no namespace":            {func(r *Request) { r.Namespace = "" }, "key.workspace.namespace"},
		"no name":                 {func(r *Request) { r.Workspace = "" }, "key.workspace.name"},
		"name too long":           {func(r *Request) { r.Workspace = strings.Repeat("a", 64) }, "key.workspace.name"},
		"no uid":                  {func(r *Request) { r.WorkspaceUID = "" }, "key.workspace.uid"},
		"run id of another":       {func(r *Request) { r.RunID = "11111111-x" }, "key.run_id"},
		"run id too long":         {func(r *Request) { r.RunID = testUID + "-" + strings.Repeat("a", 40) }, "key.run_id"},
		"run id climbs":           {func(r *Request) { r.RunID = testUID + "-../../x" }, "key.run_id"},
		"no phase":                {func(r *Request) { r.Phase = "" }, "key.phase"},
		"no repository":           {func(r *Request) { r.RepoURL = "" }, "source.repo_url"},
		"repository is an option": {func(r *Request) { r.RepoURL = "--upload-pack=x" }, "source.repo_url"},
		"repository with newline": {func(r *Request) { r.RepoURL = "https://a\nb" }, "source.repo_url"},
		"branch as revision":      {func(r *Request) { r.Revision = "main" }, "source.revision"},
		"short revision":          {func(r *Request) { r.Revision = "0123456" }, "source.revision"},
		"target is an option":     {func(r *Request) { r.TargetRevision = "-x" }, "source.target_revision"},
		"path leaves":             {func(r *Request) { r.Path = "a/../../b" }, "source.path"},
		"path is absolute":        {func(r *Request) { r.Path = "/etc" }, "source.path"},
		"no path":                 {func(r *Request) { r.Path = "" }, "source.path"},
		"engine":                  {func(r *Request) { r.Engine = "Pulumi" }, "tool.engine"},
		"version range":           {func(r *Request) { r.ToolVersion = "~> 1.5" }, "tool.version"},
		"version climbs":          {func(r *Request) { r.ToolVersion = "1.5.7/../x" }, "tool.version"},
		"tfvars leaves":           {func(r *Request) { r.TfvarsPath = "../x.tfvars" }, "tfvars_path"},
		"account":                 {func(r *Request) { r.ServiceAccount = "Not A Name" }, "service_account_name"},
		"no timeout":              {func(r *Request) { r.Timeout = 0 }, "timeout"},
		"timeout too long":        {func(r *Request) { r.Timeout = 8 * 24 * time.Hour }, "timeout"},
		"annotation of ours":      {func(r *Request) { r.PodAnnotations = map[string]string{"magosproject.io/x": ""} }, "pod_annotations"},
		"annotation key":          {func(r *Request) { r.PodAnnotations = map[string]string{"a b": ""} }, "pod_annotations"},
		"digest in a plan":        {func(r *Request) { r.PlanDigest = "sha256:aaaaaaaa" }, "plan_digest"},
		"variable name":           {func(r *Request) { r.Variables[0].Name = "a=b" }, "variables[0].name"},
		"variable twice":          {func(r *Request) { r.Variables[1].Name = r.Variables[0].Name }, "variables[1].name"},
		"two sources":             {func(r *Request) { r.Variables[1].Value = ptr.To("") }, "variables[1]"},
		"no source":               {func(r *Request) { r.Variables[0].Value = nil }, "variables[0]"},
		"secret name":             {func(r *Request) { r.Variables[1].Secret.Name = "../x" }, "variables[1].secret_key_ref.name"},
		"secret key":              {func(r *Request) { r.Variables[1].Secret.Key = "../x" }, "variables[1].secret_key_ref.key"},
		"repository secret":       {func(r *Request) { r.RepositorySecrets = []string{"../x"} }, "repository_secrets[0]"},
		"repository secret twice": {func(r *Request) { r.RepositorySecrets = []string{"a", "a"} }, "repository_secrets[1]"},
		"repository secrets": {func(r *Request) {
			r.RepositorySecrets = slices.Repeat([]string{"a"}, maxRepositorySecrets+1)
		}, "repository_secrets"},
		"literals too large": {func(r *Request) { r.Variables[0].Value = ptr.To(strings.Repeat("x", 1<<20)) }, "variables"},
	}
	for name, c := range plan {
		r := planRequest()
		c.change(&r)
		expectViolation(t, name, Check(r), c.field)
	}
	apply := map[string]struct {
		change func(*Request)
		field  string
	}{
		"no digest": {func(r *Request) { r.PlanDigest = "" }, "plan_digest"},
		"variables": {func(r *Request) { r.Variables = planRequest().Variables }, "variables"},
		"secrets":   {func(r *Request) { r.RepositorySecrets = []string{"a"} }, "repository_secrets"},
		"tfvars":    {func(r *Request) { r.TfvarsPath = "x.tfvars" }, "tfvars_path"},
	}
	for name, c := range apply {
		r := applyRequest()
		c.change(&r)
		expectViolation(t, name, Check(r), c.field)
	}
}

func expectViolation(t *testing.T, name string, got []Violation, field string) {
	t.Helper()
	if !slices.ContainsFunc(got, func(v Violation) bool { return v.Field == field && v.Description != "" }) {
		t.Errorf("%s: %v, want one of %s", name, got, field)
	}
}

func TestCheckReportsEverythingAtOnce(t *testing.T) {
	if got := Check(Request{}); len(got) < 10 {
		t.Errorf("%d violations of an empty request: %v", len(got), got)
	}
}

func TestToolGraceLeavesTimeToReport(t *testing.T) {
	for _, grace := range []time.Duration{2 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute} {
		s := testSettings()
		s.PlanGrace = grace
		got := time.Duration(Instruct(planRequest(), s, PlanFacts{}).Grace)
		if got <= 0 || got >= grace {
			t.Errorf("of %s the tool gets %s", grace, got)
		}
	}
	if in := Instruct(applyRequest(), testSettings(), PlanFacts{}); in.Phase != runspec.PhaseApply || in.PlanDigest == "" {
		t.Errorf("instructions of an apply: %+v", in)
	}
}
