package controller

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

func isAskedFor(w *v1alpha1.Workspace) bool {
	return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil
}

func TestAnRPCThatIsRefusedAgainAndAgainShowsInStatus(t *testing.T) {
	fault := rpcerr.New(codes.Internal, rpcerr.Internal, "internal error")
	for rpc, c := range map[string]struct {
		arrange func(h *harness)
		run     v1alpha1.RunPhase
	}{
		"StartRun": {func(h *harness) { h.until("recorded", in(v1alpha1.RunPlanning)) }, v1alpha1.RunPlanning},
		"GetRun":   {func(h *harness) { h.until("asked for", isAskedFor) }, v1alpha1.RunPlanning},
		"CancelRun": {func(h *harness) {
			h.runner.Set("plan "+h.until("asked for", isAskedFor).Status.Run.ID, pend(v1alpha1.ReasonQuotaExceeded))
			h.edit(func(w *v1alpha1.Workspace) { w.Spec.Terraform.Version = "1.14.9" })
		}, v1alpha1.RunPlanning},
	} {
		t.Run(rpc, func(t *testing.T) {
			h := newHarness(t)
			h.create(project(), standing())
			c.arrange(h)
			h.runner.RefuseOnly(rpc, fault)
			if _, err := h.pass(); err == nil || !strings.Contains(err.Error(), "internal error") {
				t.Fatalf("the error is not for the log: %v", err)
			}
			w := h.workspace()
			ready := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionReady)
			for _, word := range []string{"RunnerService." + rpc, "Internal (INTERNAL)", "logs of the runner service"} {
				if w.Status.Reason != v1alpha1.ReasonRunnerRefused || !strings.Contains(w.Status.Message, word) || ready == nil || ready.Reason != w.Status.Reason {
					t.Errorf("%s %q, condition %+v: want %q", w.Status.Reason, w.Status.Message, ready, word)
				}
			}
			if w.Status.Run.Phase != c.run || w.Status.Failures != nil {
				t.Errorf("run %+v, failures %+v: nobody knows better than the record", w.Status.Run, w.Status.Failures)
			}
			for range 5 {
				_, _ = h.pass()
			}
			if again := h.workspace(); again.ResourceVersion != w.ResourceVersion {
				t.Errorf("a pass that finds the same trouble writes: %+v", again.Status)
			}
			h.runner.Refuse(nil)
			h.passes(2)
			if st := h.workspace().Status; st.Reason == v1alpha1.ReasonRunnerRefused {
				t.Errorf("it stays: %s/%s %q", st.Phase, st.Reason, st.Message)
			}
		})
	}
	t.Run("ResolveRevision", func(t *testing.T) {
		h := newHarness(t)
		w := standing()
		delete(w.Annotations, v1alpha1.AnnotationDetectedRevision)
		h.create(project(), w)
		h.refwatcher.Refuse(fault)
		h.passes(3)
		st := h.workspace().Status
		if st.Reason != v1alpha1.ReasonRefWatcherRefused || !strings.Contains(st.Message, "RefWatcherService.ResolveRevision answers Internal") {
			t.Fatalf("%s %q", st.Reason, st.Message)
		}
		h.refwatcher.Refuse(nil)
		h.runner.Auto = true
		h.until("applied", applied)
	})
}

