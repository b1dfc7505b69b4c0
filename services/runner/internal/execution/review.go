package execution

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/services/runner/internal/runspec"
)

// reviewKey is the key of the review in its ConfigMap.
const reviewKey = "review.json.gz"

// ReviewName is the name of the ConfigMap that keeps the review of a run's plan.
func ReviewName(runID, sum string) string {
	return JobName(runID, runspec.PhasePlan) + "-review-" + sum[:min(len(sum), 10)]
}

// RenderReview renders the ConfigMap that keeps what people read of a plan. It has the labels of the plan's Job, and is removed with it.
func RenderReview(plan Key, packed []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: ReviewName(plan.RunID, runspec.ReviewSum(packed)), Labels: plan.Labels()},
		Immutable:  ptr.To(true),
		BinaryData: map[string][]byte{reviewKey: packed},
	}
}

// ReviewIn is the review that a ConfigMap keeps; ok is false where it is not the one with this sum. Others may write ConfigMaps, and only
// the sum, which is kept on the Job, says what was there to be read when the plan was made.
func ReviewIn(config *corev1.ConfigMap, sum string) (packed []byte, ok bool) {
	packed = config.BinaryData[reviewKey]
	return packed, sum != "" && config.DeletionTimestamp.IsZero() && runspec.ReviewSum(packed) == sum
}
