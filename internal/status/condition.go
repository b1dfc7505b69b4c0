package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage is the longest message that the schema of a condition takes, in characters.
const maxMessage = 32768

// SetCondition sets the condition of the given type and reports whether anything changed.
// The transition time moves only when the status does. Messages that the API server would refuse as too long are cut.
func SetCondition(conditions *[]metav1.Condition, conditionType string, status metav1.ConditionStatus, reason, message string, generation int64) bool {
	return meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            cut(message, maxMessage),
		ObservedGeneration: generation,
	})
}

// cut shortens text to at most limit characters, the last of which then is an ellipsis.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	characters := []rune(text)
	if len(characters) <= limit {
		return text
	}
	return string(characters[:limit-1]) + "…"
}
