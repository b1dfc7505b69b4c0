package controller

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster/crash"
)

func TestARunFromGrantToApplied(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())

	w := h.until("planning", in(v1alpha1.RunPlanning))
	if len(h.runner.Calls()) > 0 {
		t.Errorf("calls before the run was recorded: %v", h.runner.Calls())
	}
	if !slices.Contains(w.Finalizers, v1alpha1.FinalizerWorkspace) {
		t.Error("a run without the finalizer")
	}
	id := w.Status.Run.ID
	h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run.PlanStartedAt != nil })
	if pause, err := h.pass(); err != nil || pause == 0 {
		t.Fatalf("pause %s, error %v: a run in flight is looked at again", pause, err)
	}
	if w = h.workspace(); w.Status.Phase != v1alpha1.PhasePlanning || w.Status.Reason != v1alpha1.ReasonPlanRunning {
		t.Errorf("%s/%s while the plan runs", w.Status.Phase, w.Status.Reason)
	}
	h.runner.Succeed("plan "+id, false)
	h.passes(1)
	if w = h.workspace(); w.Status.Phase != v1alpha1.PhaseApplying || len(h.started("apply")) != 1 {
		t.Errorf("%s, started %v", w.Status.Phase, h.runner.Started())
	}
	if w.Status.Run.Changes.Add != 2 || w.Status.ObservedRevision != "" {
		t.Errorf("changes %+v, observed %q after the plan", w.Status.Run.Changes, w.Status.ObservedRevision)
	}
	apply := h.runner.Job("apply " + id).Request
	if apply.GetPlanDigest() != w.Status.Run.PlanDigest || apply.GetSource().GetRevision() != commitA || len(apply.GetVariables()) > 0 {
		t.Errorf("the apply was asked for as %+v", apply)
	}
	h.runner.Succeed("apply "+id, false)
	w = h.until("applied", applied)
	st := w.Status
	if st.ObservedRevision != commitA || st.Applied.RunID != id || st.Applied.Pass != v1alpha1.StandingPass || st.Reason != v1alpha1.ReasonApplySucceeded ||
		!meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) || st.NextReconcileTime == nil {
		t.Errorf("status %+v", st)
	}
	if len(h.heard(v1alpha1.ReasonApplySucceeded)) != 1 {
		t.Error("no Event, or several, for the success")
	}
	h.checkRuns(1)

	h.advance(3 * time.Hour)
	w = h.until("drift", func(w *v1alpha1.Workspace) bool { return w.Status.Run.ID != id })
	h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run.PlanStartedAt != nil })
	h.runner.Succeed("plan "+w.Status.Run.ID, true)
	w = h.until("applied again", applied)
	if w.Status.Run.Trigger != v1alpha1.TriggerDrift || w.Status.Reason != v1alpha1.ReasonNoChanges || len(h.started("apply")) != 1 {
		t.Errorf("run %+v, %s, started %v: an empty plan applies nothing", w.Status.Run, w.Status.Reason, h.runner.Started())
	}
}

func TestVariablesOfARun(t *testing.T) {
	h := newHarness(t)
	literal := func(name, value string) v1alpha1.Variable { return v1alpha1.Variable{Name: name, Value: &value} }
	set := func(name string, variables ...v1alpha1.Variable) *v1alpha1.VariableSet {
		s := &v1alpha1.VariableSet{}
		s.Name, s.Spec.Variables = name, variables
		return s
	}
	fromSecret := v1alpha1.Variable{Name: "token", ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "cloud", Key: "token"}}}
	p, w := project(), standing()
	p.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "base"}, {Name: "region"}}
	w.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "own"}}
	h.create(p, w, set("base", literal("size", "1"), literal("region", "eu"), literal("zone", "a")), set("region", literal("region", "us")),
		set("own", literal("size", "3"), fromSecret))

	h.passes(2)
	got := h.workspace().Status
	if got.Phase != v1alpha1.PhaseFailed || got.Reason != v1alpha1.ReasonUnresolvedVariables || len(h.runner.Calls()) > 0 {
		t.Fatalf("%s/%s %q, calls %v", got.Phase, got.Reason, got.Message, h.runner.Calls())
	}
	h.create(&corev1.Secret{ObjectMeta: metadataNamed("cloud"), Data: map[string][]byte{"token": []byte("s3cr3t-value")}})
	w = h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	variables := map[string]string{}
	for _, v := range h.runner.Job("plan " + w.Status.Run.ID).Request.GetVariables() {
		variables[v.GetName()] = v.GetValue() + v.GetSecretKeyRef().GetKey()
	}
	for name, want := range map[string]string{"size": "3", "region": "us", "zone": "a", "token": "token"} {
		if variables[name] != want {
			t.Errorf("%s is %q, want %q", name, variables[name], want)
		}
	}
	if sets := w.Status.Variables.Sets; !slices.Equal(sets, []string{"base", "region", "own"}) {
		t.Errorf("sets %v", sets)
	}
	h.runner.Succeed("plan "+w.Status.Run.ID, true)
	h.until("applied", applied)

	secret := &corev1.Secret{}
	if err := h.admin.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: "cloud"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["token"] = []byte("rotated")
	if err := h.admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if w = h.until("a run for the new value", in(v1alpha1.RunPlanning)); w.Status.Run.Trigger != v1alpha1.TriggerVariables {
		t.Errorf("trigger %s", w.Status.Run.Trigger)
	}
}

