package progression

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// maxNames is how many Workspaces a message names.
const maxNames = 5

// report writes phase, reason, message and the Ready condition.
func (w *walk) report(phase v1alpha1.RolloutPhase, reason v1alpha1.Reason, message string) {
	setRolloutStatus(w.now, w.status, w.rollout.Generation, phase, reason, message)
}

func setRolloutStatus(now time.Time, s *v1alpha1.RolloutStatus, generation int64, phase v1alpha1.RolloutPhase, reason v1alpha1.Reason, message string) {
	s.ObservedGeneration = generation
	s.Phase, s.Reason, s.Message = phase, reason, message
	setReady(&s.Conditions, now, generation, phase == v1alpha1.RolloutIdle || phase == v1alpha1.RolloutSucceeded, reason, message)
}

// setReady sets the Ready condition; its transition time moves only with its status.
func setReady(conditions *[]metav1.Condition, now time.Time, generation int64, ready bool, reason v1alpha1.Reason, message string) {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
}

// withoutProject is the status of a Rollout whose Project does not exist: its pass stands still.
func withoutProject(now time.Time, r *v1alpha1.Rollout) *v1alpha1.RolloutStatus {
	s := r.Status.DeepCopy()
	setRolloutStatus(now, s, r.Generation, v1alpha1.RolloutFailed, v1alpha1.ReasonProjectNotFound,
		fmt.Sprintf("Project %q does not exist in this namespace: nothing runs until it is created", r.Spec.ProjectRef))
	return s
}

// reportRest reports that no pass is moving. A Rollout that has had none shows its steps already, so that a
// selector with a typo is seen before anything runs.
// steps are those that members were assigned to.
func (w *walk) reportRest(members cohorts, steps []v1alpha1.RolloutStep) {
	if w.hold != nil && (w.paused() || w.wantsPass(members)) && (!w.hold.window || !w.aborted()) {
		w.reportHeld(members, steps)
		return
	}
	if w.aborted() {
		w.reportAborted()
		return
	}
	if pass := w.status.Pass; pass != nil {
		if pass.Result == v1alpha1.PassIncomplete {
			w.report(v1alpha1.RolloutFailed, v1alpha1.ReasonPassIncomplete, fmt.Sprintf("pass %s went on without %s; they are tried again in the next pass, which a new commit, or the annotation %s with %s, begins",
				pass.ID, list(w.leftOut(), ", "), v1alpha1.AnnotationRetryStep, v1alpha1.PassStep(pass.ID, w.status.Steps[len(w.status.Steps)-1].Name)))
			return
		}
		total := 0
		for i := range w.status.Steps {
			total += int(w.status.Steps[i].Total)
		}
		message := fmt.Sprintf("pass %s is done: %s applied in %d steps", pass.ID, workspaces(total), len(w.status.Steps))
		reason, unconfirmed := w.unconfirmed(v1alpha1.ReasonPassSucceeded, members)
		w.report(v1alpha1.RolloutSucceeded, reason, message+unconfirmed+w.warnings(members, steps, 0))
		return
	}
	w.status.CurrentStep = 0
	w.status.Steps = pending(steps)
	w.countPending(members, 0)
	if len(members.steps[0]) == 0 {
		w.report(v1alpha1.RolloutFailed, v1alpha1.ReasonNoWorkspacesFound, noWorkspaces(steps[0].Name)+w.warnings(members, steps, 1))
		return
	}
	reason, unconfirmed := w.unconfirmed(v1alpha1.ReasonNothingToDo, members)
	w.report(v1alpha1.RolloutIdle, reason, "no Workspace is known to want anything"+unconfirmed+w.warnings(members, steps, 1))
}

// wantsPass reports whether a member wants what would begin a pass, without asking the remote.
func (w *walk) wantsPass(members cohorts) bool {
	for _, m := range members.outside(-1) {
		if wantsRun(m) && !w.leftBehind(m) {
			return true
		}
	}
	return false
}

