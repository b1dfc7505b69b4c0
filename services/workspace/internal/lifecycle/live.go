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
	if isDestroy(run) {
		if reason, message := obstacle(s); reason != "" {
			return held(s, reason, message)
		}
	} else if g, ok := granted(s); !ok || !covers(g, run) {
		return cancel(Plan, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "its grant was taken before the plan began"))
	}
	if s.Inputs.Fingerprint.String() != run.Fingerprint {
		return cancel(Plan, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "its inputs changed before the plan began"))
	}
	if makesWay(s) {
		return cancel(Plan, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, whyMakesWay))
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
		return pending(s, Plan, v1alpha1.PhasePending)
	case RunRunning:
		if makesWay(s) {
			return interrupt(Plan, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, whyMakesWay))
		}
		return following(view, v1alpha1.PhasePlanning, v1alpha1.ReasonPlanRunning, "the plan of "+short(s.Workspace.Status.Run.Revision)+" runs")
	case RunSucceeded:
		return planned(s, view)
	case RunFailed:
		if makesWay(s) {
			// It was asked to end, and how it ended says nothing.
			return end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, whyMakesWay)
		}
		return withoutSuccess(s, v1alpha1.ReasonPlanFailed)
	case RunVoid:
		return voided(s, Plan)
	case RunAbsent:
	}
	return cancel(Plan, end(s, v1alpha1.RunFailed, v1alpha1.ReasonRunLost, "the plan Job does not exist any more; the next attempt plans again"))
}

func planned(s Snapshot, view *RunView) Decision {
	run := s.Workspace.Status.Run
	if view.Plan == nil || view.Plan.Digest == "" && !view.Plan.Empty {
		return end(s, v1alpha1.RunFailed, v1alpha1.ReasonRunLost, "the result of the plan cannot be read; the next attempt plans again")
	}
	if view.Plan.Empty {
		d := end(s, v1alpha1.RunSucceeded, v1alpha1.ReasonNoChanges, nothingToChange(run.Revision, stamp(s)))
		if isDestroy(run) {
			d = end(s, v1alpha1.RunSucceeded, v1alpha1.ReasonDestroyed, "a plan found nothing that is left to destroy")
		}
		d.Run.PlanDigest = view.Plan.Digest
		changes := view.Plan.Changes
		d.Run.Changes = &changes
		d.Run.Warnings = view.Plan.Warnings
		return d
	}
	next := run.DeepCopy()
	next.Phase = v1alpha1.RunPlanned
	next.PlanDigest = view.Plan.Digest
	changes := view.Plan.Changes
	next.Changes = &changes
	next.Warnings = view.Plan.Warnings
	next.Unreadable = view.Plan.Unreadable
	return Decision{
		Action: ActRecordPlanned, Run: next, PlanEnded: true, Drift: drifted(next, view.Plan, s),
		Phase: v1alpha1.PhasePlanned, Reason: v1alpha1.ReasonPlanSucceeded, Message: "the plan of " + short(run.Revision) + " succeeded",
	}
}

// followApply never asks for the apply again: its intent is recorded, and a Job that is not there either never was or
// was lost.
func followApply(s Snapshot) Decision {
	view := s.Run
	if view == nil {
		return Decision{Action: ActNone, Phase: v1alpha1.PhaseApplying, Reason: s.Workspace.Status.Reason, Message: s.Workspace.Status.Message, Requeue: safetyInterval}
	}
	revision := s.Workspace.Status.Run.Revision
	switch view.State {
	case RunPending:
		return seenApply(s, pending(s, Apply, v1alpha1.PhaseApplying))
	case RunRunning:
		return seenApply(s, following(view, v1alpha1.PhaseApplying, v1alpha1.ReasonApplyRunning, "the apply of "+short(revision)+" runs"))
	case RunSucceeded:
		if isDestroy(s.Workspace.Status.Run) {
			return end(s, v1alpha1.RunSucceeded, v1alpha1.ReasonDestroyed, destroyedMessage)
		}
		return end(s, v1alpha1.RunSucceeded, v1alpha1.ReasonApplySucceeded, inForce(revision))
	case RunFailed:
		return withoutSuccess(s, v1alpha1.ReasonApplyFailed)
	case RunVoid:
		return voided(s, Apply)
	case RunAbsent:
	}
	return missingApply(s)
}