func TestApproval(t *testing.T) {
	h := newHarness(t)
	id := h.waitsForApproval()
	h.heard("")

	h.annotate(v1alpha1.AnnotationApproved, "some-older-run")
	h.passes(3)
	if _, left := h.workspace().Annotations[v1alpha1.AnnotationApproved]; left || len(h.heard(v1alpha1.ReasonApprovalVoid)) != 1 {
		t.Error("a foreign approval was not removed, or not told of")
	}
	h.annotate(v1alpha1.AnnotationDetectedRevision, commitB)
	h.passes(2)
	w := h.workspace()
	if w.Status.Run.ID != id || len(w.Status.AwaitingApproval.Warnings) != 1 {
		t.Fatalf("a new commit touched the plan, or is not told of: %+v", w.Status)
	}
	h.annotate(v1alpha1.AnnotationApproved, id)
	w = h.until("applied", func(w *v1alpha1.Workspace) bool { return w.Status.ObservedRevision == commitA })
	if w.Status.Approval == nil || w.Status.Approval.RunID != id {
		t.Errorf("approval %+v", w.Status.Approval)
	}
	w = h.until("the newer commit waits", func(w *v1alpha1.Workspace) bool { return w.Status.AwaitingApproval != nil && w.Status.Run.ID != id })
	if _, left := w.Annotations[v1alpha1.AnnotationApproved]; left || w.Status.Run.Revision != commitB {
		t.Errorf("the used approval is still there, or the run is of %s", w.Status.Run.Revision)
	}
	h.checkRuns(1)
}

func TestARequestDiscardsAWaitingPlan(t *testing.T) {
	h := newHarness(t)
	id := h.waitsForApproval()
	h.heard("")
	h.annotate(v1alpha1.AnnotationReconcileRequest, "2026-03-01")
	w := h.until("another waits", func(w *v1alpha1.Workspace) bool { return w.Status.AwaitingApproval != nil && w.Status.Run.ID != id })
	if w.Status.HandledRequest != "2026-03-01" || len(h.heard(v1alpha1.ReasonRunDiscarded)) != 1 {
		t.Errorf("handled %q", w.Status.HandledRequest)
	}
	h.passes(3)
	if again := h.workspace(); again.Status.Run.ID != w.Status.Run.ID {
		t.Error("one request, two runs")
	}
}

func TestFailureAndBackOff(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	h.runner.Set("plan "+w.Status.Run.ID, fail(v1alpha1.ReasonPlanFailed))
	h.passes(1)
	pause, err := h.pass()
	w = h.workspace()
	if err != nil || pause < 59*time.Minute || w.Status.Phase != v1alpha1.PhaseFailed || w.Status.Failures.Count != 1 || w.Status.Message != "Error: no credentials" {
		t.Fatalf("pause %s, error %v, status %+v", pause, err, w.Status)
	}
	if w.Status.Wants == nil || w.Status.Wants.Trigger != v1alpha1.TriggerRetry {
		t.Errorf("wants %+v", w.Status.Wants)
	}
	h.annotate(v1alpha1.AnnotationDetectedRevision, commitB)
	h.passes(1)
	if run := h.workspace().Status.Run; run.Revision != commitB || run.Trigger != v1alpha1.TriggerSpec {
		t.Errorf("a new commit does not run at once: %+v", run)
	}
}

func TestTheRunnerIsDown(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	down := rpcerr.New(codes.Unavailable, "", "connection refused")
	h.runner.Refuse(down)
	h.passes(4)
	w := h.workspace()
	if w.Status.Phase != v1alpha1.PhasePending || w.Status.Reason != v1alpha1.ReasonRunnerUnavailable || w.Status.Failures != nil {
		t.Fatalf("%s/%s", w.Status.Phase, w.Status.Reason)
	}
	h.runner.Refuse(nil)
	w = h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run.PlanStartedAt != nil })
	h.runner.Refuse(down)
	version := h.workspace().ResourceVersion
	if pause, err := h.pass(); err != nil || pause == 0 {
		t.Fatalf("pause %s, error %v", pause, err)
	}
	h.passes(2)
	if now := h.workspace(); now.Status.Reason != v1alpha1.ReasonRunnerUnavailable || now.Status.Run.Phase != v1alpha1.RunPlanning || now.ResourceVersion == version {
		t.Errorf("%s, run %+v", now.Status.Reason, now.Status.Run)
	}
	h.runner.Refuse(nil)
	h.runner.Succeed("plan "+w.Status.Run.ID, true)
	h.until("applied", applied)
	if len(h.started("plan")) != 1 {
		t.Errorf("started %v", h.runner.Started())
	}
}

