package lifecycle

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

const (
	// StartDeadline is how long the Job of a half may exist without a container of it having run. Then it is given up,
	// so that what keeps it from starting does not keep the Workspace.
	StartDeadline = 10 * time.Minute
	// cancelPause is when to look again at a half that was asked to end and has not yet.
	cancelPause = 5 * time.Second
)

// Cancelled is what is to be recorded once the runner has answered a cancel with view. Only a half that has provably
// ended, or provably never began, ends the run; one that still lives leaves it as it is recorded.
func Cancelled(s Snapshot, d Decision, view RunView) Decision {
	switch {
	case view.State == RunVoid:
		return d
	case view.State == RunFailed && d.Half == Plan && d.Run.Phase == v1alpha1.RunDiscarded:
		// The plan was ended on purpose, and has changed nothing.
		return d
	case view.State == RunFailed || view.State == RunSucceeded:
		s.Run = &view
		if d.Half == Apply {
			return standing(s, followApply(s))
		}
		return standing(s, followPlan(s))
	}
	st := &s.Workspace.Status
	still := Decision{Action: ActNone, Phase: st.Phase, Reason: st.Reason, Message: st.Message, Requeue: cancelPause}
	switch {
	case view.Reason == v1alpha1.ReasonNodeLost:
		// It may never end by itself, and a person has to know.
		still.Reason, still.Message = view.Reason, view.Message
	case st.Reason == v1alpha1.ReasonNodeLost:
		still.Reason, still.Message = v1alpha1.ReasonCancelling, cancelling(st.Run)
	}
	return standing(s, still)
}

// pending follows a Job of which no container has run. Nothing is lost when it is given up, so it never holds up a
// deletion, a suspension, an edit or a request.
func pending(s Snapshot, half Half, phase v1alpha1.Phase) Decision {
	w := s.Workspace
	give := func(why string) Decision {
		return cancel(half, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the "+string(half)+" was given up before it began: "+why))
	}
	switch {
	case standsStill(w) != "":
		return give(standsStill(w))
	case s.Inputs.Fingerprint.Spec != ParseFingerprint(w.Status.Run.Fingerprint).Spec:
		return give("the spec was edited")
	case half == Plan && len(s.Inputs.Unresolved) > 0:
		// An apply goes on with what was planned, whatever becomes of the variables: its pod starts without them too.
		return give(unresolvedMessage(s.Inputs.Unresolved))
	case half == Plan && haveVariablesChanged(s):
		return give("the variables changed")
	case hasFreshRequest(w):
		return give("a fresh run was requested")
	case makesWay(s):
		return give(whyMakesWay)
	case isStartOverdue(s, half):
		return cancel(half, overdue(s, half))
	}
	d := following(s.Run, phase, v1alpha1.ReasonRunPending, "the "+string(half)+"'s pod has not started")
	d.Requeue = min(d.Requeue, until(s.Now, startDue(w, half)))
	return d
}

// startDue is when a container of a half has to have run.
func startDue(w *v1alpha1.Workspace, half Half) time.Time {
	asked := w.Status.Run.PlanStartedAt
	if half == Apply {
		asked = w.Status.Run.ApplyRequestedAt
	}
	if asked == nil {
		asked = &w.Status.Run.StartedAt
	}
	return asked.Add(StartDeadline)
}

func isStartOverdue(s Snapshot, half Half) bool {
	return !s.Now.Before(startDue(s.Workspace, half))
}

// overdue gives up a half that could not start in time. Once it is cancelled the runner speaks of that alone, so what kept
// it from starting is then what status says already.
func overdue(s Snapshot, half Half) Decision {
	st := &s.Workspace.Status
	reason, message := s.Run.Reason, s.Run.Message
	if s.Run.State != RunPending || reason == "" || reason == v1alpha1.ReasonRunPending {
		reason, message = st.Reason, st.Message
	}
	if reason == v1alpha1.ReasonRunnerUnavailable || message == "" {
		reason, message = v1alpha1.ReasonRunPending, "its pod has not started"
	}
	return setBack(s, reason, "no container of the "+string(half)+" started within "+StartDeadline.String()+": "+message, 0)
}
