package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
)

// The service dies at its Nth write, for every N, before and after the write, and starts again: each time both passes end
// alike, with the same runs in the same order.
func TestCrashAtEveryWriteEndsAlike(t *testing.T) {
	writes, _ := story(t, 0, crash.Before)
	if writes < 12 {
		t.Fatalf("the story has only %d writes: it does not do what it should", writes)
	}
	for _, moment := range []crash.Moment{crash.Before, crash.After} {
		for n := 1; n <= writes; n++ {
			t.Run(fmt.Sprintf("moment %d, write %d", moment, n), func(t *testing.T) {
				t.Parallel()
				if _, crashed := story(t, n, moment); !crashed {
					t.Error("the write was never reached")
				}
			})
		}
	}
}

// story is two passes with a failure on the way; it returns the number of writes of the last process, and whether one died.
func story(t *testing.T, n int, moment crash.Moment) (writes int, crashed bool) {
	t.Helper()
	h := newHarness(t)
	h.restart(n, moment)
	h.create(newProject(v1alpha1.OrchestrationAuto), newRollout("dev", "prod"), newWorkspace("d", "dev"), newWorkspace("p", "prod"))
	h.sim.detect(commitA)
	h.sim.tick()
	h.sim.failing("d", commitA)
	until := func(what string, is func() bool) {
		t.Helper()
		for range 60 {
			h.clock.Step(time.Second)
			_, err := h.reconcile()
			switch {
			case errors.Is(err, crash.ErrCrashed):
				crashed = true
				h.restart(0, crash.Before)
			case err != nil:
				t.Fatal(err)
			}
			for range 2 {
				h.sim.tick()
			}
			if is() {
				return
			}
		}
		t.Fatalf("it never comes to this: %s", what)
	}
	passes := func(n int) func() bool {
		return func() bool {
			s := h.rollout().Status
			return s.Phase == v1alpha1.RolloutSucceeded && len(s.History) == n
		}
	}
	until("the failure halts the pass", func() bool { return h.rollout().Status.Reason == v1alpha1.ReasonWorkspaceFailed })
	h.sim.failing("d", "")
	until("the first pass ends", passes(1))
	h.push(commitB)
	until("the second pass ends", passes(2))
	h.mustReconcile()
	h.mustReconcile()

	var runs []string
	for _, start := range strings.Split(h.sim.began(), ", ") {
		if !strings.Contains(start, "Retry") {
			runs = append(runs, start)
		}
	}
	if got := strings.Join(runs, ", "); got != "d Spec a, p Spec a, d Revision b, p Revision b" {
		t.Errorf("runs began as %q", got)
	}
	for _, name := range []string{"d", "p"} {
		if w := h.workspace(name); w.Status.ObservedRevision != commitB || len(heldGrant(w)) > 0 {
			t.Errorf("%s is at %s with %v", name, w.Status.ObservedRevision, heldGrant(w))
		}
	}
	if got := len(h.rollout().Status.History); got != 2 {
		t.Errorf("history has %d passes, want 2", got)
	}
	return len(h.process.Writes()), crashed
}