func TestARevisionThatIsNotDetectedYet(t *testing.T) {
	h := newHarness(t)
	w := standing()
	delete(w.Annotations, v1alpha1.AnnotationDetectedRevision)
	w.Spec.Source.TargetRevision = "v1"
	for name, value := range (v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass, For: v1alpha1.GrantSubject(w)}).Annotations() {
		w.Annotations[name] = value
	}
	h.create(project(), w)
	h.passes(2)
	if st := h.workspace().Status; st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonRevisionNotFound {
		t.Fatalf("%s/%s", st.Phase, st.Reason)
	}
	h.refwatcher.Refuse(rpcerr.New(codes.Unavailable, "", "connection refused"))
	h.passes(1)
	if st := h.workspace().Status; st.Reason != v1alpha1.ReasonRefWatcherUnavailable {
		t.Fatalf("%s", st.Reason)
	}
	h.refwatcher.Refuse(nil)
	h.refwatcher.Set("v1", commitB)
	h.runner.Auto = true
	if w := h.until("applied", applied); w.Status.ObservedRevision != commitB {
		t.Errorf("observed %s", w.Status.ObservedRevision)
	}
}

func TestConflictDecidesAgain(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	id := w.Status.Run.ID
	h.runner.Succeed("plan "+id, false)
	// The grant is taken after the pass has read the Workspace and before it writes the intent to apply.
	meddling := &meddler{WithWatch: h.admin, before: func() {
		h.edit(func(w *v1alpha1.Workspace) {
			for _, name := range v1alpha1.GrantAnnotations() {
				delete(w.Annotations, name)
			}
		})
	}}
	h.workspaces.Client = meddling
	if pause, err := h.pass(); err != nil || pause == 0 {
		t.Fatalf("pause %s, error %v", pause, err)
	}
	h.workspaces.Client = h.admin
	h.passes(3)
	w = h.workspace()
	if len(h.started("apply")) > 0 || w.Status.Phase != v1alpha1.PhasePlanned || w.Status.Reason != v1alpha1.ReasonAwaitingRollout {
		t.Errorf("started %v, %s/%s", h.runner.Started(), w.Status.Phase, w.Status.Reason)
	}
}

func TestDeleting(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	if err := h.admin.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	h.passes(3)
	if w = h.workspace(); w.Status.Reason != v1alpha1.ReasonDeleting {
		t.Errorf("%s/%s while the plan runs", w.Status.Phase, w.Status.Reason)
	}
	h.runner.Succeed("plan "+w.Status.Run.ID, false)
	h.passes(3)
	h.wantLetGo()
	if len(h.started("apply")) > 0 {
		t.Error("a deleted Workspace was applied")
	}
}

func TestAFinishedJobIsReadAgainByARestartedService(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	id := w.Status.Run.ID
	h.runner.Succeed("plan "+id, false)
	h.restart(0, crash.Before)
	h.until("applying", in(v1alpha1.RunApplying))
	h.runner.Succeed("apply "+id, false)
	h.restart(0, crash.Before)
	first := h.until("applied", applied)
	h.restart(0, crash.Before)
	h.passes(3)
	again := h.workspace()
	if again.ResourceVersion != first.ResourceVersion || again.Status.Run.ID != id {
		t.Errorf("a restart changed something: %+v", again.Status)
	}
	h.checkRuns(1)
	if calls := len(h.runner.Started()); calls != 2 {
		t.Errorf("started %v", h.runner.Started())
	}
}

func TestAnInvalidIntervalIsSaidAndTheDefaultUsed(t *testing.T) {
	h := newHarness(t)
	w := standing()
	w.Annotations[v1alpha1.AnnotationReconcileInterval] = "soon"
	h.create(project(), w)
	h.runner.Auto, h.runner.Empty = true, true
	w = h.until("applied", applied)
	c := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionAnnotationsValid)
	if c == nil || c.Status != "False" || c.Reason != v1alpha1.ReasonInvalidAnnotation {
		t.Errorf("condition %+v", c)
	}
	if heard := h.heard(v1alpha1.ReasonInvalidAnnotation); len(heard) != 1 {
		t.Errorf("Events %v, want one", heard)
	}
	due := w.Status.NextReconcileTime.Sub(w.Status.Applied.At.Time)
	if due < v1alpha1.DefaultReconcileInterval || due > v1alpha1.DefaultReconcileInterval*11/10 {
		t.Errorf("next after %s", due)
	}
}

func TestAPendingPodShowsWhatItWaitsFor(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	w := h.until("asked for", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	h.runner.Set("plan "+w.Status.Run.ID, func(run *runnerv1alpha1.Run) {
		run.State, run.Reason, run.Message = runnerv1alpha1.RunState_RUN_STATE_PENDING, v1alpha1.ReasonQuotaExceeded, "exceeded quota: compute"
	})
	h.passes(1)
	if st := h.workspace().Status; st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonQuotaExceeded || st.Message != "exceeded quota: compute" {
		t.Errorf("%s/%s %s", st.Phase, st.Reason, st.Message)
	}
}
