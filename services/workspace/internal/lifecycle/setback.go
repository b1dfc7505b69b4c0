package lifecycle

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

const (
	// setbackPause is how long the same inputs rest after the first run that something kept from beginning.
	setbackPause = time.Minute
	// maxSetbackPause bounds that time: what is in the way may go at any moment.
	maxSetbackPause = 15 * time.Minute
)

// setBack gives up a run that something kept from beginning. That is no failure; the same inputs rest all the same, longer
// each time, since what was in the way may still be there. The first free setbacks in a row cost no rest.
func setBack(s Snapshot, reason v1alpha1.Reason, message string, free int32) Decision {
	d := end(s, v1alpha1.RunDiscarded, reason, message)
	d.Run.Setbacks++
	if count := d.Run.Setbacks - free; count > 0 {
		retry := stamp(s)
		retry.Time = retry.Add(doubled(setbackPause, count, maxSetbackPause))
		d.Run.RetryAt = &retry
	}
	return d
}

// setbacks is how many runs of the present inputs at revision were set back in a row until now.
func setbacks(s Snapshot, revision string) int32 {
	last := s.Workspace.Status.Run
	if last == nil || last.Phase != v1alpha1.RunDiscarded || last.Revision != revision || last.Fingerprint != s.Inputs.Fingerprint.String() {
		return 0
	}
	return last.Setbacks
}

// rests reports whether a run of these inputs, with target as the commit, is too early after one that could not start.
func rests(s Snapshot, target string) bool {
	run := s.Workspace.Status.Run
	return run != nil && run.RetryAt != nil && s.Now.Before(run.RetryAt.Time) && !hasFreshRequest(s.Workspace) &&
		run.Revision == target && run.Fingerprint == s.Inputs.Fingerprint.String()
}

// resting keeps saying what kept the last run from beginning.
func resting(s Snapshot) Decision {
	st := &s.Workspace.Status
	run := st.Run
	d := Decision{Action: ActNone, Phase: v1alpha1.PhasePending, Reason: run.Reason, Message: st.Message, Requeue: until(s.Now, run.RetryAt.Time)}
	if st.Reason != run.Reason {
		d.Message = "the last run was given up; the next one begins shortly"
	}
	if run.Reason == v1alpha1.ReasonStateLocked {
		d.Phase = v1alpha1.PhaseFailed
	}
	return d
}

// setBackByTool answers for a half that the tool refused before it did anything: what it waits for is not the fault of
// these inputs. A lock is waited for and never broken; a plan that is out of date is made anew.
func setBackByTool(s Snapshot, view *RunView) (Decision, bool) {
	switch view.Reason {
	case v1alpha1.ReasonStateLocked:
		d := setBack(s, view.Reason, or(view.Message, "somebody else holds the lock of the state"), 0)
		if d.Phase == v1alpha1.PhasePending {
			d.Phase = v1alpha1.PhaseFailed
		}
		return d, true
	case v1alpha1.ReasonStalePlan:
		return setBack(s, view.Reason, or(view.Message, "the state changed after the plan was made")+"; it is planned again", 1), true
	}
	return Decision{}, false
}
