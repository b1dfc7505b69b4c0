package progression

import (
	"fmt"

	"magosproject.io/api/v1alpha1"
)

// transitions returns an Event for each change that people follow: who orchestrates, a pass, a step, a halt.
// Counts and messages change without one. What was told beside them, such as an approval, comes first.
func transitions(s Snapshot, d Decision, told []Event) []Event {
	var events []Event
	if d.Project != nil && d.Project.Reason != s.Project.Status.Reason {
		events = append(events, Event{
			About: AboutProject, Warning: d.Project.Reason == v1alpha1.ReasonRolloutMissing,
			Reason: d.Project.Reason, Message: d.Project.Message,
		})
	}
	if d.Rollout == nil {
		return events
	}
	events = append(events, told...)
	before, after := &s.Rollout.Status, d.Rollout
	if e, ok := supersededEvent(before, after); ok {
		events = append(events, e)
	}
	if before.Reason != after.Reason || before.CurrentStep != after.CurrentStep || passOf(before) != passOf(after) {
		events = append(events, Event{
			About: AboutRollout, Warning: after.Phase == v1alpha1.RolloutFailed || after.Phase == v1alpha1.RolloutAborted,
			Reason: after.Reason, Message: after.Message,
		})
	}
	return events
}

func supersededEvent(before, after *v1alpha1.RolloutStatus) (Event, bool) {
	if len(after.History) == 0 || before.Pass == nil || passOf(before) == passOf(after) {
		return Event{}, false
	}
	last := after.History[0]
	if last.ID != before.Pass.ID || last.Result != v1alpha1.PassSuperseded {
		return Event{}, false
	}
	return Event{
		About: AboutRollout, Reason: v1alpha1.ReasonSuperseded,
		Message: fmt.Sprintf("pass %s made way for pass %s", last.ID, passOf(after)),
	}, true
}

func passOf(s *v1alpha1.RolloutStatus) string {
	if s.Pass == nil {
		return ""
	}
	return s.Pass.ID
}
