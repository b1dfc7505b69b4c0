package controller

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Remote is what is known of one remote, for people.
type Remote struct {
	// URL, normalised.
	URL string
	// LastSuccess is when a poll last succeeded; zero if none did.
	LastSuccess time.Time
	// LastError of the last poll; empty if it succeeded or none has ended.
	LastError string
	// NextPoll is when the next poll is due; zero while one runs.
	NextPoll time.Time
	// Workspaces that use it, sorted.
	Workspaces []types.NamespacedName
}

// Remotes lists the remotes of the Workspaces of a namespace (of all, if empty) by URL, with those Workspaces alone.
// False means that this replica does not poll and so knows nothing.
func (k *Knowledge) Remotes(namespace string) ([]Remote, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !k.leading {
		return nil, false
	}
	var all []Remote
	for key, state := range k.remotes {
		r := Remote{URL: key, LastSuccess: state.lastSuccess}
		if state.trouble != nil {
			r.LastError = state.trouble.Message
		}
		r.NextPoll, _ = k.schedule.Next(key)
		for member := range state.members {
			if namespace == "" || member.Namespace == namespace {
				r.Workspaces = append(r.Workspaces, member)
			}
		}
		if len(r.Workspaces) > 0 {
			slices.SortFunc(r.Workspaces, compareKeys)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Remote) int { return cmp.Compare(a.URL, b.URL) })
	return all, true
}

// Count is how many remotes are polled by this replica.
func (k *Knowledge) Count() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if !k.leading {
		return 0
	}
	return k.schedule.Remotes()
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
	return k.schedule.Wake()
}
