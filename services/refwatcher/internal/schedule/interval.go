package schedule

import (
	"fmt"
	"time"

	"magosproject.io/api/v1alpha1"
)

// MinInterval is the shortest time between two polls that an annotation can ask for; shorter ones count as this.
const MinInterval = time.Second

// Interval reads the value of the git-poll-interval annotation; an empty one is the default. Where it cannot be understood the default is
// returned together with an error that says what to write.
func Interval(value string) (time.Duration, error) {
	if value == "" {
		return v1alpha1.DefaultGitPollInterval, nil
	}
	interval, err := time.ParseDuration(value)
	if err != nil || interval <= 0 {
		return v1alpha1.DefaultGitPollInterval, fmt.Errorf("annotation %s is %q: write a positive duration such as 30s or 5m; %s is used", v1alpha1.AnnotationGitPollInterval, cut(value), v1alpha1.DefaultGitPollInterval)
	}
	return max(interval, MinInterval), nil
}

func cut(value string) string {
	const longest = 64
	if len(value) > longest {
		return value[:longest] + "…"
	}
	return value
}
