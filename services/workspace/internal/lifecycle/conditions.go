package lifecycle

import (
	"slices"
	"strings"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setConditions derives every condition of st; s has st as the status of its Workspace.
func setConditions(st *v1alpha1.WorkspaceStatus, s Snapshot) {
	set := func(c metav1.Condition) {
		c.ObservedGeneration = s.Workspace.Generation
		setCondition(&st.Conditions, c, s)
	}
	set(inputsResolved(s))
	set(annotationsValid(s.Workspace))
	driftCheck(st, s)
	destroyBlocked(st, s)
	set(ready(st))
}

func inputsResolved(s Snapshot) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionInputsResolved, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonAllVariablesResolved, Message: "every variable has its source",
	}
	switch {
	case !s.ProjectFound && s.Destroy == nil:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonProjectNotFound
		c.Message = "the VariableSets of the Project are not known: it does not exist"
	case len(s.Inputs.Unresolved) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonUnresolvedVariables, unresolvedMessage(s.Inputs.Unresolved)
	}
	return c
}

func annotationsValid(w *v1alpha1.Workspace) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAnnotationsValid, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonAnnotationsUnderstood, Message: "every annotation is understood",
	}
	if invalid := InvalidAnnotations(w); len(invalid) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidAnnotation, strings.Join(invalid, "; ")
	}
	return c
}

// driftCheck keeps DriftCheckFailed as it is until another run has ended: a plan that goes on says nothing.
func driftCheck(st *v1alpha1.WorkspaceStatus, s Snapshot) {
	switch run := st.Run; {
	case isFailedDriftCheck(run) && st.Failures != nil:
		setCondition(&st.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionDriftCheckFailed, Status: metav1.ConditionTrue, ObservedGeneration: s.Workspace.Generation,
			Reason: st.Failures.LastReason, Message: st.Failures.Message,
		}, s)
	case run != nil && (run.Phase == v1alpha1.RunSucceeded || run.Phase == v1alpha1.RunFailed):
		st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionDriftCheckFailed })
	}
}

// destroyBlocked says of a destroy that is owed whether anything is in its way, and what.
func destroyBlocked(st *v1alpha1.WorkspaceStatus, s Snapshot) {
	w := s.Workspace
	if !OwesDestroy(w) || s.Destroy == nil {
		st.Conditions = slices.DeleteFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionDestroyBlocked })
		return
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionDestroyBlocked, Status: metav1.ConditionTrue, ObservedGeneration: w.Generation,
	}
	c.Reason, c.Message = obstacle(s)
	switch {
	case c.Reason != "":
	case w.Spec.Suspend:
		c.Reason, c.Message = v1alpha1.ReasonSuspended, "spec.suspend is true"+howToAbandon(w)
	case isDestroy(st.Run) && isFailing(w):
		c.Reason, c.Message = st.Failures.LastReason, "the last attempt failed: "+st.Failures.Message+howToAbandon(w)
	case isDestroy(st.Run) && (isCancelled(st.Run) || st.Run.Phase == v1alpha1.RunDiscarded):
		// It changed nothing, and nothing goes on by itself, or not before its pause is over.
		c.Reason, c.Message = st.Run.Reason, "the last attempt was given up, and status.message says what it waits for"+howToAbandon(w)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonDestroyUnobstructed, "nothing that is known is in the way of the destroy"
	}
	setCondition(&st.Conditions, c, s)
}

// ready is True while what the spec asks for is in force. A drift plan that has found nothing yet does not change that.
func ready(st *v1alpha1.WorkspaceStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: st.Reason, Message: st.Message}
	if st.Wants != nil && st.Wants.Trigger != v1alpha1.TriggerDrift || st.Applied == nil {
		return c
	}
	switch run := st.Run; {
	case st.Phase == v1alpha1.PhaseApplied:
		c.Status = metav1.ConditionTrue
	case isLive(run) && run.Trigger == v1alpha1.TriggerDrift && run.Phase == v1alpha1.RunPlanning:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonApplySucceeded, appliedMessage(st.Applied)
	}
	return c
}

// setCondition replaces the condition of the same type; its time changes with its status only.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition, s Snapshot) {
	c.LastTransitionTime = stamp(s)
	for i := range *conditions {
		old := &(*conditions)[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	*conditions = append(*conditions, c)
}
