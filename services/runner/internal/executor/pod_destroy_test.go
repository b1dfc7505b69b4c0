//go:build runpod

package executor

import (
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// TestADestroyIsSealedAndLeavesNothing: the plan destroys what the state has although the module still asks for it, only its seal
// is applied, and a second one finds nothing.
func TestADestroyIsSealedAndLeavesNothing(t *testing.T) {
	w := newWorkspace(t)
	commit := w.repo.Commit(map[string]string{"main.tf": w.backend() + withTime + `
resource "terraform_data" "x" {
  input = "value"
}
`})
	first := w.newPlan(commit, nil)
	record, _ := first.mustPlan()
	first.mustApply(record.Digest)
	if _, resources := w.stateOf(); len(resources) != 2 {
		t.Fatalf("the state holds %v", resources)
	}

	second := w.newPlan(commit, nil)
	second.in.Destroy = true
	record, _ = second.mustPlan()
	if want := (runspec.Changes{Destroy: 2}); record.Changes != want || record.Empty {
		t.Fatalf("the plan has %+v, empty %v, want %+v", record.Changes, record.Empty, want)
	}
	if _, resources := w.stateOf(); len(resources) != 2 {
		t.Fatalf("the plan alone left %v", resources)
	}
	second.mustApply(record.Digest)
	if _, resources := w.stateOf(); len(resources) != 0 {
		t.Errorf("the state still holds %v", resources)
	}

	third := w.newPlan(commit, nil)
	third.in.Destroy = true
	if record, _ = third.mustPlan(); !record.Empty {
		t.Errorf("destroyed again: %+v", record)
	}
}
