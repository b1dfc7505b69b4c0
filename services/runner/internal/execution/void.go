package execution

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

// A phase that was cancelled before any container ran has a Job that must never get a pod. That it is suspended keeps it from
// that only until somebody resumes it; that it is being deleted does so for good, for the Job controller makes no pod for such a
// Job. So a Job is deleted once its end is kept on it, and our finalizer lets it stand as long as somebody may come who has to
// find its name taken.

// TombstoneAge is how long a void Job stands after its end: longer than a StartRun can last that did not see it, which has a deadline.
const TombstoneAge = 2 * time.Minute

// voidRest is how long the Job of a result must still stand.
func voidRest(r Result, now time.Time) time.Duration {
	if r.State != StateVoid || r.FinishedAt == nil {
		return 0
	}
	return r.FinishedAt.Add(TombstoneAge).Sub(now)
}

// isResumed reports whether somebody has resumed a Job that was cancelled.
func isResumed(job *batchv1.Job) bool {
	return IsVoid(job) && !ptr.Deref(job.Spec.Suspend, false) && job.DeletionTimestamp.IsZero()
}

// kept judges a Job whose result is kept. Nothing changes the result any more; a pod that lives all the same must not be lost sight of.
func (o Observation) kept(result Result) Judgement {
	j := Judgement{Result: result, Durable: true}
	for _, pod := range o.Pods {
		if f := o.read(pod); !f.ended {
			j.lookFor(pod, f)
		}
	}
	return j
}
