//go:build runpod

package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// The lock is held by a real apply of the same state, which goes on undisturbed.
func TestAHeldStateLockIsNamedWithItsHolder(t *testing.T) {
	holder := newWorkspace(t)
	release := filepath.Join(holder.root, "release")
	p := holder.newPlan(holder.repo.Commit(map[string]string{"main.tf": holder.backend() + `
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo holding; until [ -e ` + release + ` ]; do sleep 0.05; done"
  }
}
`}), nil)
	record, _ := p.mustPlan()
	apply := p.newApply(record.Digest).start(runspec.ArgApply)
	apply.waitFor("holding")

	other := newWorkspace(t)
	other.state = holder.state
	blocked := other.newPlan(other.repo.Commit(map[string]string{"main.tf": other.backend()}), nil)
	result := blocked.plan()
	host, err := os.Hostname()
	must(t, err)
	if result.tool.code != runspec.ExitStateLocked {
		t.Errorf("the tool ended with %d:\n%s", result.tool.code, result)
	}
	for _, part := range []string{"the state is locked by ", "@" + host, "since 20", "for apply", "path " + holder.state, "lock ID ", "`tofu force-unlock ", "wait for it"} {
		if !strings.Contains(result.tool.message, part) {
			t.Errorf("%q lacks %q", result.tool.message, part)
		}
	}
	put(t, release, "")
	if got := apply.wait(); got.code != runspec.ExitOK {
		t.Errorf("the holder ended with %d: %s", got.code, got.message)
	}
}

func TestAPlanWhoseStateHasChangedIsStale(t *testing.T) {
	w, other := newWorkspace(t), newWorkspace(t)
	other.state = w.state
	module := func(w *workspace, input string) map[string]string {
		return map[string]string{"main.tf": w.backend() + "resource \"terraform_data\" \"x\" {\n  input = \"" + input + "\"\n}\n"}
	}
	first := w.newPlan(w.repo.Commit(module(w, "one")), nil)
	record, _ := first.mustPlan()
	first.mustApply(record.Digest)

	waits := w.newPlan(w.repo.Commit(module(w, "two")), nil)
	record, _ = waits.mustPlan()
	overtakes := other.newPlan(other.repo.Commit(module(other, "three")), nil)
	overtaking, _ := overtakes.mustPlan()
	overtakes.mustApply(overtaking.Digest)
	serial, _ := w.stateOf()

	got := waits.newApply(record.Digest).start(runspec.ArgApply).wait()
	if got.code != runspec.ExitStalePlan || !strings.Contains(got.message, "plan is stale") || !strings.Contains(got.message, "new plan") {
		t.Errorf("the stale plan ended with %d: %s\n%s", got.code, got.message, got.log)
	}
	if after, resources := w.stateOf(); after != serial || resources["terraform_data.x"]["input"] == nil {
		t.Errorf("the state's serial went from %d to %d: %v", serial, after, resources)
	}
}
