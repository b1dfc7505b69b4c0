package lifecycle

import (
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scene is a Workspace that was applied at c1 under a standing grant and has nothing to do.
func scene(edits ...func(*Snapshot)) Snapshot {
	o := newWorld()
	o.w.Finalizers = []string{v1alpha1.FinalizerWorkspace}
	setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
	detect(o.w, "c1")
	s := o.snapshot(o.w)
	fingerprint := s.Inputs.Fingerprint.String()
	o.w.Status = v1alpha1.WorkspaceStatus{
		ObservedGeneration: 1, ObservedRevision: "c1",
		Applied: &v1alpha1.AppliedState{Pass: v1alpha1.StandingPass, RunID: "u-1-a", Revision: "c1", Fingerprint: fingerprint, At: metav1.NewTime(start)},
		Run: &v1alpha1.WorkspaceRun{
			ID: "u-1-a", Trigger: v1alpha1.TriggerSpec, Pass: v1alpha1.StandingPass, Scope: v1alpha1.ScopeRun, Revision: "c1",
			Fingerprint: fingerprint, AutoApply: true, Phase: v1alpha1.RunSucceeded, ApplyRequestedAt: &metav1.Time{Time: start},
		},
	}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func neverApplied(s *Snapshot) { s.Workspace.Status = v1alpha1.WorkspaceStatus{} }
func deleting(s *Snapshot)     { s.Workspace.DeletionTimestamp = &metav1.Time{Time: start} }
func isSuspended(s *Snapshot)  { s.Workspace.Spec.Suspend = true }
func ordered(s *Snapshot)      { s.Ordered = true }
func withoutProject(s *Snapshot) {
	s.ProjectFound, s.Inputs.Fingerprint.Variables = false, ""
}

func in(d time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Now = s.Now.Add(d) }
}

func annotated(name, value string) func(*Snapshot) {
	return func(s *Snapshot) { s.Workspace.Annotations[name] = value }
}

func grantedAs(g v1alpha1.Grant) func(*Snapshot) {
	return func(s *Snapshot) {
		o := newWorld()
		o.w = s.Workspace
		setGrant(o, g)
	}
}

func unresolved(s *Snapshot) {
	s.Inputs.Unresolved = []Unresolved{{Variable: "region", Kind: "Secret", Name: "cloud", Key: "region", Reason: v1alpha1.UnresolvedKeyNotFound}}
	s.Inputs.Fingerprint.Variables = "other"
}

func run(edit func(*v1alpha1.WorkspaceRun)) func(*Snapshot) {
	return func(s *Snapshot) { edit(s.Workspace.Status.Run) }
}

func at(phase v1alpha1.RunPhase) func(*Snapshot) {
	return run(func(r *v1alpha1.WorkspaceRun) {
		r.ID, r.Phase, r.ApplyRequestedAt = "u-1-b", phase, nil
		if phase == v1alpha1.RunPlanned || phase == v1alpha1.RunApplying {
			r.PlanDigest = "sealed"
		}
	})
}

func applySeen(r *v1alpha1.WorkspaceRun) {
	r.ApplyRequestedAt, r.ApplyStartedAt = &metav1.Time{Time: start}, &metav1.Time{Time: start}
}

func applyLost(r *v1alpha1.WorkspaceRun) { r.LostAt = &metav1.Time{Time: start} }

func planStarted(r *v1alpha1.WorkspaceRun) { r.PlanStartedAt = &metav1.Time{Time: start} }

func sees(state RunState) func(*Snapshot) {
	return func(s *Snapshot) { s.Run = &RunView{State: state} }
}

func failed(reason string, count int32) func(*Snapshot) {
	return func(s *Snapshot) {
		st := &s.Workspace.Status
		st.Run.Phase = v1alpha1.RunFailed
		st.Failures = &v1alpha1.Failures{Count: count, LastAt: metav1.NewTime(start), LastReason: reason, Revision: st.Run.Revision, Fingerprint: st.Run.Fingerprint}
	}
}

func parked(auto bool) func(*Snapshot) {
	return func(s *Snapshot) {
		at(v1alpha1.RunPlanned)(s)
		s.Workspace.Spec.AutoApply = &auto
		s.Workspace.Status.Run.AutoApply = auto
		if !auto {
			s.Workspace.Status.AwaitingApproval = &v1alpha1.AwaitingApproval{RunID: "u-1-b"}
		}
	}
}

var (
	planGrant  = v1alpha1.Grant{Scope: v1alpha1.ScopePlan, Pass: "p1", Revision: "c1"}
	driftGrant = v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "p1", Revision: "c1"}
	passGrant  = v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p2", Revision: "c1"}
)

