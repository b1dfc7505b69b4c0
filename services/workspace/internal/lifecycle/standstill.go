package lifecycle

import (
	"slices"
	"strings"

	"magosproject.io/api/v1alpha1"
)

// The predicates of a Workspace that starts nothing new: it is being deleted, or suspended.

const (
	whyDeleted   = "the Workspace is being deleted"
	whySuspended = "the Workspace is suspended"
)

// deletion lets a run end of which a container has run, gives up any other and starts nothing new, unless a destroy is owed.
func deletion(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	w := s.Workspace
	if w.DeletionTimestamp == nil {
		return Decision{}, false
	}
	d := Decision{Action: ActNone, Phase: w.Status.Phase}
	switch {
	case !slices.Contains(w.Finalizers, v1alpha1.FinalizerWorkspace):
	case IsDestroyDue(w):
		return destruction(s), true
	case isLive(w.Status.Run):
		d = standStill(s, whyDeleted)
	default:
		d.Action = ActRemoveFinalizer
	}
	return standing(s, d), true
}

// suspension does the same to the runs of a Workspace, which then waits to be resumed.
func suspension(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	if !s.Workspace.Spec.Suspend {
		return Decision{}, false
	}
	if !isLive(s.Workspace.Status.Run) {
		return suspended(s), true
	}
	return standing(s, standStill(s, whySuspended)), true
}

// standStill lets a live run end of which a container has run, and gives up any other. A plan that waits at the gate is
// given up as well: what it was made from may be long gone when the Workspace goes on.
func standStill(s Snapshot, why string) Decision {
	switch run := s.Workspace.Status.Run; {
	case run.Phase == v1alpha1.RunPlanned:
		return end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the plan was given up: "+why)
	case run.Phase == v1alpha1.RunPlanning && run.PlanStartedAt == nil:
		return cancel(Plan, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the plan was given up before it began: "+why))
	}
	d, _ := liveRun(s, nil)
	return d
}

// standsStill says why nothing new may start; empty where something may.
func standsStill(w *v1alpha1.Workspace) string {
	switch {
	case w.DeletionTimestamp != nil && !isDestroying(w):
		return whyDeleted
	case w.Spec.Suspend:
		return whySuspended
	}
	return ""
}

// standing makes d say that nothing new starts, where that is so.
func standing(s Snapshot, d Decision) Decision {
	w := s.Workspace
	switch {
	case IsDestroyDue(w):
		return noted(d)
	case w.DeletionTimestamp != nil && d.Reason == v1alpha1.ReasonNodeLost:
		d.Message = whyDeleted + "; " + strings.TrimPrefix(d.Message, whyDeleted+"; ")
	case w.DeletionTimestamp != nil:
		d.Reason, d.Message = v1alpha1.ReasonDeleting, whyDeleted+"; a run that still lives is let end"
		if d.Phase == "" {
			d.Phase = v1alpha1.PhasePending
		}
	case w.Spec.Suspend && d.End == nil && isLive(w.Status.Run):
		// What runs is what people want to see first.
		d.Message = strings.TrimSuffix(or(d.Message, d.Reason), suspendedNote) + suspendedNote
	}
	return d
}

const suspendedNote = "; the Workspace is suspended: nothing new starts after it"

// suspended is the answer for a suspended Workspace at rest.
func suspended(s Snapshot) Decision {
	const how = "nothing runs until spec.suspend is false"
	w := s.Workspace
	d := Decision{Action: ActNone, Phase: v1alpha1.PhasePending, Reason: v1alpha1.ReasonSuspended, Message: whySuspended + ": " + how}
	switch f := w.Status.Failures; {
	case f != nil && isFailing(w):
		d.Message += "; its last run failed: " + f.LastReason
	case w.Status.Applied != nil && wanted(s) == nil:
		d.Phase = v1alpha1.PhaseApplied
		d.Message += "; " + appliedMessage(w.Status.Applied)
	}
	return d
}