// reportHeld reports a hold between passes.
func (w *walk) reportHeld(members cohorts, steps []v1alpha1.RolloutStep) {
	if w.status.Pass == nil {
		w.status.CurrentStep = 0
		w.status.Steps = pending(steps)
		w.countPending(members, 0)
	}
	w.report(w.hold.phase, w.hold.reason, w.hold.message+"; no pass begins meanwhile"+w.warnings(members, steps, 0))
}

// reportAborted says why the last pass ended early, and what begins the next.
func (w *walk) reportAborted() {
	pass := w.status.Pass
	step := ""
	if index := int(w.status.CurrentStep); index >= 0 && index < len(w.status.Steps) {
		step = w.status.Steps[index].Name
	}
	w.report(v1alpha1.RolloutAborted, v1alpha1.ReasonAborted, fmt.Sprintf("pass %s was aborted in step %q: %s; nothing runs until there is a new commit, or the annotation %s is set to %s",
		pass.ID, step, pass.Message, v1alpha1.AnnotationRetryStep, v1alpha1.PassStep(pass.ID, step)))
}

// unconfirmed says why the remote could not be asked whether there is a new commit; without that reason is rest.
func (w *walk) unconfirmed(rest v1alpha1.Reason, members cohorts) (reason v1alpha1.Reason, message string) {
	for _, m := range members.outside(-1) {
		if answer, ok := w.unanswered[KeyOf(m)]; ok {
			return answer.Reason, fmt.Sprintf("; a new commit was detected for %s, and the remote does not confirm it: %s", m.Name, answer.Message)
		}
	}
	return rest, ""
}

func noWorkspaces(step string) string {
	return fmt.Sprintf("the selector of step %q matches no Workspace of the Project: mend it, or label a Workspace; later steps wait", step)
}

// countPending counts the members of the steps that were not reached.
func (w *walk) countPending(members cohorts, from int) {
	for i := from; i < len(members.steps); i++ {
		w.status.Steps[i].Total = count32(len(members.steps[i]))
	}
}

// reportStep reports the current step: what stops it, or what it waits for.
func (w *walk) reportStep(c current, members cohorts) {
	step := &w.status.Steps[c.index]
	bad := c.count(failed) + c.count(overdue) + c.count(retrying) + c.count(passedOver)
	step.Total, step.Applied, step.Failed = count32(len(c.members)), count32(c.count(done)), count32(bad)
	w.countPending(members, c.index+1)
	tail := w.earlierRuns(c.index, members) + w.warnings(members, w.status.Pass.Steps, c.index+1) + w.editedSteps()
	head := fmt.Sprintf("pass %s, step %q (%d of %d): %d of %s done", w.status.Pass.ID, step.Name, c.index+1,
		len(w.status.Steps), step.Applied, workspaces(len(c.members)))
	if bad > 0 {
		head += "; " + w.failures(c)
	}
	phase, reason, message := w.present(c)
	step.Phase = stepPhase(phase)
	w.report(phase, reason, head+message+tail)
}

// stepPhase is the phase of the current step in a phase of its Rollout.
func stepPhase(phase v1alpha1.RolloutPhase) v1alpha1.StepPhase {
	switch phase {
	case v1alpha1.RolloutFailed:
		return v1alpha1.StepFailed
	case v1alpha1.RolloutAwaitingApproval:
		return v1alpha1.StepAwaitingApproval
	case v1alpha1.RolloutSoaking:
		return v1alpha1.StepSoaking
	default:
		return v1alpha1.StepProgressing
	}
}