// seenApply notes that the apply's Job exists, so that its absence later on is a loss.
func seenApply(s Snapshot, d Decision) Decision {
	if run := s.Workspace.Status.Run; d.Run == nil && run.ApplyStartedAt == nil {
		d.Run = run.DeepCopy()
		now := stamp(s)
		d.Run.ApplyStartedAt = &now
	}
	return d
}

// missingApply tells an apply that never was from one that is lost. A loss is recorded before the tombstone is made: the
// tombstone looks as if nothing had ever run.
func missingApply(s Snapshot) Decision {
	run := s.Workspace.Status.Run
	switch {
	case run.ApplyStartedAt == nil:
		reason, why := whyNoApply(&s.Workspace.Status)
		return cancel(Apply, setBack(s, reason, why+"; a plan is never applied twice, so it is planned again", 1))
	case run.LostAt == nil:
		next := run.DeepCopy()
		now := stamp(s)
		next.LostAt = &now
		return Decision{Action: ActNone, Run: next, Phase: v1alpha1.PhaseApplying, Reason: v1alpha1.ReasonRunLost, Message: lostMessage, Requeue: time.Second}
	}
	return cancel(Apply, end(s, v1alpha1.RunFailed, v1alpha1.ReasonRunLost, lostMessage))
}

// whyNoApply repeats what status says of a runner that refused the apply.
func whyNoApply(st *v1alpha1.WorkspaceStatus) (v1alpha1.Reason, string) {
	switch st.Reason {
	case v1alpha1.ReasonRunnerRefused, v1alpha1.ReasonServiceAccountNotFound, v1alpha1.ReasonPlanUnreadable:
		return st.Reason, "the apply never began: " + st.Message
	}
	return v1alpha1.ReasonRunDiscarded, "the apply was asked for and never began"
}

const lostMessage = "the Job of the apply is gone, and with it what the apply did; a plan is never applied twice, so the next attempt plans again"

// following shows what a Job does, in the runner's words where it has any.
func following(view *RunView, phase v1alpha1.Phase, reason v1alpha1.Reason, message string) Decision {
	return Decision{Action: ActNone, Phase: phase, Reason: or(view.Reason, reason), Message: or(view.Message, message), Requeue: safetyInterval}
}

// withoutSuccess records a half that ended without success, in the runner's words. What never started is no failure.
func withoutSuccess(s Snapshot, reason v1alpha1.Reason) Decision {
	view := s.Run
	if view.NeverStarted {
		return setBack(s, or(view.Reason, v1alpha1.ReasonRunPending), or(view.Message, "no container was started"), 0)
	}
	if d, is := setBackByTool(s, view); is {
		return d
	}
	return end(s, v1alpha1.RunFailed, or(view.Reason, reason), or(view.Message, "the run ended without success"))
}

// voided records a half that was cancelled before any container of it ran. It proves that nothing has happened, unless
// it is the tombstone of an apply that was lost.
func voided(s Snapshot, half Half) Decision {
	switch run := s.Workspace.Status.Run; {
	case run.LostAt != nil:
		return end(s, v1alpha1.RunFailed, v1alpha1.ReasonRunLost, lostMessage)
	case isStartOverdue(s, half):
		return overdue(s, half)
	}
	return end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the "+string(half)+" was cancelled before it began")
}

// end records the run as ended.
func end(s Snapshot, phase v1alpha1.RunPhase, reason v1alpha1.Reason, message string) Decision {
	next := s.Workspace.Status.Run.DeepCopy()
	next.Phase, next.Reason = phase, reason
	now := stamp(s)
	next.FinishedAt = &now
	d := Decision{
		Action: ActRecordEnd, Run: next, End: &End{Reason: reason, Message: message},
		Phase: v1alpha1.PhaseFailed, Reason: reason, Message: message,
	}
	switch {
	case phase == v1alpha1.RunSucceeded && isDestroy(next):
		d.Phase = v1alpha1.PhasePending
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
// its way from an earlier leader must find a tombstone. What the pass has seen may be outdated, so a half that has started
// all the same goes on, and the next pass follows it.
func cancel(half Half, ended Decision) Decision {
	ended.Action, ended.Half = ActCancelRun, half
	return ended
}

// interrupt also ends a half that has started.
func interrupt(half Half, ended Decision) Decision {
	ended = cancel(half, ended)
	ended.Interrupts = true
	return ended
}

func or(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
