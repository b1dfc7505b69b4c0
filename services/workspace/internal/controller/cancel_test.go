package controller

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
)

func TestCancellingAnApply(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	id := h.until("asked for", isAskedFor).Status.Run.ID
	h.runner.Succeed("plan "+id, false)
	h.until("applying", in(v1alpha1.RunApplying))
	h.passes(1)
	h.annotate(v1alpha1.AnnotationCancel, id)
	h.passes(3)
	w := h.workspace()
	if _, left := w.Annotations[v1alpha1.AnnotationCancel]; left || w.Status.Run.CancelledAt == nil || w.Status.Reason != v1alpha1.ReasonCancelling || w.Status.Run.Phase != v1alpha1.RunApplying {
		t.Fatalf("%s, run %+v, annotation left %t", w.Status.Reason, w.Status.Run, left)
	}
	asked := 0
	for _, call := range h.runner.Calls() {
		if call == "CancelRun apply "+id {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the runner was asked %d times: %v", asked, h.runner.Calls())
	}
	h.runner.Set("apply "+id, fail(v1alpha1.ReasonInterrupted))
	h.passes(2)
	st := h.workspace().Status
	if st.Phase != v1alpha1.PhaseFailed || st.Reason != v1alpha1.ReasonCancelled || st.Failures.LastReason != v1alpha1.ReasonInterrupted || st.NextReconcileTime != nil {
		t.Fatalf("%s/%s %q, failures %+v", st.Phase, st.Reason, st.Message, st.Failures)
	}
	h.runner.Auto = true
	h.annotate(v1alpha1.AnnotationReconcileRequest, "again")
	if w := h.until("applied", applied); w.Status.Run.ID == id || w.Status.HandledRequest != "again" {
		t.Errorf("run %+v", w.Status.Run)
	}
}

func TestACancelOfNothingIsToldOf(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	h.runner.Auto = true
	h.until("applied", applied)
	h.annotate(v1alpha1.AnnotationCancel, "some-older-run")
	h.passes(2)
	heard := h.heard(v1alpha1.ReasonCancelVoid)
	if _, left := h.workspace().Annotations[v1alpha1.AnnotationCancel]; left || len(heard) != 1 || !strings.Contains(heard[0], "some-older-run") {
		t.Errorf("annotation left %t, heard %v", left, heard)
	}
}

func TestALockOfTheStateIsShownAndWaitedFor(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	id := h.until("asked for", isAskedFor).Status.Run.ID
	const who = "the state is locked by ci@build-7 since 2026-03-01T11:00:00Z, lock ID 4711"
	h.runner.Set("plan "+id, func(run *runnerv1alpha1.Run) {
		run.State, run.Reason, run.Message = runnerv1alpha1.RunState_RUN_STATE_FAILED, v1alpha1.ReasonStateLocked, who
		run.StartedAt = timestamppb.New(began)
	})
	h.passes(2)
	st := h.workspace().Status
	if st.Phase != v1alpha1.PhaseFailed || st.Reason != v1alpha1.ReasonStateLocked || st.Message != who || st.Failures != nil || st.Run.Reason != v1alpha1.ReasonStateLocked {
		t.Errorf("%s/%s %q, failures %+v", st.Phase, st.Reason, st.Message, st.Failures)
	}
	if heard := h.heard(v1alpha1.ReasonStateLocked); len(heard) != 1 || !strings.Contains(heard[0], "4711") {
		t.Errorf("heard %v", heard)
	}
	h.runner.Auto = true
	if w := h.until("applied", applied); w.Status.Run.ID == id || w.Status.Run.Setbacks != 1 {
		t.Errorf("run %+v", w.Status.Run)
	}
}

func TestTheApproverIsRecordedAndTold(t *testing.T) {
	h := newHarness(t)
	id := h.waitsForApproval()
	h.edit(func(w *v1alpha1.Workspace) {
		w.Annotations[v1alpha1.AnnotationApproved], w.Annotations[v1alpha1.AnnotationApprovedBy] = id, "alice@example.com"
	})
	w := h.until("applied", func(w *v1alpha1.Workspace) bool { return w.Status.ObservedRevision == commitA })
	h.passes(2)
	if a := w.Status.Approval; a == nil || a.By != "alice@example.com" || a.RunID != id || a.At.IsZero() {
		t.Errorf("approval %+v", a)
	}
	if heard := h.heard(v1alpha1.ReasonApproved); len(heard) != 1 || !strings.Contains(heard[0], "alice@example.com") {
		t.Errorf("heard %v", heard)
	}
	for _, name := range []string{v1alpha1.AnnotationApproved, v1alpha1.AnnotationApprovedBy} {
		if value, left := h.workspace().Annotations[name]; left {
			t.Errorf("%s is left as %q", name, value)
		}
	}
}

// What arrives together makes one run.
func TestTriggersThatComeTogetherMakeOneRun(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	h.runner.Auto = true
	first := h.until("applied", applied).Status.Run.ID
	h.advance(5 * time.Hour)
	h.edit(func(w *v1alpha1.Workspace) {
		w.Spec.Terraform.Version = "1.14.9"
		w.Annotations[v1alpha1.AnnotationDetectedRevision] = commitB
		w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now"
	})
	w := h.until("applied again", func(w *v1alpha1.Workspace) bool { return applied(w) && w.Status.Run.ID != first })
	h.passes(3)
	if run := w.Status.Run; run.Trigger != v1alpha1.TriggerSpec || run.Revision != commitB || w.Status.HandledRequest != "now" || len(h.started("plan")) != 2 {
		t.Errorf("run %+v, handled %q, started %v", run, w.Status.HandledRequest, h.runner.Started())
	}
	h.checkRuns(2)
}