// present says in which phase the current step holds the Rollout, and why; the first that applies counts.
func (w *walk) present(c current) (phase v1alpha1.RolloutPhase, reason v1alpha1.Reason, message string) {
	step := &w.status.Steps[c.index]
	unpinnedPhase, unpinnedReason, unpinnedMessage := w.unpinnedReport(c)
	soakReason, soakMessage := w.soakReport(c)
	switch {
	case w.hold != nil && !w.hold.window:
		return w.hold.phase, w.hold.reason, "; " + w.hold.message + w.waitsFor(c)
	case len(c.members) == 0:
		return v1alpha1.RolloutFailed, v1alpha1.ReasonNoWorkspacesFound, "; " + noWorkspaces(step.Name)
	case c.count(failed) > 0:
		return v1alpha1.RolloutFailed, v1alpha1.ReasonWorkspaceFailed, "; later steps wait until it is mended"
	case c.count(overdue) > 0:
		return v1alpha1.RolloutFailed, v1alpha1.ReasonWorkspaceDeadlineExceeded, "; later steps wait until it is applied"
	case w.late:
		return v1alpha1.RolloutFailed, v1alpha1.ReasonProgressDeadlineExceeded, w.lateReport(c)
	case unpinnedReason != "":
		return unpinnedPhase, unpinnedReason, "; " + unpinnedMessage
	case w.awaitsApproval(c):
		message = fmt.Sprintf("; waits for a person to let it in: set the annotation %s to %s", v1alpha1.AnnotationApprovedStep, v1alpha1.PassStep(w.status.Pass.ID, step.Name))
		if w.hold != nil {
			message += "; " + w.hold.message
		}
		return v1alpha1.RolloutAwaitingApproval, v1alpha1.ReasonAwaitingStepApproval, message
	case soakReason != "":
		return v1alpha1.RolloutSoaking, soakReason, soakMessage
	case w.hold != nil && w.withheld(c):
		return w.hold.phase, w.hold.reason, "; " + w.hold.message + w.waitsFor(c)
	case c.suspended():
		return v1alpha1.RolloutProgressing, v1alpha1.ReasonMemberSuspended, w.waitsFor(c)
	case c.count(retrying) > 0:
		return v1alpha1.RolloutProgressing, v1alpha1.ReasonWorkspaceRetried, w.waitsFor(c)
	}
	return v1alpha1.RolloutProgressing, v1alpha1.ReasonStepProgressing, w.waitsFor(c)
}

// suspended reports whether all that the step waits for are members that begin nothing, because they are suspended.
func (c current) suspended() bool {
	waits := false
	for i, m := range c.members {
		if c.standings[i] == done || c.standings[i] == passedOver {
			continue
		}
		if !m.Spec.Suspend || isLive(m) {
			return false
		}
		waits = true
	}
	return waits
}

// withheld reports whether a member would be granted if nothing were held back.
func (w *walk) withheld(c current) bool {
	for i := range c.members {
		if turn := w.turnOf(c, i); turn != begun && turn != idle {
			return true
		}
	}
	return false
}

// unpinnedReport says for which member no commit is known, and why; reason is empty when all have one.
func (w *walk) unpinnedReport(c current) (v1alpha1.RolloutPhase, v1alpha1.Reason, string) {
	for i, m := range c.members {
		if c.standings[i] != unpinned {
			continue
		}
		answer, answered := w.unanswered[KeyOf(m)]
		if !answered {
			answer = Resolution{Reason: v1alpha1.ReasonAwaitingRevision, Message: "not asked yet"}
		}
		phase := v1alpha1.RolloutProgressing
		if answer.Reason == v1alpha1.ReasonRevisionNotFound || answer.Reason == v1alpha1.ReasonAmbiguousRevision {
			phase = v1alpha1.RolloutFailed
		}
		return phase, answer.Reason, fmt.Sprintf("no commit is known for %q of %s (Workspace %s): %s",
			m.Spec.Source.TargetRevision, m.Spec.Source.RepoURL, m.Name, answer.Message)
	}
	return "", "", ""
}

// failures names the failed members with what each failed with.
func (w *walk) failures(c current) string {
	var failures []string
	for i, m := range c.members {
		switch c.standings[i] {
		case failed, overdue:
			failures = append(failures, m.Name+w.trouble(c, i))
		case retrying:
			failures = append(failures, fmt.Sprintf("%s%s and is tried again (fresh attempt %d)", m.Name, w.trouble(c, i), w.entries[m.Name].Attempt))
		case passedOver:
			failures = append(failures, m.Name+w.trouble(c, i)+" and is passed over")
		case unpinned, waiting, running, done:
		}
	}
	return list(failures, "; ")
}

