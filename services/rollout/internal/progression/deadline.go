package progression

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// workspaceDeadline is how long a member of the step has from its grant.
func (w *walk) workspaceDeadline(index int) time.Duration {
	if d := w.status.Pass.Steps[index].WorkspaceDeadline; d != nil {
		return d.Duration
	}
	return v1alpha1.DefaultWorkspaceDeadline
}

// readClocks brings the clocks of the members to the present moment, and marks who is overdue. A clock begins with the grant (keepEntries) and ends when
// the member is done.
func (w *walk) readClocks(c *current) {
	length := w.workspaceDeadline(c.index)
	c.late = make([]bool, len(c.members))
	for i, m := range c.members {
		e, known := w.entries[m.Name]
		if !known {
			continue
		}
		if c.standings[i] == done {
			e.Since, e.Spent = nil, nil
		}
		w.stopOrGo(&e, m)
		w.entries[m.Name] = e
		c.late[i] = e.Since != nil && !e.Since.Add(length).After(w.now)
	}
}

// stopOrGo stops the clock of a member while a person is waited for, and lets it go on from where it was stopped.
func (w *walk) stopOrGo(e *v1alpha1.RolloutStepMember, m *v1alpha1.Workspace) {
	waits, from := waitsForPerson(m)
	switch {
	case waits && e.Since != nil:
		stopped := w.now
		if from.After(e.Since.Time) {
			stopped = earlier(from, w.now)
		}
		e.Spent, e.Since = &metav1.Duration{Duration: max(0, stopped.Sub(e.Since.Time)).Truncate(time.Second)}, nil
	case !waits && e.Spent != nil:
		since := metav1.NewTime(w.seconds().Add(-e.Spent.Duration))
		e.Since, e.Spent = &since, nil
	}
}

// waitsForPerson reports whether a member can go on only when a person does something, and since when, if it says so.
func waitsForPerson(m *v1alpha1.Workspace) (bool, time.Time) {
	if a := m.Status.AwaitingApproval; a != nil {
		return true, a.Since.Time
	}
	return m.Spec.Suspend, time.Time{}
}

// restart gives a member its time again.
func (w *walk) restart(m *v1alpha1.Workspace) {
	e := w.entries[m.Name]
	now := w.seconds()
	e.Name, e.Since, e.Spent = m.Name, &now, nil
	if waits, _ := waitsForPerson(m); waits {
		e.Since, e.Spent = nil, &metav1.Duration{}
	}
	w.entries[m.Name] = e
}

// keepEntries begins the clock of each member that is granted now, ends that of a member whose grant was taken before anything began, and records
// all of them. A clock that has run out stays, for the member is overdue until it is done.
func (w *walk) keepEntries(c current) {
	step := &w.status.Steps[c.index]
	step.Members, step.Deadline = nil, nil
	for i, m := range c.members {
		e := w.entries[m.Name]
		counts := e.Since != nil || e.Spent != nil
		granted := w.grants[m.Name].Scope == v1alpha1.ScopeRun
		if c.standings[i] != done {
			switch {
			case granted && !counts:
				w.restart(m)
			case !granted && counts && !c.late[i] && w.turnOf(c, i) != begun:
				e.Since, e.Spent = nil, nil
				w.entries[m.Name] = e
			}
		}
		e = w.entries[m.Name]
		if e.Since != nil {
			w.noteDeadline(step, e.Since.Add(w.workspaceDeadline(c.index)))
		}
		if e.Attempt > 0 || e.Since != nil || e.Spent != nil {
			step.Members = append(step.Members, e)
		}
	}
}

// noteDeadline records the earliest deadline of the step, and decides again when one passes.
func (w *walk) noteDeadline(step *v1alpha1.RolloutStepStatus, deadline time.Time) {
	if step.Deadline == nil || deadline.Before(step.Deadline.Time) {
		step.Deadline = &metav1.Time{Time: deadline}
	}
	if deadline.After(w.now) {
		w.wake(deadline.Sub(w.now))
	}
}

// judgePass records until when the pass has time, and returns why it is to be aborted unless it has come to its end, empty where it goes on. A person's retry gives a pass that is
// overdue its time once more.
func (w *walk) judgePass() string {
	pass, strategy := w.status.Pass, w.rollout.Spec.Strategy
	pass.Deadline, w.late = nil, false
	if strategy.ProgressDeadline == nil {
		return ""
	}
	from := pass.StartedAt
	if pass.ExtendedAt != nil {
		from = *pass.ExtendedAt
	}
	deadline := metav1.NewTime(from.Add(strategy.ProgressDeadline.Duration))
	if !deadline.After(w.now) && w.commands.retry {
		now := w.seconds()
		pass.ExtendedAt = &now
		deadline = metav1.NewTime(now.Add(strategy.ProgressDeadline.Duration))
	}
	pass.Deadline = &deadline
	if deadline.After(w.now) {
		w.wake(deadline.Sub(w.now))
		return ""
	}
	w.late = true
	if strategy.OnFailure != nil && strategy.OnFailure.Action == v1alpha1.FailureAbort {
		return fmt.Sprintf("onFailure of the strategy is Abort, and the pass was not done by %s, its progressDeadline", at(deadline))
	}
	return ""
}

// lateReport says what a pass that is overdue waits for.
func (w *walk) lateReport(c current) string {
	return fmt.Sprintf("; the pass was to be done by %s (progressDeadline %s): no further Workspace is granted until it is raised, or the annotation %s with %s gives the pass its time again%s",
		at(*w.status.Pass.Deadline), w.rollout.Spec.Strategy.ProgressDeadline.Duration, v1alpha1.AnnotationRetryStep,
		v1alpha1.PassStep(w.status.Pass.ID, w.status.Steps[c.index].Name), w.waitsFor(c))
}
