package progression

import (
	"fmt"
	"strings"

	"magosproject.io/api/v1alpha1"
)

// onFailure returns what a failure in the step means: the step's own word, else that of the strategy, else Halt.
func (w *walk) onFailure(index int) v1alpha1.OnFailure {
	for _, stated := range []*v1alpha1.OnFailure{w.status.Pass.Steps[index].OnFailure, w.rollout.Spec.Strategy.OnFailure} {
		if stated != nil && stated.Action != "" {
			return *stated
		}
	}
	return v1alpha1.OnFailure{Action: v1alpha1.FailureHalt}
}

// judgeFailures turns members that failed or are overdue into what the step's onFailure, or a person's retry, makes of them.
// A failure from before the pass gets its attempt in the pass first. It returns why the pass is to be aborted, empty where it goes on.
func (w *walk) judgeFailures(c current) string {
	stated := w.onFailure(c.index)
	var retried, fatal []string
	for i, m := range c.members {
		switch {
		case c.late[i] || c.standings[i] == failed && endedFailing(m, w.status.Pass.ID):
			if w.isTriedAgain(c, i, stated) {
				w.tryAgain(m)
				c.late[i], c.standings[i] = false, retrying
				retried = append(retried, m.Name)
				continue
			}
			if c.standings[i] = w.judge(c, i, stated); c.standings[i] != retrying && stated.Action == v1alpha1.FailureAbort {
				fatal = append(fatal, m.Name+w.trouble(c, i))
			}
		case c.standings[i] == waiting && w.isRevived(c, i):
			w.tryAgain(m)
			c.standings[i] = retrying
			retried = append(retried, m.Name)
		case c.standings[i] == failed && isFreshAttempt(m, w.status.Pass.ID):
			c.standings[i] = retrying
		}
	}
	if w.commands.retry {
		w.commands.retry = false
		w.tell(false, v1alpha1.ReasonStepRetried, retriedMessage(w.status.Steps[c.index].Name, retried))
	}
	if len(fatal) > 0 {
		return fmt.Sprintf("onFailure of step %q is Abort, and %s", w.status.Steps[c.index].Name, list(fatal, ", "))
	}
	return ""
}

// isRevived reports whether a person's retry brings a member back whose run was cancelled.
func (w *walk) isRevived(c current, i int) bool {
	return w.commands.retry && wasCancelled(c.members[i], w.status.Pass.ID) && w.hasSpent(c, i)
}

// isFreshAttempt reports whether m runs again after it had failed in the pass.
func isFreshAttempt(m *v1alpha1.Workspace, pass string) bool {
	return isLive(m) && m.Status.Run.Pass == pass && m.Status.Run.Attempt > 0
}

// hasSpent reports whether the attempt that a member was granted has failed, or its time has passed.
func (w *walk) hasSpent(c current, i int) bool {
	m := c.members[i]
	return c.late[i] || m.Status.Run.Attempt >= w.entries[m.Name].Attempt
}

// isTriedAgain reports whether a member that failed or is overdue gets a further attempt now.
func (w *walk) isTriedAgain(c current, i int, stated v1alpha1.OnFailure) bool {
	attempt := w.entries[c.members[i].Name].Attempt
	return w.hasSpent(c, i) && (w.commands.retry || stated.Action == v1alpha1.FailureRetry && attempt < retries(stated))
}

// judge says what a member that failed or is overdue is while it is not tried again.
func (w *walk) judge(c current, i int, stated v1alpha1.OnFailure) standing {
	switch {
	case !w.hasSpent(c, i):
		return retrying
	case stated.Action == v1alpha1.FailureContinue:
		return passedOver
	case c.standings[i] == failed:
		return failed
	}
	return overdue
}

func retries(stated v1alpha1.OnFailure) int32 {
	if stated.Retries == nil {
		return 0
	}
	return *stated.Retries
}

func retriedMessage(step string, names []string) string {
	if len(names) == 0 {
		return fmt.Sprintf("a retry of step %q was asked for, and no Workspace of it has failed or was cancelled", step)
	}
	return fmt.Sprintf("a retry of step %q was asked for: %s", step, list(names, ", "))
}

// endedFailing reports whether the last run of m belongs to the pass and failed. A drift plan that failed is no failure.
func endedFailing(m *v1alpha1.Workspace, pass string) bool {
	run := m.Status.Run
	if run == nil || run.Phase != v1alpha1.RunFailed || run.Pass != pass {
		return false
	}
	return run.Trigger != v1alpha1.TriggerDrift || run.ApplyRequestedAt != nil
}

// tryAgain grants a member a fresh attempt, with all of its time. One whose run lives is left to it: the attempt follows if that run fails.
func (w *walk) tryAgain(m *v1alpha1.Workspace) {
	e := w.entries[m.Name]
	e.Name = m.Name
	e.Attempt++
	if endedFailing(m, w.status.Pass.ID) || wasCancelled(m, w.status.Pass.ID) {
		e.Attempt = max(e.Attempt, m.Status.Run.Attempt+1)
	}
	w.entries[m.Name] = e
	w.restart(m)
}

// abort ends the pass early and takes every grant: what waits is not applied, an apply that runs is let end.
func (w *walk) abort(why string) {
	if index := int(w.status.CurrentStep); index >= 0 && index < len(w.status.Steps) {
		now := w.seconds()
		w.status.Steps[index].Phase = v1alpha1.StepAborted
		w.status.Steps[index].FinishedAt = &now
	}
	w.status.Pass.Message = why
	w.end(v1alpha1.PassAborted)
	w.reportAborted()
}

// result is what a pass has come to that has gone through every step.
func (w *walk) result() v1alpha1.PassResult {
	if len(w.leftOut()) > 0 {
		return v1alpha1.PassIncomplete
	}
	return v1alpha1.PassSucceeded
}

// leftOut names the members that the pass went on without, by step.
func (w *walk) leftOut() []string {
	var left []string
	for i := range w.status.Steps {
		if s := &w.status.Steps[i]; len(s.PassedOver) > 0 {
			left = append(left, fmt.Sprintf("%s in step %q", listed(s.PassedOver, int(s.Failed)), s.Name))
		}
	}
	return left
}

// listed joins names of which only the first are kept.
func listed(names []string, total int) string {
	if total <= len(names) && total <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:min(maxNames, len(names))], ", "), total-min(maxNames, len(names)))
}
