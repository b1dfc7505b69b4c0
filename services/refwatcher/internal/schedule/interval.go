package schedule

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

// MinInterval is the shortest time between two polls that an annotation can ask for; shorter ones count as this.
const MinInterval = v1alpha1.MinInterval

// Interval reads the value of the git-poll-interval annotation, as v1alpha1.ParseInterval does.
func Interval(value string) (time.Duration, error) {
	return v1alpha1.ParseInterval(v1alpha1.AnnotationGitPollInterval, value, v1alpha1.DefaultGitPollInterval)
}
