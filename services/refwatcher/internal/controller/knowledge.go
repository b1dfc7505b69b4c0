// Package controller keeps the detected-revision annotations of Workspaces right: the Poller asks each remote once for all of its Workspaces, the
// Reconciler writes what was found. Both run on the leader alone, and share what they know.
package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// Knowledge is the Book of the leader, for those who share it. It is safe for concurrent use.
type Knowledge struct {
	// wake tells the Poller that the schedule changed.
	wake chan struct{}

	mutex   sync.Mutex
	leading bool
	book    *schedule.Book
}

// NewKnowledge makes an empty Knowledge. Only URLs with one of the schemes are polled.
func NewKnowledge(settings schedule.Settings, schemes []string) *Knowledge {
	return &Knowledge{wake: make(chan struct{}, 1), book: schedule.NewBook(settings, schemes)}
}

// Observe takes note of a Workspace as it is now; see schedule.Book.
func (k *Knowledge) Observe(now time.Time, w *v1alpha1.Workspace, access schedule.Access) (schedule.Finding, schedule.Told) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	defer k.signal()
	return k.book.Observe(now, w, access)
}

// Forget drops a Workspace that is gone or going.
func (k *Knowledge) Forget(key types.NamespacedName) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	defer k.signal()
	k.book.Forget(key)
}

// Tell notes what has been said about a Workspace, and cuts the list of what is still to be said.
func (k *Knowledge) Tell(w *v1alpha1.Workspace, told schedule.Told, announce []schedule.Announcement) []schedule.Announcement {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.book.Tell(w, told, announce)
}

// Pushed takes a push hint for the Workspaces of a namespace (of all, if empty) and returns how many remotes it made due. False means that this replica
// does not poll.
func (k *Knowledge) Pushed(now time.Time, namespace string, urls []refs.URL) (int, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !k.leading {
		return 0, false
	}
	defer k.signal()
	return k.book.Pushed(now, namespace, urls), true
}

// Remotes lists the remotes of the Workspaces of a namespace (of all, if empty). False means that this replica does not poll and so knows nothing.
func (k *Knowledge) Remotes(namespace string) ([]schedule.Remote, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !k.leading {
		return nil, false
	}
	return k.book.Remotes(namespace), true
}

// Count is how many remotes this replica polls, and how many of them failed at their last poll.
func (k *Knowledge) Count() (wanted, failing int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !k.leading {
		return 0, 0
	}
	return k.book.Count()
}

func (k *Knowledge) setLeading(leading bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.leading = leading
}

// wakeAt is when the next poll can start, false if only a change or the end of a poll can make one due.
func (k *Knowledge) wakeAt() (time.Time, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.book.Wake()
}

func (k *Knowledge) next(now time.Time) (schedule.Poll, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.book.Next(now)
}

func (k *Knowledge) finish(now time.Time, poll schedule.Poll, answer schedule.Answer) []types.NamespacedName {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	defer k.signal()
	return k.book.Finish(now, poll, answer)
}

func (k *Knowledge) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}
