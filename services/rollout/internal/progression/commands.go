package progression

import (
	"fmt"
	"strings"

	"magosproject.io/api/v1alpha1"
)

// commands are what people have written on the Rollout, as far as it is about the present pass and step. Each is an
// annotation, removed once what it asks for is recorded.
type commands struct {
	abort, retry, approve bool
	// by is who approves.
	by string
}

// maxValue is how much of an annotation's value a message repeats.
const maxValue = 100

// readCommands judges every command against the status that its writer saw. An abort wins over whatever stands beside it.
func (w *walk) readCommands() {
	w.command(v1alpha1.AnnotationAbort, func(value string) bool {
		w.commands.abort = w.moving() && value == w.status.Pass.ID
		return w.commands.abort || w.aborted() && value == w.status.Pass.ID
	})
	if w.moving() || w.hold == nil { // else a pass that it begins would have to wait; so the command does
		w.command(v1alpha1.AnnotationRetryStep, func(value string) bool {
			w.commands.retry = !w.commands.abort && w.retriable(value)
			return w.commands.retry
		})
	}
	w.command(v1alpha1.AnnotationApprovedStep, func(value string) bool {
		step, required := w.presentStep()
		if w.commands.abort || value != step || !required {
			return false
		}
		w.commands.approve = true
		w.commands.by = w.rollout.Annotations[v1alpha1.AnnotationApprovedBy]
		return true
	})
}

// command takes one annotation off the Rollout. What is not understood as one of the present pass says so in an Event.
func (w *walk) command(annotation string, understood func(value string) bool) {
	value, found := w.rollout.Annotations[annotation]
	if !found {
		return
	}
	w.consumed = append(w.consumed, annotation)
	if annotation == v1alpha1.AnnotationApprovedStep {
		w.consumed = append(w.consumed, v1alpha1.AnnotationApprovedBy)
	}
	if understood(value) {
		return
	}
	w.tell(true, v1alpha1.ReasonCommandVoid, fmt.Sprintf("the annotation %s names %q, which does nothing now, and was removed: %s", annotation, cut(value), w.whatToName()))
}

// whatToName tells the writer of a void command what there is to name.
func (w *walk) whatToName() string {
	if w.status.Pass == nil {
		return "the Rollout has had no pass yet"
	}
	step, _ := w.presentStep()
	if step == "" {
		return "no pass moves, the last one was " + w.status.Pass.ID
	}
	return "the present pass and step are " + step
}

// presentStep names the current step of the pass that moves, and says whether it requires approval.
func (w *walk) presentStep() (step string, required bool) {
	if !w.moving() {
		return "", false
	}
	index := int(w.status.CurrentStep)
	if index < 0 || index >= len(w.status.Pass.Steps) {
		return "", false
	}
	present := &w.status.Pass.Steps[index]
	return v1alpha1.PassStep(w.status.Pass.ID, present.Name), present.Approval != nil && present.Approval.Required
}

// retriable reports whether value names the current step, or a step of the last pass if that ended without success.
func (w *walk) retriable(value string) bool {
	if step, _ := w.presentStep(); step != "" {
		return value == step
	}
	pass := w.status.Pass
	if pass == nil || pass.FinishedAt == nil || pass.Result != v1alpha1.PassAborted && pass.Result != v1alpha1.PassIncomplete {
		return false
	}
	for i := range pass.Steps {
		if value == v1alpha1.PassStep(pass.ID, pass.Steps[i].Name) {
			return true
		}
	}
	return false
}

// approve records that a person lets the pass enter its current step. One that is recorded already stays as it is: only its annotation was left.
func (w *walk) approve() {
	if !w.commands.approve {
		return
	}
	w.commands.approve = false
	step := &w.status.Steps[w.status.CurrentStep]
	if step.Approval != nil {
		return
	}
	by := strings.TrimSpace(w.commands.by)
	if by == "" {
		by = v1alpha1.UnknownApprover
	}
	step.Approval = &v1alpha1.StepApproval{By: cut(by), At: w.seconds()}
	w.tell(false, v1alpha1.ReasonStepApproved, fmt.Sprintf("step %q of pass %s was approved by %s", step.Name, w.status.Pass.ID, step.Approval.By))
}

// awaitsApproval reports whether a person has to let the pass enter the step. One in which nothing has to run asks nobody.
func (w *walk) awaitsApproval(c current) bool {
	requirement := w.status.Pass.Steps[c.index].Approval
	if requirement == nil || !requirement.Required || w.status.Steps[c.index].Approval != nil {
		return false
	}
	return c.count(done)+c.count(passedOver) < len(c.members)
}

// tell announces something beside the transitions of the status.
func (w *walk) tell(warning bool, reason v1alpha1.Reason, message string) {
	w.events = append(w.events, Event{About: AboutRollout, Warning: warning, Reason: reason, Message: message})
}

// cut shortens what a person wrote for a message.
func cut(value string) string {
	characters := []rune(value)
	if len(characters) <= maxValue {
		return value
	}
	return string(characters[:maxValue-1]) + "…"
}
