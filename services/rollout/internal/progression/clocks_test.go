package progression

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// simClock is what has passed of a time that counts from a moment in the status.
type simClock uint8

const (
	notCounting simClock = iota
	counting
	elapsed
)

// simLength is how long every clock of the simulation runs.
const simLength = time.Hour

// since renders the moment from which a clock counts.
func (c simClock) since() *metav1.Time {
	switch c {
	case notCounting:
		return nil
	case counting:
		return &metav1.Time{Time: later}
	case elapsed:
	}
	return &metav1.Time{Time: later.Add(-2 * simLength)}
}

// clockSince reads it back.
func clockSince(t *metav1.Time) simClock {
	switch {
	case t == nil:
		return notCounting
	case later.Sub(t.Time) < simLength:
		return counting
	}
	return elapsed
}

// passing returns the states in which something that only time brings has come: a soak has passed, a window has opened.
func (s simState) passing() []simState {
	var all []simState
	if s.soak == counting {
		waited := s
		waited.soak = elapsed
		all = append(all, waited)
	}
	if s.closed {
		s.closed = false
		all = append(all, s)
	}
	return all
}

// tooSlow returns the states in which a deadline passes, within the budget.
func (s simState) tooSlow() []simState {
	if s.left.lates == 0 {
		return nil
	}
	s.left.lates--
	var all []simState
	for i := range s.members {
		if s.members[i].clock == counting {
			next := s
			next.members[i].clock = elapsed
			all = append(all, next)
		}
	}
	if s.clock == counting {
		s.clock = elapsed
		all = append(all, s)
	}
	return all
}