func TestPredicates(t *testing.T) {
	type want struct {
		action Action
		phase  v1alpha1.Phase
		reason string
		text   string
	}
	for name, c := range map[string]struct {
		edits []func(*Snapshot)
		want  want
	}{
		// Deletion.
		"a Workspace at rest that is deleted loses the finalizer": {[]func(*Snapshot){deleting}, want{action: ActRemoveFinalizer}},
		"a deleted Workspace lets its apply end": {[]func(*Snapshot){at(v1alpha1.RunApplying), sees(RunRunning), deleting},
			want{ActNone, v1alpha1.PhaseApplying, v1alpha1.ReasonDeleting, "let end"}},
		"a deleted Workspace gives up its waiting plan, approved or not": {[]func(*Snapshot){parked(false), annotated(v1alpha1.AnnotationApproved, "u-1-b"), deleting},
			want{action: ActRecordEnd}},
		"a deleted Workspace makes sure that a recorded plan never starts": {[]func(*Snapshot){at(v1alpha1.RunPlanning), deleting}, want{action: ActCancelRun}},

		// Suspension.
		"a suspended Workspace that is applied stays Applied": {[]func(*Snapshot){isSuspended},
			want{ActNone, v1alpha1.PhaseApplied, v1alpha1.ReasonSuspended, "spec.suspend"}},
		"it is not looked at for drift": {[]func(*Snapshot){isSuspended, in(100 * time.Hour)},
			want{ActNone, v1alpha1.PhaseApplied, v1alpha1.ReasonSuspended, ""}},
		"it starts nothing for a new commit": {[]func(*Snapshot){isSuspended, annotated(v1alpha1.AnnotationDetectedRevision, "c2")},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonSuspended, ""}},
		"nor for a request": {[]func(*Snapshot){isSuspended, annotated(v1alpha1.AnnotationReconcileRequest, "now")},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonSuspended, ""}},
		"nor after a failure": {[]func(*Snapshot){failed(v1alpha1.ReasonApplyFailed, 1), in(time.Hour), isSuspended},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonSuspended, "ApplyFailed"}},
		"a suspended Workspace lets its apply end": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunRunning), isSuspended},
			want{ActNone, v1alpha1.PhaseApplying, v1alpha1.ReasonApplyRunning, "suspended"}},
		"and its plan": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunRunning), isSuspended},
			want{ActNone, v1alpha1.PhasePlanning, v1alpha1.ReasonPlanRunning, "suspended"}},
		"a suspended Workspace makes sure that a recorded plan never starts": {[]func(*Snapshot){at(v1alpha1.RunPlanning), isSuspended}, want{action: ActCancelRun}},
		"a pending plan is given up for a suspension": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunPending), isSuspended},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "suspended"}},
		"and a pending apply": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunPending), isSuspended},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "suspended"}},
		"a suspended Workspace gives up its waiting plan, approved or not": {[]func(*Snapshot){parked(false), annotated(v1alpha1.AnnotationApproved, "u-1-b"), isSuspended},
			want{action: ActRecordEnd}},
		"and a plan that needs nobody":     {[]func(*Snapshot){parked(true), isSuspended}, want{action: ActRecordEnd}},
		"deletion comes before suspension": {[]func(*Snapshot){isSuspended, deleting}, want{action: ActRemoveFinalizer}},

		// Finalizer and approvals.
		"no run before the finalizer":       {[]func(*Snapshot){neverApplied, func(s *Snapshot) { s.Workspace.Finalizers = nil }}, want{action: ActAddFinalizer}},
		"an approval of nothing is removed": {[]func(*Snapshot){annotated(v1alpha1.AnnotationApproved, "u-1-old")}, want{action: ActRemoveApproval}},
		"an approval of a plan that nobody has seen yet is removed": {[]func(*Snapshot){at(v1alpha1.RunPlanned), annotated(v1alpha1.AnnotationApproved, "u-1-b")},
			want{action: ActRemoveApproval}},
		"an approval of another run is removed": {[]func(*Snapshot){parked(false), annotated(v1alpha1.AnnotationApproved, "u-1-a")}, want{action: ActRemoveApproval}},

		// Live run.
		"a recorded run asks for its plan": {[]func(*Snapshot){at(v1alpha1.RunPlanning)}, want{action: ActStartPlan, phase: v1alpha1.PhasePending}},
		"a recorded run whose grant was taken never starts": {[]func(*Snapshot){at(v1alpha1.RunPlanning), grantedAs(v1alpha1.Grant{})},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "grant"}},
		"a recorded run whose variables changed never starts": {[]func(*Snapshot){at(v1alpha1.RunPlanning), unresolved},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "inputs"}},
		"a started plan goes on without a grant": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunRunning), grantedAs(v1alpha1.Grant{})},
			want{ActNone, v1alpha1.PhasePlanning, v1alpha1.ReasonPlanRunning, ""}},
		"a plan whose pod has not started shows why": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), func(s *Snapshot) {
			s.Run = &RunView{State: RunPending, Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"}
		}}, want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonQuotaExceeded, "exceeded quota"}},
		"a started plan without a Job is lost": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunAbsent)},
			want{ActCancelRun, v1alpha1.PhaseFailed, v1alpha1.ReasonRunLost, "plans again"}},
		"a plan without a readable result is lost": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunSucceeded)},
			want{ActRecordEnd, v1alpha1.PhaseFailed, v1alpha1.ReasonRunLost, ""}},
		"an apply that never was is not asked for again": {[]func(*Snapshot){at(v1alpha1.RunApplying), sees(RunAbsent)},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "never applied twice"}},
		"the loss of an apply that was seen is recorded first": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunAbsent)},
			want{ActNone, v1alpha1.PhaseApplying, v1alpha1.ReasonRunLost, "gone"}},
		"then it is lost": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), run(applyLost), sees(RunAbsent)},
			want{ActCancelRun, v1alpha1.PhaseFailed, v1alpha1.ReasonRunLost, "never applied twice"}},
		"also where the tombstone is there already": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), run(applyLost), sees(RunVoid)},
			want{ActRecordEnd, v1alpha1.PhaseFailed, v1alpha1.ReasonRunLost, "never applied twice"}},
		"a void plan is no failure": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunVoid)},
			want{ActRecordEnd, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "before it began"}},
		"a void apply is no failure": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunVoid)},
			want{ActRecordEnd, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "before it began"}},
		"a plan that failed before it started is no failure": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), func(s *Snapshot) {
			s.Run = &RunView{State: RunFailed, NeverStarted: true, Reason: v1alpha1.ReasonUnschedulable, Message: "Pod was rejected"}
		}}, want{ActRecordEnd, v1alpha1.PhasePending, v1alpha1.ReasonUnschedulable, "rejected"}},
		"a pending plan is given up for a deletion": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunPending), deleting},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonDeleting, ""}},
		"a pending apply is given up for an edit": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunPending), func(s *Snapshot) { s.Inputs.Fingerprint.Spec = "x" }},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "edited"}},
		"a pending plan is given up for changed variables": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunPending), func(s *Snapshot) { s.Inputs.Fingerprint.Variables = "x" }},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "variables"}},
		"a pending apply is not": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunPending), func(s *Snapshot) { s.Inputs.Fingerprint.Variables = "x" }},
			want{ActNone, v1alpha1.PhaseApplying, v1alpha1.ReasonRunPending, ""}},
		"nor where one is missing by now": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunPending), unresolved},
			want{ActNone, v1alpha1.PhaseApplying, v1alpha1.ReasonRunPending, ""}},
		"a pending plan is given up for a variable that is missing now": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunPending), unresolved},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "KeyNotFound"}},
		"a pending plan is given up for a request": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), sees(RunPending), annotated(v1alpha1.AnnotationReconcileRequest, "now")},
			want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "requested"}},
		"a pending plan is given up after its time": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), in(StartDeadline), func(s *Snapshot) {
			s.Run = &RunView{State: RunPending, Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"}
		}}, want{ActCancelRun, v1alpha1.PhasePending, v1alpha1.ReasonQuotaExceeded, "within 10m0s: exceeded quota"}},
		"a running apply is not": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(applySeen), sees(RunRunning), in(StartDeadline), annotated(v1alpha1.AnnotationReconcileRequest, "now")},
			want{ActNone, v1alpha1.PhaseApplying, v1alpha1.ReasonApplyRunning, ""}},
		"a failed drift plan leaves Applied": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(planStarted), run(func(r *v1alpha1.WorkspaceRun) { r.Trigger = v1alpha1.TriggerDrift }), sees(RunFailed)},
			want{ActRecordEnd, v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, ""}},
		"a failed apply of drift does not": {[]func(*Snapshot){at(v1alpha1.RunApplying), run(func(r *v1alpha1.WorkspaceRun) {
			r.Trigger, r.ApplyRequestedAt = v1alpha1.TriggerDrift, &metav1.Time{Time: start}
		}), sees(RunFailed)}, want{ActRecordEnd, v1alpha1.PhaseFailed, v1alpha1.ReasonApplyFailed, ""}},

		// Gate.
		"a clean plan is applied": {[]func(*Snapshot){parked(true)}, want{action: ActRequestApply, phase: v1alpha1.PhaseApplying}},
		"without autoApply it waits for a person": {[]func(*Snapshot){parked(false)},
			want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingApproval, "u-1-b"}},
		"the approval of this run lets it go on": {[]func(*Snapshot){parked(false), annotated(v1alpha1.AnnotationApproved, "u-1-b")}, want{action: ActRequestApply}},
		"an approved plan without a grant waits": {[]func(*Snapshot){parked(false), annotated(v1alpha1.AnnotationApproved, "u-1-b"), grantedAs(v1alpha1.Grant{}), ordered},
			want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingRollout, ""}},
		"drift that was found waits for the scope to widen": {[]func(*Snapshot){parked(true), ordered, grantedAs(driftGrant), run(func(r *v1alpha1.WorkspaceRun) {
			r.Trigger, r.Scope, r.Pass = v1alpha1.TriggerDrift, v1alpha1.ScopeDrift, "p1"
		})}, want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingRollout, ""}},
		"a plan under a grant to plan waits for the budget": {[]func(*Snapshot){parked(true), ordered, grantedAs(planGrant), run(func(r *v1alpha1.WorkspaceRun) {
			r.Scope, r.Pass, r.Changes = v1alpha1.ScopePlan, "p1", &v1alpha1.Changes{Destroy: 3, Replace: 1}
		})}, want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingBudget, "destroys 3 and replaces 1"}},
		"an approved one, too": {[]func(*Snapshot){parked(false), annotated(v1alpha1.AnnotationApproved, "u-1-b"), ordered, grantedAs(planGrant), run(func(r *v1alpha1.WorkspaceRun) {
			r.Scope, r.Pass = v1alpha1.ScopePlan, "p1"
		})}, want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingBudget, ""}},
		"an approval comes before the budget": {[]func(*Snapshot){parked(false), ordered, grantedAs(planGrant), run(func(r *v1alpha1.WorkspaceRun) {
			r.Scope, r.Pass = v1alpha1.ScopePlan, "p1"
		})}, want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingApproval, ""}},
		"a plan is given up for a grant of another pass": {[]func(*Snapshot){parked(true), ordered, grantedAs(passGrant)},
			want{ActRecordEnd, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "another pass"}},
		"turning autoApply on plans again": {[]func(*Snapshot){parked(false), func(s *Snapshot) { s.Workspace.Spec.AutoApply = nil }},
			want{ActRecordEnd, v1alpha1.PhasePending, v1alpha1.ReasonRunDiscarded, "autoApply"}},
		"turning autoApply off parks the plan": {[]func(*Snapshot){parked(true), func(s *Snapshot) { off := false; s.Workspace.Spec.AutoApply = &off }},
			want{ActNone, v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingApproval, ""}},

		// Grant.
		"a want without a grant waits for its turn": {[]func(*Snapshot){neverApplied, grantedAs(v1alpha1.Grant{}), ordered, unresolved},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout, "Rollout \"net\""}},
		"a want without a Project waits for it": {[]func(*Snapshot){neverApplied, withoutProject},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonProjectNotFound, "create it"}},
		"a standing grant is none where a Rollout orders": {[]func(*Snapshot){neverApplied, ordered},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout, ""}},
		"a grant for drift is none for a new commit": {[]func(*Snapshot){ordered, grantedAs(driftGrant), annotated(v1alpha1.AnnotationDetectedRevision, "c2")},
			want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout, ""}},
		"without a grant what is applied stays Applied": {[]func(*Snapshot){grantedAs(v1alpha1.Grant{}), ordered},
			want{ActNone, v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, ""}},

		// Inputs.
		"a granted want without its variables fails": {[]func(*Snapshot){neverApplied, unresolved},
			want{ActNone, v1alpha1.PhaseFailed, v1alpha1.ReasonUnresolvedVariables, "variable region, key region of Secret cloud: KeyNotFound"}},

		// Revision.
		"without a commit the watcher is asked": {[]func(*Snapshot){neverApplied, annotated(v1alpha1.AnnotationDetectedRevision, "")}, want{action: ActResolveRevision}},
		"a commit that was detected before the spec was edited is not trusted": {[]func(*Snapshot){func(s *Snapshot) {
			s.Workspace.Spec.Source.TargetRevision = "v2"
			s.Inputs.Fingerprint.Spec = SpecFingerprint(s.Workspace).Spec
			grantedAs(v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})(s)
		}}, want{action: ActResolveRevision}},
		"no commit at all waits, in the watcher's words": {[]func(*Snapshot){neverApplied, annotated(v1alpha1.AnnotationDetectedRevision, ""), func(s *Snapshot) {
			s.Resolution = &Resolution{Reason: v1alpha1.ReasonRevisionNotFound, Message: "no branch main"}
		}}, want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonRevisionNotFound, "no branch main"}},

		// Schedule.
		"nothing to do": {nil, want{ActNone, v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, ""}},
		"drift is due":  {[]func(*Snapshot){in(time.Hour)}, want{action: ActRecordRun}},
		"drift is due and not granted": {[]func(*Snapshot){in(time.Hour), ordered, grantedAs(v1alpha1.Grant{})},
			want{ActNone, v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, "drift"}},
		"drift is due and granted for another commit": {[]func(*Snapshot){in(time.Hour), ordered, grantedAs(v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "p1", Revision: "c0"})},
			want{ActNone, v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, ""}},
		"a failure rests": {[]func(*Snapshot){failed(v1alpha1.ReasonApplyFailed, 1)},
			want{ActNone, v1alpha1.PhaseFailed, v1alpha1.ReasonApplyFailed, ""}},
		"a failure is tried again": {[]func(*Snapshot){failed(v1alpha1.ReasonApplyFailed, 1), in(3 * time.Minute)}, want{action: ActRecordRun}},
		"a fresh attempt of the pass does not rest": {[]func(*Snapshot){ordered, inPass("p2"), failed(v1alpha1.ReasonApplyFailed, 9), grantedAs(freshAttempt(2))},
			want{action: ActRecordRun}},
		"a fresh attempt that the failed run has used up rests": {[]func(*Snapshot){ordered, inPass("p2"), run(func(r *v1alpha1.WorkspaceRun) { r.Attempt = 2 }),
			failed(v1alpha1.ReasonApplyFailed, 9), grantedAs(freshAttempt(2))}, want{ActNone, v1alpha1.PhaseFailed, v1alpha1.ReasonApplyFailed, ""}},
		"what failed in an earlier pass does not rest": {[]func(*Snapshot){ordered, inPass("p1"), failed(v1alpha1.ReasonApplyFailed, 9), grantedAs(freshAttempt(2))},
			want{action: ActRecordRun}},
		"a request does not rest": {[]func(*Snapshot){failed(v1alpha1.ReasonApplyFailed, 9), annotated(v1alpha1.AnnotationReconcileRequest, "now")},
			want{action: ActRecordRun}},
		"a new commit does not rest": {[]func(*Snapshot){failed(v1alpha1.ReasonApplyFailed, 9), annotated(v1alpha1.AnnotationDetectedRevision, "c2")},
			want{action: ActRecordRun}},
		"what is done in its pass waits for the next one": {[]func(*Snapshot){ordered, grantedAs(passGrant), annotated(v1alpha1.AnnotationDetectedRevision, "c2"),
			func(s *Snapshot) { s.Workspace.Status.Applied.Pass = "p2" }}, want{ActNone, v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout, "next one"}},
		"a pass that has not seen a newer Workspace runs it once at its commit": {[]func(*Snapshot){ordered, grantedAs(passGrant), annotated(v1alpha1.AnnotationDetectedRevision, "c2")},
			want{action: ActRecordRun}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(scene(c.edits...))
			if d.Action != c.want.action {
				t.Fatalf("action %s, want %s: %+v", d.Action, c.want.action, d)
			}
			if c.want.phase != "" && d.Phase != c.want.phase || c.want.reason != "" && d.Reason != c.want.reason || !strings.Contains(d.Message, c.want.text) {
				t.Errorf("%s/%s %q, want %s/%s %q", d.Phase, d.Reason, d.Message, c.want.phase, c.want.reason, c.want.text)
			}
		})
	}
}

