package inputs

import (
	"fmt"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetStatus is what is to be recorded about a VariableSet. conditions are changed only where they differ.
func SetStatus(set *v1alpha1.VariableSet, objects map[Reference]Object, now time.Time) v1alpha1.VariableSetStatus {
	st := v1alpha1.VariableSetStatus{
		ObservedGeneration: set.Generation, Phase: v1alpha1.VariableSetReady, Reason: v1alpha1.ReasonAllReferencesResolved,
		Message: "every reference leads to a value",
	}
	for _, v := range set.Spec.Variables {
		ref, key, isReference := ReferenceOf(v)
		if !isReference {
			st.ResolvedVariables++
			continue
		}
		if reason := missing(objects[ref], key); reason != "" {
			st.UnresolvedReferences = append(st.UnresolvedReferences, v1alpha1.UnresolvedReference{
				Kind: ref.Kind, Name: ref.Name, Key: key.Key, Reason: reason,
			})
		} else if (Source{Variable: v}).HasValue(objects) {
			st.ResolvedVariables++
		}
	}
	ready := metav1.ConditionTrue
	if missing := len(st.UnresolvedReferences); missing > 0 {
		ready = metav1.ConditionFalse
		first := st.UnresolvedReferences[0]
		st.Phase, st.Reason = v1alpha1.VariableSetFailed, v1alpha1.ReasonUnresolvedReferences
		st.Message = fmt.Sprintf("%d of %d references lead nowhere, the first is key %s of %s %s: %s",
			missing, countReferences(set), first.Key, first.Kind, first.Name, first.Reason)
	}
	st.Conditions = withReady(set.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: ready, Reason: st.Reason, Message: st.Message,
		ObservedGeneration: set.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
	return st
}

func countReferences(set *v1alpha1.VariableSet) int {
	count := 0
	for _, v := range set.Spec.Variables {
		if v.ValueFrom != nil {
			count++
		}
	}
	return count
}

func withReady(old []metav1.Condition, ready metav1.Condition) []metav1.Condition {
	next := make([]metav1.Condition, 0, len(old)+1)
	for _, c := range old {
		if c.Type != ready.Type {
			next = append(next, c)
			continue
		}
		if c.Status == ready.Status {
			ready.LastTransitionTime = c.LastTransitionTime
		}
	}
	return append(next, ready)
}
