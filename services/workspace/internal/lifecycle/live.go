package lifecycle

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

// safetyInterval is how often a run in flight is asked about although no hint came.
const safetyInterval = 30 * time.Second

// liveRun follows a run that has a Job, or is about to have one. What has started ends whatever the grant says by then.
func liveRun(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	run := s.Workspace.Status.Run
	switch {
	case !isLive(run) || run.Phase == v1alpha1.RunPlanned:
		return Decision{}, false
	case run.Phase == v1alpha1.RunApplying:
		return followApply(s), true
	case run.PlanStartedAt == nil:
		return beginPlan(s), true
	}
	return followPlan(s), true
}

// beginPlan asks for the plan Job of a recorded run, if the grant and the inputs are still those of the record.
func beginPlan(s Snapshot) Decision {
	run := s.Workspace.Status.Run
	if g, ok := granted(s); !ok || !covers(g, run) {
		return cancel(s, Plan, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "its grant was taken before the plan began")
	}
	if s.Inputs.Fingerprint.String() != run.Fingerprint {
		return cancel(s, Plan, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "its inputs changed before the plan began")
	}
	next := run.DeepCopy()
	now := stamp(s)
	next.PlanStartedAt = &now
	return Decision{
		Action: ActStartPlan, Run: next,
		Phase: v1alpha1.PhasePending, Reason: v1alpha1.ReasonRunPending, Message: "the plan Job exists; its pod has not started",
		Requeue: safetyInterval,
	}
}

func followPlan(s Snapshot) Decision {
	view := s.Run
	if view == nil {
		return Decision{Action: ActNone, Phase: s.Workspace.Status.Phase, Reason: s.Workspace.Status.Reason, Message: s.Workspace.Status.Message, Requeue: safetyInterval}
	}
	switch view.State {
	case RunPending:
		return following(view, v1alpha1.PhasePending, v1alpha1.ReasonRunPending, "the plan's pod has not started")
	case RunRunning:
		return following(view, v1alpha1.PhasePlanning, v1alpha1.ReasonPlanRunning, "the plan of "+short(s.Workspace.Status.Run.Revision)+" runs")
	case RunSucceeded:
		return planned(s, view)
	case RunFailed:
		return endAs(s, view, v1alpha1.ReasonPlanFailed)
	case RunVoid:
		return endAs(s, view, v1alpha1.ReasonInterrupted)
	case RunAbsent:
	}
	return cancel(s, Plan, v1alpha1.RunFailed, v1alpha1.ReasonRunLost, "the plan Job does not exist any more; the next attempt plans again")
}

func planned(s Snapshot, view *RunView) Decision {
	run := s.Workspace.Status.Run
	if view.Plan == nil || view.Plan.Digest == "" && !view.Plan.Empty {
		return end(s, v1alpha1.RunFailed, v1alpha1.ReasonRunLost, "the result of the plan cannot be read; the next attempt plans again")
	}
	if view.Plan.Empty {
		d := end(s, v1alpha1.RunSucceeded, v1alpha1.ReasonNoChanges, inForce(run.Revision))
		d.Run.PlanDigest = view.Plan.Digest
		changes := view.Plan.Changes
		d.Run.Changes = &changes
		return d
	}
	next := run.DeepCopy()
	next.Phase = v1alpha1.RunPlanned
	next.PlanDigest = view.Plan.Digest
	changes := view.Plan.Changes
	next.Changes = &changes
	return Decision{
		Action: ActRecordPlanned, Run: next,
		Phase: v1alpha1.PhasePlanned, Reason: v1alpha1.ReasonPlanSucceeded, Message: "the plan of " + short(run.Revision) + " succeeded",
	}
}

// followApply never asks for the apply again: its intent is recorded, and a Job that is not there was lost.
func followApply(s Snapshot) Decision {
	view := s.Run
	if view == nil {
		return Decision{Action: ActNone, Phase: v1alpha1.PhaseApplying, Reason: s.Workspace.Status.Reason, Message: s.Workspace.Status.Message, Requeue: safetyInterval}
	}
	revision := s.Workspace.Status.Run.Revision
	switch view.State {
	case RunPending:
		return following(view, v1alpha1.PhaseApplying, v1alpha1.ReasonRunPending, "the apply's pod has not started")
	case RunRunning:
		return following(view, v1alpha1.PhaseApplying, v1alpha1.ReasonApplyRunning, "the apply of "+short(revision)+" runs")
	case RunSucceeded:
		return end(s, v1alpha1.RunSucceeded, v1alpha1.ReasonApplySucceeded, inForce(revision))
	case RunFailed:
		return endAs(s, view, v1alpha1.ReasonApplyFailed)
	case RunVoid:
		return endAs(s, view, v1alpha1.ReasonInterrupted)
	case RunAbsent:
	}
	return cancel(s, Apply, v1alpha1.RunFailed, v1alpha1.ReasonRunLost,
		"the apply was asked for and its Job does not exist; a plan is never applied twice, so the next attempt plans again")
}

// following shows what a Job does, in the runner's words where it has any.
func following(view *RunView, phase v1alpha1.Phase, reason v1alpha1.Reason, message string) Decision {
	return Decision{Action: ActNone, Phase: phase, Reason: or(view.Reason, reason), Message: or(view.Message, message), Requeue: safetyInterval}
}

// endAs records a failure in the runner's words.
func endAs(s Snapshot, view *RunView, reason v1alpha1.Reason) Decision {
	return end(s, v1alpha1.RunFailed, or(view.Reason, reason), or(view.Message, "the run ended without success"))
}

// end records the run as ended.
func end(s Snapshot, phase v1alpha1.RunPhase, reason v1alpha1.Reason, message string) Decision {
	next := s.Workspace.Status.Run.DeepCopy()
	next.Phase = phase
	now := stamp(s)
	next.FinishedAt = &now
	d := Decision{
		Action: ActRecordEnd, Run: next, End: &End{Reason: reason, Message: message},
		Phase: v1alpha1.PhaseFailed, Reason: reason, Message: message,
	}
	switch {
	case phase == v1alpha1.RunSucceeded:
		d.Phase = v1alpha1.PhaseApplied
	case isFailedDriftCheck(next) || phase == v1alpha1.RunDiscarded && next.Trigger == v1alpha1.TriggerDrift:
		d.Phase, d.Reason, d.Message = v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, appliedMessage(s.Workspace.Status.Applied)
	case phase == v1alpha1.RunDiscarded:
		d.Phase = v1alpha1.PhasePending
	}
	return d
}

// cancel makes sure that a half of the run never starts before the run is recorded as ended: a StartRun that is still on
// its way from an earlier leader must find a tombstone.
func cancel(s Snapshot, half Half, phase v1alpha1.RunPhase, reason v1alpha1.Reason, message string) Decision {
	d := end(s, phase, reason, message)
	d.Action, d.Half = ActCancelRun, half
	return d
}

func or(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