func inPass(pass string) func(*Snapshot) {
	return run(func(r *v1alpha1.WorkspaceRun) { r.Pass = pass })
}

func freshAttempt(n int32) v1alpha1.Grant {
	g := passGrant
	g.Attempt = n
	return g
}

func TestARunRemembersItsAttempt(t *testing.T) {
	d := Decide(scene(ordered, inPass("p2"), failed(v1alpha1.ReasonApplyFailed, 9), grantedAs(freshAttempt(2))))
	if d.Run == nil || d.Run.Attempt != 2 {
		t.Errorf("run %+v, want attempt 2", d.Run)
	}
}

func TestWants(t *testing.T) {
	request := annotated(v1alpha1.AnnotationReconcileRequest, "now")
	for name, c := range map[string]struct {
		edits    []func(*Snapshot)
		trigger  v1alpha1.Trigger
		revision string
	}{
		"nothing":                       {nil, "", ""},
		"never applied":                 {[]func(*Snapshot){neverApplied}, v1alpha1.TriggerSpec, "c1"},
		"the spec differs":              {[]func(*Snapshot){func(s *Snapshot) { s.Inputs.Fingerprint.Spec = "x" }}, v1alpha1.TriggerSpec, "c1"},
		"the variables differ":          {[]func(*Snapshot){func(s *Snapshot) { s.Inputs.Fingerprint.Variables = "x" }}, v1alpha1.TriggerVariables, "c1"},
		"the variables are not known":   {[]func(*Snapshot){withoutProject}, "", ""},
		"a new commit":                  {[]func(*Snapshot){annotated(v1alpha1.AnnotationDetectedRevision, "c2")}, v1alpha1.TriggerRevision, "c2"},
		"a request":                     {[]func(*Snapshot){request}, v1alpha1.TriggerManual, "c1"},
		"a request that was handled":    {[]func(*Snapshot){request, func(s *Snapshot) { s.Workspace.Status.HandledRequest = "now" }}, "", ""},
		"drift is due":                  {[]func(*Snapshot){in(time.Hour)}, v1alpha1.TriggerDrift, "c1"},
		"a failure, from the beginning": {[]func(*Snapshot){failed(v1alpha1.ReasonPlanFailed, 1)}, v1alpha1.TriggerRetry, "c1"},
		"a failure and a new commit":    {[]func(*Snapshot){failed(v1alpha1.ReasonPlanFailed, 1), annotated(v1alpha1.AnnotationDetectedRevision, "c2")}, v1alpha1.TriggerRevision, "c2"},
		"a failed new commit that was taken back": {[]func(*Snapshot){run(func(r *v1alpha1.WorkspaceRun) { r.Revision = "c2" }), failed(v1alpha1.ReasonPlanFailed, 1)},
			v1alpha1.TriggerRevision, "c1"},
		"a manual run in flight": {[]func(*Snapshot){at(v1alpha1.RunPlanning), run(func(r *v1alpha1.WorkspaceRun) { r.Trigger = v1alpha1.TriggerManual })},
			v1alpha1.TriggerManual, "c1"},
		"a manual run that was given up is owed": {[]func(*Snapshot){at(v1alpha1.RunDiscarded), run(func(r *v1alpha1.WorkspaceRun) { r.Trigger = v1alpha1.TriggerManual })},
			v1alpha1.TriggerManual, "c1"},
		"a commit that the pass knows before the watcher": {[]func(*Snapshot){ordered, grantedAs(v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p2", Revision: "c2"})},
			v1alpha1.TriggerRevision, "c2"},
		"a Workspace that is being deleted": {[]func(*Snapshot){neverApplied, deleting}, "", ""},
		"a suspended Workspace still says what it would run": {[]func(*Snapshot){isSuspended, annotated(v1alpha1.AnnotationDetectedRevision, "c2")},
			v1alpha1.TriggerRevision, "c2"},
		"but asks for no drift plan": {[]func(*Snapshot){isSuspended, in(time.Hour)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := wanted(scene(c.edits...))
			if want == nil {
				want = &v1alpha1.Want{}
			}
			if want.Trigger != c.trigger || want.Revision != c.revision {
				t.Errorf("wants %s at %q, want %s at %q", want.Trigger, want.Revision, c.trigger, c.revision)
			}
		})
	}
}

func TestSinceStaysWhileTheWantDoes(t *testing.T) {
	s := scene(annotated(v1alpha1.AnnotationDetectedRevision, "c2"))
	s.Workspace.Status.Wants = wanted(s)
	s.Now = s.Now.Add(time.Hour)
	if since := wanted(s).Since; !since.Time.Equal(start) {
		t.Errorf("since %s, want %s", since, start)
	}
}
