//go:build runpod

package executor

import (
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

const secretValue = "correct-horse-battery"

func (w *workspace) secretModule() map[string]string {
	return map[string]string{"main.tf": w.backend() + `
variable "pw" {
  sensitive = true
}
resource "terraform_data" "x" {
  input = "user=${var.pw}"
}
`}
}

func TestWhatPeopleReadOfAPlanStandsInKeepersLog(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(w.secretModule()), map[string]string{"pw": secretValue})
	record, planned := p.mustPlan()
	packed, err := runspec.FindReview([]byte(planned.keeper.log), record.Review)
	must(t, err)
	review, err := runspec.DecodeReview(packed, p.in.RunID, record.Digest)
	must(t, err)
	if len(review.Changes) != 1 || review.Changes[0].Address != "terraform_data.x" || review.Total != 1 {
		t.Errorf("the changes are %+v of %d", review.Changes, review.Total)
	}
	if !strings.Contains(review.Text, "terraform_data.x will be created") || !strings.Contains(review.Text, "(sensitive value)") || strings.Contains(review.Text, secretValue) {
		t.Errorf("the text is\n%s", review.Text)
	}
	for name, log := range map[string]string{"keeper": planned.keeper.log, "tool": planned.tool.log, "show": planned.show.log} {
		if !strings.HasPrefix(log, string(runspec.LogMark(name, 0))) {
			t.Errorf("the log of %s does not begin with a mark: %.80q", name, log)
		}
	}
	p.mustApply(record.Digest)
	record, _ = w.newPlan(w.repo.Commit(map[string]string{"README": "x"}), map[string]string{"pw": secretValue}).mustPlan()
	if !record.Empty || record.Review != "" {
		t.Errorf("a plan that changes nothing: %+v", record)
	}
}

// TF_LOG has the tool print much that it would not; the values of variables are masked there as everywhere.
func TestTheToolsOwnLogIsMaskedToo(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(w.secretModule()), map[string]string{"pw": secretValue})
	keeper, tool, show := p.start(runspec.ContainerKeeper), p.start(runspec.ContainerTool, "TF_LOG=TRACE"), p.start(runspec.ContainerShow)
	planned := planned{tool: tool.wait(), keeper: keeper.wait(), show: show.wait()}
	if planned.tool.code != runspec.ExitOK || !strings.Contains(planned.tool.log, "[TRACE]") {
		t.Fatalf("the tool ended with %d, or logged nothing:\n%.2000s", planned.tool.code, planned.tool.log)
	}
	if strings.Contains(planned.tool.log, secretValue) {
		at := strings.Index(planned.tool.log, secretValue)
		t.Errorf("a value is in the log: %q", planned.tool.log[max(0, at-200):at+60])
	}
}