func TestAnApplyThatTheRunnerRefusesEachTimeBacksOff(t *testing.T) {
	h := newHarness(t)
	h.runner.Auto = true
	h.create(project(), standing())
	h.runner.RefuseOnly("StartRun apply", rpcerr.New(codes.FailedPrecondition, rpcerr.RunStillLive, "an earlier pod has not ended"))
	var began []time.Time
	for last := ""; len(began) < 5; {
		w := h.until("another run", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.ID != last })
		last = w.Status.Run.ID
		began = append(began, w.Status.Run.StartedAt.Time)
	}
	for i, want := range []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute} {
		// The passes themselves take a moment of the test's clock, too.
		if got := began[i+1].Sub(began[i]); got < want || got > want+time.Minute {
			t.Errorf("run %d began %s after the one before, want %s", i+2, got, want)
		}
	}
	w := h.until("rests", func(w *v1alpha1.Workspace) bool { return w.Status.Run.Phase == v1alpha1.RunDiscarded })
	h.passes(2)
	if st := h.workspace().Status; st.Reason != v1alpha1.ReasonRunnerRefused || !strings.Contains(st.Message, "an earlier pod has not ended") || st.Failures != nil || st.NextReconcileTime == nil {
		t.Errorf("%s/%s %q, failures %+v", st.Phase, st.Reason, st.Message, w.Status.Failures)
	}
	h.runner.Refuse(nil)
	h.until("applied", applied)
	h.checkRuns(1)
}

func TestChangedVariablesGiveUpAPlanThatHasNotStarted(t *testing.T) {
	h := newHarness(t)
	value := "eu"
	set := &v1alpha1.VariableSet{ObjectMeta: metadataNamed("base"), Spec: v1alpha1.VariableSetSpec{Variables: []v1alpha1.Variable{{Name: "region", Value: &value}}}}
	w := standing()
	w.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "base"}}
	h.create(project(), set, w)
	id := h.pending()
	other := "us"
	set.Spec.Variables[0].Value = &other
	if err := h.admin.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w = h.until("another run", func(w *v1alpha1.Workspace) bool { return w.Status.Run.ID != id && w.Status.Run.PlanStartedAt != nil })
	if w.Status.Failures != nil || w.Status.Run.Setbacks != 0 {
		t.Errorf("failures %+v, run %+v", w.Status.Failures, w.Status.Run)
	}
	if v := h.runner.Job("plan " + w.Status.Run.ID).Request.GetVariables(); len(v) != 1 || v[0].GetValue() != "us" {
		t.Errorf("planned with %v", v)
	}
}

func TestSuspending(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", isAskedFor)
	id := w.Status.Run.ID
	suspend := func(on bool) { h.edit(func(w *v1alpha1.Workspace) { w.Spec.Suspend = on }) }
	suspend(true)
	h.passes(3)
	if st := h.workspace().Status; st.Phase != v1alpha1.PhasePlanning || st.Reason != v1alpha1.ReasonPlanRunning || !strings.Contains(st.Message, "suspended") {
		t.Errorf("%s/%s %q while the plan runs", st.Phase, st.Reason, st.Message)
	}
	h.runner.Succeed("plan "+id, false)
	h.annotate(v1alpha1.AnnotationReconcileRequest, "now")
	h.passes(4)
	w = h.workspace()
	if st := w.Status; st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonSuspended || st.Run.Phase != v1alpha1.RunDiscarded || st.HandledRequest != "" {
		t.Errorf("%s/%s, run %+v, handled %q", st.Phase, st.Reason, st.Run, st.HandledRequest)
	}
	for range 3 {
		h.advance(10 * time.Hour)
		h.passes(1)
	}
	if again := h.workspace(); again.ResourceVersion != w.ResourceVersion || len(h.runner.Started()) != 1 {
		t.Errorf("it does not rest: %+v, started %v", again.Status, h.runner.Started())
	}
	suspend(false)
	h.runner.Auto = true
	w = h.until("applied", applied)
	if w.Status.HandledRequest != "now" || len(h.started("plan")) != 2 {
		t.Errorf("handled %q, started %v: what came meanwhile makes one run", w.Status.HandledRequest, h.runner.Started())
	}
	suspend(true)
	h.passes(2)
	if st := h.workspace().Status; st.Phase != v1alpha1.PhaseApplied || st.Reason != v1alpha1.ReasonSuspended || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%s/%s at rest", st.Phase, st.Reason)
	}
	h.checkRuns(1)
}
