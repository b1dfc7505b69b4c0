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

// resting keeps saying what kept the last run from starting.
func resting(s Snapshot) Decision {
	st := &s.Workspace.Status
	d := Decision{Action: ActNone, Phase: v1alpha1.PhasePending, Reason: st.Reason, Message: st.Message, Requeue: until(s.Now, st.Run.RetryAt.Time)}
	if st.Reason == v1alpha1.ReasonAwaitingRollout {
		d.Reason, d.Message = v1alpha1.ReasonRunPending, "no container of the last run could start; the next one begins shortly"
	}
	return d
}
