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
	crashEverywhere(t, story, func(string) bool { return true })
}

// People retry, approve and abort: each command is obeyed, once, and recorded, whenever the service dies. Grants are those of the other story.
func TestCrashAtEveryWriteOfCommandsEndsAlike(t *testing.T) {
	crashEverywhere(t, steeredStory, func(write string) bool { return strings.Contains(write, "Rollout") })
}

func crashEverywhere(t *testing.T, story func(t *testing.T, n int, moment crash.Moment) (writes []string, crashed bool), at func(write string) bool) {
	writes, _ := story(t, 0, crash.Before)
	if len(writes) < 12 {
		t.Fatalf("the story has only %d writes: it does not do what it should", len(writes))
	}
	for _, moment := range []crash.Moment{crash.Before, crash.After} {
		for n := 1; n <= len(writes); n++ {
			if !at(writes[n-1]) {
				continue
			}
			t.Run(fmt.Sprintf("moment %d, write %d", moment, n), func(t *testing.T) {
				t.Parallel()
				if _, crashed := story(t, n, moment); !crashed {
					t.Error("the write was never reached")
				}
			})
		}
	}
}

// story is two passes with a failure on the way; it returns the writes of the last process, and whether one died.
func story(t *testing.T, n int, moment crash.Moment) (writes []string, crashed bool) {
	t.Helper()
	h := newHarness(t)
	h.restart(n, moment)
	h.create(newProject(v1alpha1.OrchestrationAuto), newRollout("dev", "prod"), newWorkspace("d", "dev"), newWorkspace("p", "prod"))
	h.sim.detect(commitA)
	h.sim.tick()
	h.sim.failing("d", commitA)
	until := func(what string, is func() bool) { h.until(&crashed, what, is) }
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
	return h.process.Writes(), crashed
}

// until lets the service and the Workspaces do what they do, and starts the service again where it dies, until something is so.
func (h *harness) until(crashed *bool, what string, is func() bool) {
	h.t.Helper()
	for range 60 {
		h.clock.Step(time.Second)
		_, err := h.reconcile()
		switch {
		case errors.Is(err, crash.ErrCrashed):
			*crashed = true
			h.restart(0, crash.Before)
		case err != nil:
			h.t.Fatal(err)
		}
		for range 2 {
			h.sim.tick()
		}
		if is() {
			return
		}
	}
	h.t.Fatalf("it never comes to this: %s", what)
}

// steeredStory is a pass that is retried and approved, one that is aborted, and the one after it.
func steeredStory(t *testing.T, n int, moment crash.Moment) (writes []string, crashed bool) {
	t.Helper()
	h := newHarness(t)
	h.restart(n, moment)
	rollout := newRollout("dev", "prod")
	rollout.Spec.Strategy.Steps[1].Approval = &v1alpha1.ApprovalRequirement{Required: true}
	h.create(newProject(v1alpha1.OrchestrationAuto), rollout, newWorkspace("d", "dev"), newWorkspace("p", "prod"))
	h.sim.detect(commitA)
	h.sim.tick()
	h.sim.failing("d", commitA)
	is := func(phase v1alpha1.RolloutPhase) func() bool {
		return func() bool { return h.rollout().Status.Phase == phase }
	}
	command := func(annotation, step string) {
		t.Helper()
		pass := h.rollout().Status.Pass.ID
		if step != "" {
			pass = v1alpha1.PassStep(pass, step)
		}
		annotate(t, h.admin, h.rollout(), annotation, pass)
	}
	approve := func() {
		t.Helper()
		h.until(&crashed, "prod waits for a person", is(v1alpha1.RolloutAwaitingApproval))
		annotate(t, h.admin, h.rollout(), v1alpha1.AnnotationApprovedBy, "ada")
		command(v1alpha1.AnnotationApprovedStep, "prod")
	}
	h.until(&crashed, "the failure halts the pass", is(v1alpha1.RolloutFailed))
	command(v1alpha1.AnnotationRetryStep, "dev")
	h.until(&crashed, "a fresh attempt has run", func() bool { return h.workspace("d").Status.Run.Attempt == 1 })
	h.sim.failing("d", "")
	approve()
	h.until(&crashed, "the first pass ends", is(v1alpha1.RolloutSucceeded))
	h.push(commitB)
	h.until(&crashed, "prod waits again", is(v1alpha1.RolloutAwaitingApproval))
	command(v1alpha1.AnnotationAbort, "")
	h.until(&crashed, "the second pass is aborted", is(v1alpha1.RolloutAborted))
	command(v1alpha1.AnnotationRetryStep, "prod")
	approve()
	h.until(&crashed, "the third pass ends", func() bool {
		s := h.rollout().Status
		return s.Phase == v1alpha1.RolloutSucceeded && len(s.History) == 3
	})
	h.checkSteered()
	return h.process.Writes(), crashed
}

func (h *harness) checkSteered() {
	h.t.Helper()
	h.mustReconcile()
	h.mustReconcile()
	r := h.rollout()
	if len(r.Annotations) > 0 {
		h.t.Errorf("left on the Rollout: %v", r.Annotations)
	}
	var got []string
	for _, entry := range r.Status.History {
		text := string(entry.Result)
		for _, a := range entry.Approvals {
			text += " " + a.Step + " by " + a.By
		}
		got = append(got, text)
	}
	if text := strings.Join(got, ", "); text != "Succeeded prod by ada, Aborted, Succeeded prod by ada" {
		h.t.Errorf("history is %q", text)
	}
	for _, name := range []string{"d", "p"} {
		if w := h.workspace(name); w.Status.ObservedRevision != commitB || len(heldGrant(w)) > 0 {
			h.t.Errorf("%s is at %s with %v", name, w.Status.ObservedRevision, heldGrant(w))
		}
	}
}
