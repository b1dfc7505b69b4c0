package controller

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/services/workspace/internal/lifecycle"
	"magosproject.io/services/workspace/internal/peertest"
)

func pend(reason string) func(*runnerv1alpha1.Run) {
	return func(run *runnerv1alpha1.Run) {
		run.State, run.Reason, run.Message = runnerv1alpha1.RunState_RUN_STATE_PENDING, reason, "exceeded quota: compute"
	}
}

func (h *harness) pendingPlan() string {
	h.Helper()
	h.create(project(), standing())
	return h.pending()
}

// pending waits for the next plan and keeps its pod from starting.
func (h *harness) pending() string {
	h.Helper()
	w := h.until("asked for", isAskedFor)
	h.runner.Set("plan "+w.Status.Run.ID, pend(v1alpha1.ReasonQuotaExceeded))
	h.passes(1)
	return w.Status.Run.ID
}

func TestAPodThatCannotStartHoldsNoDeletionUp(t *testing.T) {
	h := newHarness(t)
	h.pendingPlan()
	w := h.workspace()
	if err := h.admin.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	h.passes(2)
	h.wantLetGo()
}

func TestAPodThatCannotStartIsTriedAnew(t *testing.T) {
	h := newHarness(t)
	id := h.pendingPlan()
	h.advance(lifecycle.StartDeadline)
	h.passes(1)
	pause, err := h.pass()
	st := h.workspace().Status
	if err != nil || pause < 30*time.Second || pause > time.Minute || st.Run.ID != id || st.Run.Phase != v1alpha1.RunDiscarded || st.Failures != nil ||
		st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonQuotaExceeded {
		t.Fatalf("pause %s, error %v, %s/%s, run %+v", pause, err, st.Phase, st.Reason, st.Run)
	}
	h.runner.Auto = true
	h.advance(pause)
	if w := h.until("applied", applied); w.Status.Run.ID == id || w.Status.Failures != nil {
		t.Errorf("status %+v", w.Status)
	}
	h.checkRuns(1)
}

func TestAnEditMendsAPodThatCannotStart(t *testing.T) {
	h := newHarness(t)
	id := h.pendingPlan()
	h.edit(func(w *v1alpha1.Workspace) { w.Spec.Terraform.Version = "1.14.9" })
	h.passes(2)
	if run := h.workspace().Status.Run; run.ID == id || run.Phase != v1alpha1.RunPlanning {
		t.Errorf("run %+v", run)
	}
}

func TestARunnerThatIsDownAtTheApplyCostsNoFailure(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	id := w.Status.Run.ID
	h.runner.Succeed("plan "+id, false)
	// The plan's end is seen by one call, and the next asks for the apply.
	h.runner.Lose(len(h.runner.Calls())+2, peertest.Request)
	h.passes(1)
	if st := h.workspace().Status; st.Run.Phase != v1alpha1.RunApplying || st.Reason != v1alpha1.ReasonRunnerUnavailable || len(h.started("apply")) > 0 {
		t.Fatalf("the apply was not lost: %s, run %+v", st.Reason, st.Run)
	}
	h.passes(1)
	if st := h.workspace().Status; st.Run.ID != id || st.Run.Phase != v1alpha1.RunDiscarded || st.Failures != nil || st.Phase != v1alpha1.PhasePending {
		t.Fatalf("%s/%s, run %+v, failures %+v", st.Phase, st.Reason, st.Run, st.Failures)
	}
	h.runner.Auto = true
	h.passes(3)
	h.until("applied", applied)
	h.checkRuns(1)
}

// A StartRun that was still on its way when its absence was seen: the cancel finds what it made.
func TestACancelThatFindsALiveApplyLeavesIt(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	id := w.Status.Run.ID
	h.runner.Succeed("plan "+id, false)
	h.until("applying", in(v1alpha1.RunApplying))
	h.workspaces.Runner = blind{h.workspaces.Runner}
	pause, err := h.pass()
	if st := h.workspace().Status; err != nil || pause == 0 || st.Run.ID != id || st.Run.Phase != v1alpha1.RunApplying {
		t.Fatalf("pause %s, error %v, run %+v", pause, err, st.Run)
	}
	if !slices.Contains(h.runner.Calls(), "CancelRun, if not started, apply "+id) {
		t.Fatalf("calls %v", h.runner.Calls())
	}
	h.runner.Succeed("apply "+id, false)
	h.passes(1)
	if w = h.workspace(); w.Status.Run.Phase != v1alpha1.RunSucceeded || w.Status.ObservedRevision != commitA {
		t.Errorf("run %+v", w.Status.Run)
	}
}

func TestTheRunnerIsGivenItsTime(t *testing.T) {
	h := newHarness(t)
	watch := &timekeeper{RunnerServiceClient: h.workspaces.Runner}
	h.workspaces.Runner = watch
	id := h.pendingPlan()
	h.edit(func(w *v1alpha1.Workspace) { w.Spec.Terraform.Version = "1.14.9" })
	h.until("given up", func(w *v1alpha1.Workspace) bool { return w.Status.Run.ID != id })
	if len(watch.left) != 2 {
		t.Fatalf("deadlines %v, want those of StartRun and CancelRun", watch.left)
	}
	for _, left := range watch.left {
		// More than the ten seconds that a call has by itself.
		if left <= 10*time.Second || left > runnerPatience {
			t.Errorf("%s are left, want %s", left, runnerPatience)
		}
	}
}

// blind is a runner whose GetRun does not see the apply.
type blind struct {
	runnerv1alpha1.RunnerServiceClient
}

func (b blind) GetRun(ctx context.Context, request *runnerv1alpha1.GetRunRequest, opts ...grpc.CallOption) (*runnerv1alpha1.GetRunResponse, error) {
	hidden := &runnerv1alpha1.GetRunRequest{Key: &runnerv1alpha1.RunKey{Workspace: request.GetKey().GetWorkspace(), RunId: "other", Phase: request.GetKey().GetPhase()}}
	return b.RunnerServiceClient.GetRun(ctx, hidden, opts...)
}

// timekeeper notes how much time StartRun and CancelRun are given.
type timekeeper struct {
	runnerv1alpha1.RunnerServiceClient
	left []time.Duration
}

func (k *timekeeper) note(ctx context.Context) {
	deadline, _ := ctx.Deadline()
	k.left = append(k.left, time.Until(deadline))
}

func (k *timekeeper) StartRun(ctx context.Context, request *runnerv1alpha1.StartRunRequest, opts ...grpc.CallOption) (*runnerv1alpha1.StartRunResponse, error) {
	k.note(ctx)
	return k.RunnerServiceClient.StartRun(ctx, request, opts...)
}

func (k *timekeeper) CancelRun(ctx context.Context, request *runnerv1alpha1.CancelRunRequest, opts ...grpc.CallOption) (*runnerv1alpha1.CancelRunResponse, error) {
	k.note(ctx)
	return k.RunnerServiceClient.CancelRun(ctx, request, opts...)
}
