package lifecycle

import (
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is what is to be recorded after the action of d had the outcome o. It depends on nothing else, so that a pass
// that changes nothing gives the status that is there already.
func Status(s Snapshot, d Decision, o Outcome) v1alpha1.WorkspaceStatus {
	st := s.Workspace.Status.DeepCopy()
	st.ObservedGeneration = s.Workspace.Generation
	switch o.Kind {
	case OutcomeDone:
		recordDone(st, s, d)
	case OutcomeWaiting:
		st.Reason, st.Message = o.Reason, o.Message
		if d.Action == ActStartPlan {
			st.Phase = v1alpha1.PhasePending
		}
	case OutcomeVoid:
		recordDone(st, s, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "it was cancelled before it began"))
	case OutcomeRefused:
		recordDone(st, s, end(s, v1alpha1.RunFailed, o.Reason, o.Message))
	}
	st.Variables = v1alpha1.VariablesStatus{Fingerprint: s.Inputs.Fingerprint.Variables, Sets: s.Inputs.Sets}

	// What is wanted and when the next date is follow from what is recorded, not from what was there before.
	after := s
	after.Workspace = s.Workspace.DeepCopy()
	after.Workspace.Status = *st
	st.Wants = wanted(after)
	st.NextReconcileTime = nil
	if due, ok := nextDue(after.Workspace); ok {
		at := metav1.NewTime(due).Rfc3339Copy()
		st.NextReconcileTime = &at
	}
	after.Workspace.Status = *st
	setConditions(st, after)
	return *st
}

// Unavailable is what is to be recorded when a peer cannot be asked about a run in flight: only that. The run stays as
// it was recorded.
func Unavailable(w *v1alpha1.Workspace, now time.Time, reason v1alpha1.Reason, message string) v1alpha1.WorkspaceStatus {
	st := w.Status.DeepCopy()
	st.Reason, st.Message = reason, message
	c := ready(st)
	c.ObservedGeneration = st.ObservedGeneration
	setCondition(&st.Conditions, c, Snapshot{Now: now})
	return *st
}

// stamp is the time of this pass as status keeps it: in whole seconds, so that what is derived from it in this pass is
// what will be derived from the stored object in the next.
func stamp(s Snapshot) metav1.Time {
	return metav1.NewTime(s.Now.Truncate(time.Second))
}

func recordDone(st *v1alpha1.WorkspaceStatus, s Snapshot, d Decision) {
	st.Phase, st.Reason, st.Message = d.Phase, d.Reason, d.Message
	if d.Action == ActRecordRun && d.Run.Trigger != v1alpha1.TriggerDrift && isFailedDriftCheck(st.Run) {
		// That reality could not be looked at is no failure of what begins now, nor of the pass that it belongs to.
		st.Failures = nil
	}
	if d.Run != nil {
		st.Run = d.Run.DeepCopy()
	}
	if d.PlanEnded {
		st.Drift = d.Drift
	}
	if d.Action == ActRecordRun && isDestroy(d.Run) && !isDestroy(s.Workspace.Status.Run) {
		// What failed before was something else.
		st.Failures = nil
	}
	switch {
	case d.Action == ActRecordRun && d.Run.Request != "":
		st.HandledRequest = d.Run.Request
	case d.Action == ActRequestApply && d.Approved:
		by := or(s.Workspace.Annotations[v1alpha1.AnnotationApprovedBy], v1alpha1.UnknownApprover)
		st.Approval = &v1alpha1.Approval{RunID: d.Run.ID, By: by, At: stamp(s)}
	case d.End != nil:
		recordEnd(st, s, d)
	}
	st.AwaitingApproval = awaiting(st.AwaitingApproval, s, d)
}

func recordEnd(st *v1alpha1.WorkspaceStatus, s Snapshot, d Decision) {
	run, now := st.Run, stamp(s)
	if !isDestroy(run) && (run.Phase == v1alpha1.RunSucceeded || run.Phase == v1alpha1.RunFailed && run.ApplyRequestedAt != nil) {
		st.LastApply = &v1alpha1.LastApply{RunID: run.ID, Revision: run.Revision, Fingerprint: run.Fingerprint}
	}
	switch run.Phase {
	case v1alpha1.RunSucceeded:
		if isDestroy(run) {
			destroyed(st)
			return
		}
		pass := run.Pass
		if run.Trigger == v1alpha1.TriggerDrift && st.Applied != nil {
			// A look for drift has a grant of whatever pass moves, and brings nothing that this pass could count on.
			pass = st.Applied.Pass
		}
		st.Applied = &v1alpha1.AppliedState{Pass: pass, RunID: run.ID, Revision: run.Revision, Fingerprint: run.Fingerprint, At: now}
		st.ObservedRevision = run.Revision
		st.LastAppliedAt = &now
		st.Failures, st.Drift = nil, nil
	case v1alpha1.RunFailed:
		count := int32(1)
		if f := st.Failures; f != nil && f.Revision == run.Revision && f.Fingerprint == run.Fingerprint {
			count = f.Count + 1
		}
		st.Failures = &v1alpha1.Failures{
			Count: count, LastAt: now, LastReason: d.End.Reason, Message: d.End.Message,
			Revision: run.Revision, Fingerprint: run.Fingerprint,
		}
	default:
		// A run that was given up proves nothing, for better or worse.
	}
}

// awaiting keeps the time since when the plan of this run waits.
func awaiting(old *v1alpha1.AwaitingApproval, s Snapshot, d Decision) *v1alpha1.AwaitingApproval {
	if !d.Awaits {
		return nil
	}
	run := s.Workspace.Status.Run
	next := &v1alpha1.AwaitingApproval{RunID: run.ID, PlanDigest: run.PlanDigest, Since: stamp(s), Warnings: d.Warnings}
	if old != nil && old.RunID == run.ID {
		next.Since = old.Since
	}
	return next
}