// trouble says what became of a member that is not done.
func (w *walk) trouble(c current, i int) string {
	m := c.members[i]
	switch {
	case c.standings[i] == retrying && !endedFailing(m, w.status.Pass.ID):
		return " did not succeed"
	case c.late[i] && !endedFailing(m, w.status.Pass.ID):
		return fmt.Sprintf(" is overdue (workspaceDeadline %s)", w.workspaceDeadline(c.index))
	}
	return " failed" + w.failedWith(m)
}

func (w *walk) failedWith(m *v1alpha1.Workspace) string {
	switch f := m.Status.Failures; {
	case !runFailed(m, w.status.Pass.ID, w.recorded(KeyOf(m))):
		return " (" + v1alpha1.ReasonUnresolvedVariables + ")"
	case f != nil && f.LastReason != "":
		return " (" + f.LastReason + ")"
	}
	return ""
}

// waitsFor names the members that are not done, those that wait for a person first.
func (w *walk) waitsFor(c current) string {
	var approval, suspended, others []string
	cancelled := w.cancelled(c)
	for i, m := range c.members {
		switch {
		case c.standings[i] == done || c.standings[i] == passedOver || slices.Contains(cancelled, m.Name):
		case m.Status.AwaitingApproval != nil:
			approval = append(approval, m.Name)
		case m.Spec.Suspend && !isLive(m):
			suspended = append(suspended, m.Name)
		default:
			others = append(others, m.Name)
		}
	}
	text := ""
	if len(approval) > 0 {
		text += "; waits for a person to approve the plan of " + list(approval, ", ")
	}
	if len(suspended) > 0 {
		text += "; waits until a person sets spec.suspend to false on " + list(suspended, ", ")
	}
	if len(others) > 0 {
		text += "; waits for " + list(others, ", ")
	}
	if len(cancelled) > 0 {
		text += fmt.Sprintf("; the run of %s was cancelled and is not tried again by itself: set the annotation %s to %s, or push a commit that mends it",
			list(cancelled, ", "), v1alpha1.AnnotationRetryStep, v1alpha1.PassStep(w.status.Pass.ID, w.status.Steps[c.index].Name))
	}
	return text
}

// earlierRuns names the members of other steps that still run: what began before the hand-over is let end.
func (w *walk) earlierRuns(except int, members cohorts) string {
	var names []string
	for _, m := range members.outside(except) {
		if isLive(m) && !isDriftRun(m) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; a run that began earlier is let end in " + list(names, ", ")
}

// warnings tells of what will halt the Rollout later, and of members that never run.
func (w *walk) warnings(members cohorts, steps []v1alpha1.RolloutStep, from int) string {
	text := ""
	if names := members.empty(steps, from); len(names) > 0 {
		text += "; no Workspace matches the selector of " + list(names, ", ") + ", where the Rollout will halt"
	}
	if n := len(members.unmatched); n > 0 {
		names := make([]string, 0, n)
		for _, m := range members.unmatched {
			names = append(names, m.Name)
		}
		text += fmt.Sprintf("; %s in no step and never run: %s", workspaces(n), list(names, ", "))
	}
	return text
}

// editedSteps tells that the spec has other steps than the pass.
func (w *walk) editedSteps() string {
	steps := w.rollout.Spec.Strategy.Steps
	if sameSteps(steps, w.status.Pass.Steps) {
		return ""
	}
	_, err := assign(steps, nil)
	if err == nil {
		err = checkSteps(steps)
	}
	if err != nil {
		return "; the edited steps cannot be used: " + err.Error()
	}
	return "; the edited steps count from the next pass"
}

func workspaces(n int) string {
	if n == 1 {
		return "1 Workspace"
	}
	return fmt.Sprintf("%d Workspaces", n)
}

// list joins the first of the texts and counts the rest.
func list(texts []string, separator string) string {
	if len(texts) <= maxNames {
		return strings.Join(texts, separator)
	}
	return strings.Join(texts[:maxNames], separator) + fmt.Sprintf(" and %d more", len(texts)-maxNames)
}
