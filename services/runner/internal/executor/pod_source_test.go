//go:build runpod

package executor

import (
	"strings"
	"testing"
)

// OpenTofu lets the source of a module depend on variables; modules are fetched before these have values.
func TestAModuleSourceMayDependOnDefaultsAndNotOnValues(t *testing.T) {
	w := newWorkspace(t)
	files := map[string]string{
		"main.tf": w.backend() + `
variable "which" {
  default = "a"
}
module "m" {
  source = "./${var.which}"
}
output "o" {
  value = module.m.o
}
`,
		"a/main.tf": "output \"o\" {\n  value = \"module a\"\n}\n", "b/main.tf": "output \"o\" {\n  value = \"module b\"\n}\n",
	}
	commit := w.repo.Commit(files)
	if _, result := w.newPlan(commit, nil).mustPlan(); !strings.Contains(result.tool.log, "module a") {
		t.Errorf("planned\n%s", result.tool.log)
	}
	_, result := w.newPlan(commit, map[string]string{"which": "b"}).mustFail(reasonPlanFailed)
	if !strings.Contains(result.tool.message, "before variables have values") {
		t.Errorf("with another value tool says %q", result.tool.message)
	}
	files["main.tf"] = strings.Replace(files["main.tf"], `default = "a"`, "", 1)
	record, _ := w.newPlan(w.repo.Commit(files), map[string]string{"which": "b"}).mustFail(reasonPlanFailed)
	if !strings.Contains(record.Message, "before variables have values") {
		t.Errorf("without a default the record says %q", record.Message)
	}
}
