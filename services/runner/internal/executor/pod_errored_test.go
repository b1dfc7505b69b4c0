//go:build runpod

package executor

import (
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

func TestAFileThatTheModuleNamesErroredStateDoesNotFailAnApply(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "echo '{}' >errored.tfstate"
  }
}
`}), nil)
	record, _ := p.mustPlan()
	if got := p.newApply(record.Digest).start(runspec.ArgApply).wait(); got.code != runspec.ExitOK {
		t.Errorf("the apply ended with %d: %s\n%s", got.code, got.message, got.log)
	}
}
