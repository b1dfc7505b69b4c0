package v1alpha1

import (
	"fmt"
	"time"
)

const (
	// MinInterval is the shortest interval that is used; less would only heat the cluster.
	MinInterval = time.Second
	// maxInterval is about a century: anything longer is a typing error and would overflow sums of times.
	maxInterval = 100 * 365 * 24 * time.Hour
)

// ParseInterval reads the value of the annotation of that name, a Go duration. An empty value is otherwise, and one below MinInterval counts as that.
// One that cannot be understood is otherwise, too, with an error that says what to write.
func ParseInterval(name, value string, otherwise time.Duration) (time.Duration, error) {
	if value == "" {
		return otherwise, nil
	}
	interval, err := time.ParseDuration(value)
	if err != nil || interval <= 0 || interval > maxInterval {
		return otherwise, fmt.Errorf("annotation %s is %q: write a positive duration such as 90s, 5m or 1h30m; until then %s is used", name, cutValue(value), otherwise)
	}
	return max(interval, MinInterval), nil
}

func cutValue(value string) string {
	const longest = 64
	if len(value) > longest {
		return value[:longest] + "…"
	}
	return value
}
