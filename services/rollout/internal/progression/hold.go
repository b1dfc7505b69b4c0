package progression

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/rollout/internal/calendar"
)

// hold is a reason why nothing new may be granted for now. What has begun goes on.
type hold struct {
	phase   v1alpha1.RolloutPhase
	reason  v1alpha1.Reason
	message string
	// window is true where it is only not the time. Then what a person can already do is asked for, and a drift run keeps its grant.
	window bool
}

// closed returns the hold of windows that are closed, nil while they are open. It decides again when they change.
func (w *walk) closed(windows calendar.Windows) *hold {
	if len(w.rollout.Spec.Strategy.Windows) == 0 {
		return nil
	}
	next, found := windows.Next(w.now)
	if found {
		w.wake(next.At.Sub(w.now))
	}
	if windows.Open(w.now) {
		return nil
	}
	if !found {
		return &hold{phase: v1alpha1.RolloutFailed, reason: v1alpha1.ReasonInvalidSpec, message: "nothing is granted: the windows do not open within five years: " +
			"write a window of kind Allow that comes, and no window of kind Deny over all of it"}
	}
	opens := metav1.NewTime(next.At)
	message := "no new grant is given until the windows open at " + at(opens)
	if !next.Exact {
		message = "no new grant is given before " + at(opens) + ": the windows are closed until then at least"
	}
	w.status.OpensAt = &opens
	return &hold{phase: v1alpha1.RolloutWaiting, reason: v1alpha1.ReasonAwaitingWindow, message: message, window: true}
}

// held returns the hold that is in force, nil for none.
func (w *walk) held() *hold {
	w.status.OpensAt = nil
	if w.rollout.Spec.Paused {
		return &hold{phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused, message: "paused by spec.paused"}
	}
	switch value := w.rollout.Annotations[v1alpha1.AnnotationHold]; value {
	case "", "false":
	case "true":
		return &hold{phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused, message: "paused by the annotation " + v1alpha1.AnnotationHold}
	default:
		// Whoever wrote it meant something. Nothing runs until it is clear what.
		return &hold{phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused, message: fmt.Sprintf("paused: the annotation %s is %q; write true, or false, or remove it", v1alpha1.AnnotationHold, cut(value))}
	}
	windows, err := calendar.Parse(w.rollout.Spec.Strategy.Windows)
	if err := errors.Join(w.check(), err); err != nil {
		return &hold{phase: v1alpha1.RolloutFailed, reason: v1alpha1.ReasonInvalidSpec, message: "nothing is granted: " + err.Error()}
	}
	if _, err := assign(w.steps(), nil); err != nil {
		return &hold{phase: v1alpha1.RolloutFailed, reason: v1alpha1.ReasonInvalidSelector, message: err.Error()}
	}
	return w.closed(windows)
}

// steps are those that count: of the pass that moves those that it began with, else those of the spec.
func (w *walk) steps() []v1alpha1.RolloutStep {
	if w.moving() {
		return w.status.Pass.Steps
	}
	return w.rollout.Spec.Strategy.Steps
}

// check returns what of the spec cannot be understood. Admission refuses such a spec; one that came in around it must not open a gate.
func (w *walk) check() error {
	strategy := w.rollout.Spec.Strategy
	return errors.Join(checkAction("strategy", strategy.OnFailure), checkNewRevision(strategy.OnNewRevision), checkDuration("strategy: progressDeadline", strategy.ProgressDeadline), checkSteps(w.steps()))
}

// checkSteps returns what of the steps, beside their selectors, cannot be understood.
func checkSteps(steps []v1alpha1.RolloutStep) error {
	var errs []error
	for i := range steps {
		s := &steps[i]
		where := fmt.Sprintf("step %q", s.Name)
		if _, err := parallel(s.MaxParallel, 1); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
		errs = append(errs, checkAction(where, s.OnFailure), checkDuration(where+": soak", s.Soak), checkDuration(where+": workspaceDeadline", s.WorkspaceDeadline))
	}
	return errors.Join(errs...)
}

func checkAction(where string, stated *v1alpha1.OnFailure) error {
	if stated == nil {
		return nil
	}
	switch stated.Action {
	case "", v1alpha1.FailureHalt, v1alpha1.FailureContinue, v1alpha1.FailureRetry, v1alpha1.FailureAbort:
		return nil
	}
	return fmt.Errorf("%s: onFailure.action is %q: write Halt, Continue, Retry or Abort", where, cut(string(stated.Action)))
}

func checkNewRevision(stated v1alpha1.OnNewRevision) error {
	switch stated {
	case "", v1alpha1.NewRevisionFinish, v1alpha1.NewRevisionRestart:
		return nil
	}
	return fmt.Errorf("strategy: onNewRevision is %q: write Finish or Restart", cut(string(stated)))
}

func checkDuration(where string, stated *metav1.Duration) error {
	if stated == nil || stated.Duration > 0 {
		return nil
	}
	return fmt.Errorf("%s is %s: write a time above zero, such as 30m", where, stated.Duration)
}

// paused reports whether a person holds the pass where it is.
func (w *walk) paused() bool {
	return w.hold != nil && w.hold.phase == v1alpha1.RolloutPaused
}
