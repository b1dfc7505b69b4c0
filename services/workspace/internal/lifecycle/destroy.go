package lifecycle

import (
	"strings"

	"magosproject.io/api/v1alpha1"
)

// The predicates of a Workspace that is being deleted and destroys what it has applied before it goes. Nobody grants that: the
// deletion and spec.deletionPolicy, both on the object version that is decided on, are the permission.

// Destruction is what is known of the destroy that a Workspace owes.
type Destruction struct {
	// Reason and Message say what keeps every run of it from beginning; empty where nothing does. Variables that are missing are in the Inputs.
	Reason  v1alpha1.Reason
	Message string
}

// OwesDestroy reports whether w is being deleted and has to destroy what it has applied before it goes. One that cannot have
// applied anything owes nothing, and neither does one that a person has given up.
func OwesDestroy(w *v1alpha1.Workspace) bool {
	_, applied := LastApply(w)
	return w.DeletionTimestamp != nil && w.Spec.DeletionPolicy == v1alpha1.DeletionDestroy && applied && !isAbandoned(w)
}

// LastApply is the run that left the state of w as it is; ok is false where nothing can have been applied. A status of a
// release that did not record it has the run whose apply failed, or names the one that was applied.
func LastApply(w *v1alpha1.Workspace) (last v1alpha1.LastApply, ok bool) {
	switch st := &w.Status; {
	case st.LastApply != nil:
		return *st.LastApply, true
	case isHalfApplied(st.Run):
		return v1alpha1.LastApply{RunID: st.Run.ID, Revision: st.Run.Revision, Fingerprint: st.Run.Fingerprint}, true
	case st.Applied != nil:
		return v1alpha1.LastApply{RunID: st.Applied.RunID, Revision: st.Applied.Revision, Fingerprint: st.Applied.Fingerprint}, true
	}
	return v1alpha1.LastApply{}, false
}

// isHalfApplied reports whether run failed after its apply was asked for: it may have applied anything.
func isHalfApplied(run *v1alpha1.WorkspaceRun) bool {
	return run != nil && run.Phase == v1alpha1.RunFailed && run.ApplyRequestedAt != nil && !isDestroy(run)
}

// isAbandoned asks for the UID, so that no manifest that was copied or applied again gives up what somebody means to destroy.
func isAbandoned(w *v1alpha1.Workspace) bool {
	return w.UID != "" && w.Annotations[v1alpha1.AnnotationAbandon] == string(w.UID)
}

// howToAbandon is what every message ends with that says why a destroy does not go on.
func howToAbandon(w *v1alpha1.Workspace) string {
	text := "; to give it up, so that what was applied stays as it is, set the annotation " + v1alpha1.AnnotationAbandon + " to " + string(w.UID)
	if value := w.Annotations[v1alpha1.AnnotationAbandon]; value != "" {
		text += " (it is something else now)"
	}
	return text
}

func isDestroy(run *v1alpha1.WorkspaceRun) bool {
	return run != nil && run.Trigger == v1alpha1.TriggerDestroy
}

// isDestroying reports whether the present run of w is, or was, one of the destroy that is owed.
func isDestroying(w *v1alpha1.Workspace) bool {
	return OwesDestroy(w) && isDestroy(w.Status.Run)
}

// IsDestroyDue reports whether nothing else lives any more that has to end before the destroy that w owes.
func IsDestroyDue(w *v1alpha1.Workspace) bool {
	return OwesDestroy(w) && (!isLive(w.Status.Run) || isDestroy(w.Status.Run))
}

// destruction goes on with the destroy that is owed. No run but one of it lives.
func destruction(s Snapshot) Decision {
	if d, is := litter(s, nil); is {
		return d
	}
	w := s.Workspace
	run := w.Status.Run
	switch {
	case w.Spec.Suspend && isLive(run):
		return standing(s, standStill(s, whySuspended))
	case w.Spec.Suspend:
		return held(s, v1alpha1.ReasonSuspended, "what the Workspace has applied is not destroyed while spec.suspend is true")
	case isLive(run) && run.Phase == v1alpha1.RunPlanned:
		d, _ := gate(s, nil)
		return standing(s, d)
	case isLive(run):
		d, _ := liveRun(s, nil)
		return standing(s, d)
	}
	return beginDestroy(s)
}

// beginDestroy begins the next run of the destroy, unless something is in its way or it is too early.
func beginDestroy(s Snapshot) Decision {
	w := s.Workspace
	last, _ := LastApply(w)
	if reason, message := obstacle(s); reason != "" {
		return held(s, reason, message)
	}
	if d, is := restsBeforeDestroy(s, last); is {
		d.Message = strings.TrimSuffix(d.Message, howToAbandon(w)) + howToAbandon(w)
		return standing(s, d)
	}
	return standing(s, mint(s, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass}, v1alpha1.TriggerDestroy, last.Revision))
}

// restsBeforeDestroy is the answer after a run of the destroy that was cancelled, failed or could not start.
func restsBeforeDestroy(s Snapshot, last v1alpha1.LastApply) (Decision, bool) {
	w := s.Workspace
	if !isDestroy(w.Status.Run) || hasFreshRequest(w) {
		return Decision{}, false
	}
	if restsCancelled(s, last.Revision) {
		return cancelled(s), true
	}
	if d, waits := awaitsRetry(s, v1alpha1.TriggerRetry); waits {
		return d, true
	}
	if rests(s, last.Revision) {
		return resting(s), true
	}
	return Decision{}, false
}

// obstacle says what keeps a run of the destroy from beginning; empty where nothing does.
func obstacle(s Snapshot) (reason v1alpha1.Reason, message string) {
	w := s.Workspace
	switch {
	case s.Destroy == nil:
		return v1alpha1.ReasonDeleting, "whether anything is in the way of the destroy is not known yet"
	case s.Destroy.Reason != "":
		return s.Destroy.Reason, s.Destroy.Message + howToAbandon(w)
	case len(s.Inputs.Unresolved) > 0:
		return v1alpha1.ReasonUnresolvedVariables, unresolvedMessage(s.Inputs.Unresolved) + howToAbandon(w)
	}
	return "", ""
}

// held is the answer for a destroy that waits for a person or a thing. What is missing announces itself to nobody.
func held(s Snapshot, reason v1alpha1.Reason, message string) Decision {
	d := Decision{Action: ActNone, Phase: v1alpha1.PhasePending, Reason: reason, Message: message, Requeue: safetyInterval}
	if reason == v1alpha1.ReasonUnresolvedVariables {
		d.Phase = v1alpha1.PhaseFailed
	}
	return standing(s, d)
}

const (
	destroyNote      = "destroying what was applied: "
	destroyedMessage = "everything that the Workspace had applied is destroyed"
)

// noted makes d say that it is about a destroy.
func noted(d Decision) Decision {
	if d.Message != "" && d.Reason != v1alpha1.ReasonDestroyed {
		d.Message = destroyNote + strings.TrimPrefix(d.Message, destroyNote)
	}
	return d
}

// destroyed records that nothing of what was applied is left.
func destroyed(st *v1alpha1.WorkspaceStatus) {
	st.Applied, st.LastApply, st.ObservedRevision = nil, nil, ""
	st.Failures, st.Drift = nil, nil
}
