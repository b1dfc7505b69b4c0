package lifecycle

import (
	"fmt"

	"magosproject.io/api/v1alpha1"
)

// cancellation ends the live run that a person cancelled. That it was asked for is recorded first: the annotation is then
// done with, and what the pod does on its way out is understood as what was wanted.
func cancellation(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	run := s.Workspace.Status.Run
	switch {
	case !isLive(run):
		return Decision{}, false
	case run.CancelledAt != nil:
		return standing(s, giveUp(s)), true
	case s.Workspace.Annotations[v1alpha1.AnnotationCancel] != run.ID:
		return Decision{}, false
	}
	next := run.DeepCopy()
	now := stamp(s)
	next.CancelledAt = &now
	return Decision{
		Action: ActNone, Run: next, Phase: s.Workspace.Status.Phase, Reason: v1alpha1.ReasonCancelling,
		Message: cancelling(run),
	}, true
}

func cancelling(run *v1alpha1.WorkspaceRun) string {
	return "run " + run.ID + " was cancelled: a pod of it that runs is interrupted and given its grace"
}

// giveUp ends a run that was cancelled. A plan changes nothing, so it counts as cancelled however it ends; an apply that has
// ended counts as what it is.
func giveUp(s Snapshot) Decision {
	run := s.Workspace.Status.Run
	ended := end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonCancelled, "run "+run.ID+" was cancelled; "+untilAsked)
	half, isAsked := InFlight(s.Workspace)
	switch {
	case run.Phase == v1alpha1.RunPlanned:
		return ended
	case !isAsked:
		return interrupt(Plan, ended)
	case s.Run == nil:
	case s.Run.State == RunPending || s.Run.State == RunRunning:
		return interrupt(half, ended)
	case s.Run.State == RunVoid && run.LostAt == nil, s.Run.State == RunFailed && half == Plan:
		return ended
	}
	d, _ := liveRun(s, nil)
	return d
}

const untilAsked = "its inputs rest until they change or a run is requested"

// isCancelled reports whether run ended because a person wanted it to. One that succeeded all the same is as good as any.
func isCancelled(run *v1alpha1.WorkspaceRun) bool {
	return run != nil && run.CancelledAt != nil && (run.Phase == v1alpha1.RunDiscarded || run.Phase == v1alpha1.RunFailed)
}

// restsCancelled reports whether these inputs, with target as the commit, are those of a run that was cancelled.
func restsCancelled(s Snapshot, target string) bool {
	run := s.Workspace.Status.Run
	return isCancelled(run) && !hasFreshRequest(s.Workspace) && run.Revision == target && run.Fingerprint == s.Inputs.Fingerprint.String()
}

// cancelled is the answer for inputs whose run was cancelled.
func cancelled(s Snapshot) Decision {
	run := s.Workspace.Status.Run
	d := Decision{
		Action: ActNone, Phase: v1alpha1.PhasePending, Reason: v1alpha1.ReasonCancelled,
		Message: fmt.Sprintf("run %s was cancelled; %s: set the annotation %s to a fresh value", run.ID, untilAsked, v1alpha1.AnnotationReconcileRequest),
	}
	if run.Phase == v1alpha1.RunFailed {
		d.Phase = v1alpha1.PhaseFailed
		d.Message += "; it ended with " + run.Reason
	}
	return d
}

// cancelLitter removes a cancel that was seen, or that names no live run.
func cancelLitter(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	value, set := s.Workspace.Annotations[v1alpha1.AnnotationCancel]
	run := s.Workspace.Status.Run
	if !set || isLive(run) && run.ID == value && run.CancelledAt == nil {
		return Decision{}, false
	}
	d := Decision{Action: ActRemoveCancel}
	if run == nil || run.ID != value || run.CancelledAt == nil {
		d.Void = fmt.Sprintf("the cancel of %q was removed: no run of this ID is live", value)
	}
	return d, true
}
