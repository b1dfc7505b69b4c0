//go:build runpod

package executor

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
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

// OpenTofu lets the backend depend on variables, wherever they get their values from.
func TestABackendMayDependOnTheTfvarsFile(t *testing.T) {
	w := newWorkspace(t)
	commit := w.repo.Commit(map[string]string{
		"main.tf": `
variable "folder" {
  type = string
}
variable "name" {
  type = string
}
terraform {
  backend "local" {
    path = "${var.folder}/${var.name}"
  }
}
resource "terraform_data" "x" {}
`,
		"envs/dev.tfvars": fmt.Sprintf("folder = %q\nname = \"wrong\"\n", filepath.Dir(w.state)),
	})
	plan := func() (*pod, runspec.Record) {
		p := w.newPlan(commit, map[string]string{"name": filepath.Base(w.state)})
		p.in.TfvarsPath = "envs/dev.tfvars"
		record, _ := p.mustPlan()
		return p, record
	}
	p, record := plan()
	p.mustApply(record.Digest)
	if _, resources := w.stateOf(); resources["terraform_data.x"] == nil {
		t.Errorf("the state holds %v", resources)
	}
	if _, record = plan(); !record.Empty {
		t.Errorf("planned again: %+v", record)
	}
}
