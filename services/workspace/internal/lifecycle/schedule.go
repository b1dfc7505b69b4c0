package lifecycle

import (
	"slices"
	"time"

	"magosproject.io/api/v1alpha1"
)

// InvalidAnnotations says of each annotation of w that cannot be understood what is wrong with it and what to write.
func InvalidAnnotations(w *v1alpha1.Workspace) []string {
	var invalid []string
	for name, otherwise := range map[string]time.Duration{
		v1alpha1.AnnotationReconcileInterval: v1alpha1.DefaultReconcileInterval,
		v1alpha1.AnnotationGitPollInterval:   v1alpha1.DefaultGitPollInterval,
	} {
		if _, err := v1alpha1.ParseInterval(name, w.Annotations[name], otherwise); err != nil {
			invalid = append(invalid, err.Error())
		}
	}
	slices.Sort(invalid)
	return invalid
}

// ReconcileInterval is the time between an apply and the next drift plan of w, at least a second. An annotation that cannot
// be understood is told of by InvalidAnnotations and does not count.
func ReconcileInterval(w *v1alpha1.Workspace) time.Duration {
	interval, _ := v1alpha1.ParseInterval(v1alpha1.AnnotationReconcileInterval, w.Annotations[v1alpha1.AnnotationReconcileInterval], v1alpha1.DefaultReconcileInterval)
	return interval
}

// backOff is how long the inputs of w rest after count failures: the interval, doubled each time, at most retry.maxInterval.
func backOff(w *v1alpha1.Workspace, count int32) time.Duration {
	limit := v1alpha1.DefaultRetryMaxInterval
	if longest := w.Spec.Retry.MaxInterval; longest != nil && longest.Duration > 0 {
		limit = longest.Duration
	}
	return doubled(ReconcileInterval(w), count, limit)
}

// doubled is first, doubled with each count after the first, at most limit.
func doubled(first time.Duration, count int32, limit time.Duration) time.Duration {
	wait := first
	for i := int32(1); i < count && wait < limit; i++ {
		wait *= 2
	}
	return min(wait, limit)
}

// retryDue is when the failed inputs of w may be tried again.
func retryDue(w *v1alpha1.Workspace) time.Time {
	f := w.Status.Failures
	if f == nil {
		return time.Time{}
	}
	return f.LastAt.Add(backOff(w, f.Count))
}

// isExhausted reports whether the failed inputs of w are not tried again by themselves.
func isExhausted(w *v1alpha1.Workspace) bool {
	limit := w.Spec.Retry.Limit
	return limit != nil && isFailing(w) && w.Status.Failures.Count > *limit
}

// nextDue is when w has something to do by the clock; ok is false where only an event can give it any.
func nextDue(w *v1alpha1.Workspace) (at time.Time, ok bool) {
	st := &w.Status
	switch {
	case standsStill(w) != "" || isLive(st.Run):
		return time.Time{}, false
	case isExhausted(w), isCancelled(st.Run) && st.Run.Trigger != v1alpha1.TriggerDrift:
		return time.Time{}, false
	case isFailing(w):
		return retryDue(w), true
	case st.Run != nil && st.Run.RetryAt != nil:
		return st.Run.RetryAt.Time, true
	case st.Applied != nil && w.DeletionTimestamp == nil:
		return driftDue(w), true
	}
	return time.Time{}, false
}

// until is the time from now to at, and at least a moment: a timer that fires too early must not make a busy loop.
func until(now, at time.Time) time.Duration {
	return max(at.Sub(now), 10*time.Millisecond)
}
