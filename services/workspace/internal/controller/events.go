package controller

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// quiet reasons are steps on the way: status shows them, and an Event for each would be most of the API's traffic.
var quiet = []v1alpha1.Reason{
	v1alpha1.ReasonRunPending, v1alpha1.ReasonPlanRunning, v1alpha1.ReasonPlanSucceeded, v1alpha1.ReasonApplyRunning,
	v1alpha1.ReasonAwaitingRollout, v1alpha1.ReasonDeleting,
}

// announce tells of what changed between the old status of w and the next, and of nothing else.
func (r *Reconciler) announce(w *v1alpha1.Workspace, next *v1alpha1.WorkspaceStatus, d lifecycle.Decision) {
	old := &w.Status
	if d.Approved {
		r.event(w, corev1.EventTypeNormal, v1alpha1.ReasonApproved, d.Action, "the plan of run "+d.Run.ID+" was approved by "+next.Approval.By)
	}
	if d.End != nil && next.Run != nil && next.Run.Phase == v1alpha1.RunDiscarded {
		kind := corev1.EventTypeNormal
		if d.End.Reason != v1alpha1.ReasonRunDiscarded && next.Run.Trigger != v1alpha1.TriggerDrift {
			kind = corev1.EventTypeWarning
		}
		r.event(w, kind, d.End.Reason, d.Action, d.End.Message)
	} else if (next.Reason != old.Reason || next.Phase != old.Phase) && !isRoutine(old, next) {
		r.event(w, eventType(next), next.Reason, d.Action, next.Message)
	}
	for _, c := range next.Conditions {
		if c.Type != v1alpha1.ConditionReady && hasTurnedBad(old.Conditions, c) && c.Reason != next.Reason {
			r.event(w, corev1.EventTypeWarning, c.Reason, d.Action, c.Message)
		}
	}
}

func isRoutine(old, next *v1alpha1.WorkspaceStatus) bool {
	if next.Phase != v1alpha1.PhaseFailed && slices.Contains(quiet, next.Reason) {
		return true
	}
	// A drift plan that found nothing changed nothing.
	drift := next.Run != nil && next.Run.Trigger == v1alpha1.TriggerDrift
	return drift && next.Phase == v1alpha1.PhaseApplied && old.Run != nil && old.Run.ApplyRequestedAt == nil
}

func eventType(st *v1alpha1.WorkspaceStatus) string {
	if st.Phase == v1alpha1.PhaseApplied || st.Phase == v1alpha1.PhasePlanned || st.Reason == v1alpha1.ReasonSuspended || st.Reason == v1alpha1.ReasonDestroyed {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// hasTurnedBad reports whether c says that something is wrong that was not said before.
func hasTurnedBad(old []metav1.Condition, c metav1.Condition) bool {
	bad := metav1.ConditionFalse
	if c.Type == v1alpha1.ConditionDriftCheckFailed || c.Type == v1alpha1.ConditionDestroyBlocked {
		bad = metav1.ConditionTrue
	}
	if c.Status != bad {
		return false
	}
	i := slices.IndexFunc(old, func(o metav1.Condition) bool { return o.Type == c.Type })
	return i < 0 || old[i].Status != c.Status || old[i].Reason != c.Reason || old[i].Message != c.Message
}

// maxNote is the longest text that an Event takes.
const maxNote = 1024

func (r *Reconciler) event(w runtime.Object, kind, reason string, action lifecycle.Action, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-3], "") + "..."
	}
	r.Events.Eventf(w, nil, kind, reason, string(action), "%s", note)
}
