package progression

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// soak is how far a step that is complete has come on its way to the next.
type soak int

const (
	// soaked has nothing left to wait for, or is not complete yet.
	soaked soak = iota
	// soaking waits until its members have been done for long enough.
	soaking
	// interrupted waits until drift is mended, and soaks anew then.
	interrupted
)

// soak judges how long the members of the step have been done, and records since when. What a failure interrupts is not complete any more, and
// begins anew when it is. A pause and a closed window do not stop the clock: it asks whether the members stay as they are.
func (w *walk) soak(c current) soak {
	step := &w.status.Steps[c.index]
	length := w.status.Pass.Steps[c.index].Soak
	since := step.SoakingSince
	step.SoakingSince, step.SoakUntil = nil, nil
	switch {
	case length == nil || !c.complete() || !w.ran(c):
		return soaked
	case len(c.drifted()) > 0:
		return interrupted
	case since == nil:
		now := w.seconds()
		since = &now
	}
	if last := c.lastApply(); last.After(since.Time) {
		since = &metav1.Time{Time: earlier(last, w.now).Truncate(time.Second)}
	}
	until := metav1.NewTime(since.Add(length.Duration))
	step.SoakingSince, step.SoakUntil = since, &until
	if !until.After(w.now) {
		return soaked
	}
	w.wake(until.Sub(w.now))
	return soaking
}

// drifted names the members of which a plan has found that they differ from what was applied.
func (c current) drifted() []string {
	var names []string
	for i, m := range c.members {
		found := isLive(m) && isDriftRun(m) && m.Status.Run.Phase != v1alpha1.RunPlanning
		if c.standings[i] == done && (found || m.Status.Drift != nil) {
			names = append(names, m.Name)
		}
	}
	return names
}

// lastApply is when a run of the step last ended that changed something. It shows a drift that was found and mended between two decisions.
func (c current) lastApply() time.Time {
	var last time.Time
	for _, m := range c.members {
		if run := m.Status.Run; run != nil && run.ApplyRequestedAt != nil && run.FinishedAt != nil && run.FinishedAt.After(last) {
			last = run.FinishedAt.Time
		}
	}
	return last
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// soakReport says what a step that is complete waits for; reason is empty where it waits for nothing.
func (w *walk) soakReport(c current) (reason v1alpha1.Reason, message string) {
	length := w.status.Pass.Steps[c.index].Soak
	switch c.soak {
	case soaking:
		return v1alpha1.ReasonStepSoaking, fmt.Sprintf("; soaks until %s, %s after the last change", at(*w.status.Steps[c.index].SoakUntil), length.Duration)
	case interrupted:
		return v1alpha1.ReasonSoakInterrupted, fmt.Sprintf("; drift was found in %s: the soak of %s begins anew when it is mended", list(c.drifted(), ", "), length.Duration)
	case soaked:
	}
	return "", ""
}

// at renders a moment for a message.
func at(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
