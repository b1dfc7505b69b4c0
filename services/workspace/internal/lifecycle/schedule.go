package lifecycle

import (
	"fmt"
	"hash/fnv"
	"time"

	"magosproject.io/api/v1alpha1"
)

// MaxBackOff bounds the time between two attempts with the same inputs.
const MaxBackOff = time.Hour

// minInterval is the shortest interval that is used; less would only heat the cluster.
const minInterval = time.Second

// maxInterval is about a century: anything longer is a typing error and would overflow sums of times.
const maxInterval = 100 * 365 * 24 * time.Hour

// InvalidAnnotation is an annotation of a person that cannot be understood.
type InvalidAnnotation struct {
	// Name of the annotation.
	Name string
	// Value that it has, at most 64 bytes of it.
	Value string
	// Default that is used instead.
	Default time.Duration
}

// String says what is wrong and what to write instead.
func (i InvalidAnnotation) String() string {
	return fmt.Sprintf("annotation %s is %q: write a positive duration such as 90s, 5m or 1h30m; until then %s is used", i.Name, i.Value, i.Default)
}

// InvalidAnnotations lists the annotations of w that cannot be understood.
func InvalidAnnotations(w *v1alpha1.Workspace) []InvalidAnnotation {
	var invalid []InvalidAnnotation
	for _, a := range []InvalidAnnotation{
		{Name: v1alpha1.AnnotationReconcileInterval, Default: v1alpha1.DefaultReconcileInterval},
		{Name: v1alpha1.AnnotationGitPollInterval, Default: v1alpha1.DefaultGitPollInterval},
	} {
		value := w.Annotations[a.Name]
		if value == "" {
			continue
		}
		if _, ok := parseInterval(value); !ok {
			a.Value = value[:min(len(value), 64)]
			invalid = append(invalid, a)
		}
	}
	return invalid
}

// ReconcileInterval is the time between an apply and the next drift plan of w, at least a second.
func ReconcileInterval(w *v1alpha1.Workspace) time.Duration {
	if interval, ok := parseInterval(w.Annotations[v1alpha1.AnnotationReconcileInterval]); ok {
		return max(interval, minInterval)
	}
	return v1alpha1.DefaultReconcileInterval
}

func parseInterval(value string) (time.Duration, bool) {
	interval, err := time.ParseDuration(value)
	return interval, err == nil && interval > 0 && interval <= maxInterval
}

// backOff is how long the inputs of w rest after count failures: the interval, doubled each time, at most MaxBackOff.
func backOff(interval time.Duration, count int32) time.Duration {
	wait := interval
	for i := int32(1); i < count && wait < MaxBackOff; i++ {
		wait *= 2
	}
	return min(wait, MaxBackOff)
}

// retryDue is when the failed inputs of w may be tried again.
func retryDue(w *v1alpha1.Workspace) time.Time {
	f := w.Status.Failures
	if f == nil {
		return time.Time{}
	}
	return f.LastAt.Add(backOff(ReconcileInterval(w), f.Count))
}

// driftDue is when reality is to be compared again. It follows from what is recorded and from the UID alone, so that a
// restart neither hurries nor bunches the drift plans of many Workspaces.
func driftDue(w *v1alpha1.Workspace) time.Time {
	interval := ReconcileInterval(w)
	due := w.Status.Applied.At.Add(interval)
	if f := w.Status.Failures; f != nil && isFailedDriftCheck(w.Status.Run) {
		due = f.LastAt.Add(max(interval, backOff(interval, f.Count)))
	}
	return due.Add(jitter(string(w.UID), interval))
}

// jitter is at most a tenth of the interval, and always the same for the same UID.
func jitter(uid string, interval time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(uid))
	return time.Duration(h.Sum64() % uint64(interval/10+1))
}

// nextDue is when w has something to do by the clock; ok is false where only an event can give it any.
func nextDue(w *v1alpha1.Workspace) (at time.Time, ok bool) {
	st := &w.Status
	switch {
	case w.DeletionTimestamp != nil || isLive(st.Run):
		return time.Time{}, false
	case isFailing(w):
		return retryDue(w), true
	case st.Run != nil && st.Run.RetryAt != nil:
		return st.Run.RetryAt.Time, true
	case st.Applied != nil:
		return driftDue(w), true
	}
	return time.Time{}, false
}

// until is the time from now to at, and at least a moment: a timer that fires too early must not make a busy loop.
func until(now, at time.Time) time.Duration {
	return max(at.Sub(now), 10*time.Millisecond)
}
