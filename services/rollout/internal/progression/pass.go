package progression

import (
	"strconv"
	"time"

	"magosproject.io/api/v1alpha1"
)

// Bounds of what the status keeps of passes that ended.
const (
	maxHistory         = 10
	maxHistoryRevision = 50
	maxPassedOver      = 50
)

// begin starts a pass at step 0, over the steps as they are now.
func (w *walk) begin() {
	before := ""
	if w.status.Pass != nil {
		before = w.status.Pass.ID
	}
	steps := w.rollout.Spec.Strategy.DeepCopy().Steps
	w.status.Pass = &v1alpha1.RolloutPass{ID: mint(w.now, before), StartedAt: w.seconds(), Steps: steps}
	w.status.CurrentStep = 0
	w.status.Steps = pending(steps)
	w.needs, w.unanswered = nil, map[Key]Resolution{}
}

// mint returns a pass ID that is newer than the one before, also within one millisecond or when a clock was set back.
func mint(now time.Time, before string) string {
	id := now.UnixMilli()
	if last, err := strconv.ParseInt(before, 36, 64); err == nil && last >= id {
		id = last + 1
	}
	return strconv.FormatInt(id, 36)
}

// enter records that the pass has reached a step.
func (w *walk) enter(index int) {
	step := &w.status.Steps[index]
	if step.StartedAt == nil {
		now := w.seconds()
		step.StartedAt = &now
	}
	step.Phase = v1alpha1.StepProgressing
}

// finish records that every member of the step is done, or passed over. From then on its counts stay as they are: they
// are about what was proven before the next step began.
func (w *walk) finish(c current) {
	now := w.seconds()
	step := &w.status.Steps[c.index]
	step.Phase = v1alpha1.StepSucceeded
	step.FinishedAt = &now
	step.Total, step.Applied, step.Failed = count32(len(c.members)), count32(c.count(done)), count32(c.count(passedOver))
	step.Members, step.Deadline = nil, nil
	for i, m := range c.members {
		if c.standings[i] != passedOver {
			continue
		}
		step.Phase = v1alpha1.StepIncomplete
		if len(step.PassedOver) < maxPassedOver {
			step.PassedOver = append(step.PassedOver, m.Name)
		}
	}
}

// end closes the pass and takes every grant.
func (w *walk) end(result v1alpha1.PassResult) {
	now := w.seconds()
	pass := w.status.Pass
	pass.FinishedAt, pass.Result = &now, result
	revisions := pass.Revisions
	if len(revisions) > maxHistoryRevision {
		revisions = revisions[:maxHistoryRevision]
	}
	entry := v1alpha1.RolloutHistoryEntry{
		ID: pass.ID, Result: result, Message: pass.Message, StartedAt: pass.StartedAt, FinishedAt: now, Revisions: revisions,
	}
	for i := range w.status.Steps {
		w.status.Steps[i].Members, w.status.Steps[i].Deadline = nil, nil
		if a := w.status.Steps[i].Approval; a != nil {
			entry.Approvals = append(entry.Approvals, v1alpha1.ApprovedStep{Step: w.status.Steps[i].Name, By: a.By, At: a.At})
		}
	}
	history := append([]v1alpha1.RolloutHistoryEntry{entry}, w.status.History...)
	if len(history) > maxHistory {
		history = history[:maxHistory]
	}
	w.status.History = history
	clear(w.grants)
}

// pending returns the statuses of steps that were not reached.
func pending(steps []v1alpha1.RolloutStep) []v1alpha1.RolloutStepStatus {
	statuses := make([]v1alpha1.RolloutStepStatus, len(steps))
	for i := range steps {
		statuses[i] = v1alpha1.RolloutStepStatus{Name: steps[i].Name, Phase: v1alpha1.StepPending}
	}
	return statuses
}

// count32 narrows a count of objects for the API.
func count32(n int) int32 {
	return int32(min(n, 1<<31-1)) //nolint:gosec // bounded by the min
}
