package schedule

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
	// Secret with the credential, in the namespace of the Workspaces; empty for none.
	Secret string
	// Unverified says that the key of its server cannot be verified.
	Unverified bool
	// LastSuccess is when a poll last succeeded; zero if none did.
	LastSuccess time.Time
	// LastError of the last poll; empty if it succeeded or none has ended.
	LastError string
	// FailedPolls is how many polls in a row have failed like the last one.
	FailedPolls int
	// NextPoll is when the next poll is due; zero while one runs.
	NextPoll time.Time
	// LeftAloneUntil is what the remote asked for itself; zero if it did not.
	LeftAloneUntil time.Time
	// Interval between polls while it answers.
	Interval time.Duration
	// LastPush is when a push was last heard of; zero if none was.
	LastPush time.Time
	// Workspaces that use it, sorted.
	Workspaces []types.NamespacedName
}

// Remotes lists the remotes of the Workspaces of a namespace (of all, if empty) by URL, with those Workspaces alone.
func (b *Book) Remotes(namespace string) []Remote {
	var all []Remote
	for key, state := range b.remotes {
		due, _ := b.schedule.Due(key)
		r := Remote{
			URL: state.url.String(), Secret: state.access.Secret, Unverified: state.access.Unverified, LastSuccess: state.lastSuccess, LastPush: state.lastPush,
			FailedPolls: due.Failures, NextPoll: due.Next, LeftAloneUntil: due.NotBefore, Interval: due.Interval,
		}
		if state.trouble != nil {
			r.LastError = state.trouble.Message
		}
		for member := range state.members {
			if namespace == "" || member.Namespace == namespace {
				r.Workspaces = append(r.Workspaces, member)
			}
		}
		if len(r.Workspaces) > 0 {
			sortKeys(r.Workspaces)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Remote) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Workspaces[0].Namespace, b.Workspaces[0].Namespace), cmp.Compare(a.Secret, b.Secret))
	})
	return all
}

// Count is how many remotes are wanted, and how many of them failed at their last poll.
func (b *Book) Count() (wanted, failing int) {
	for _, state := range b.remotes {
		if state.trouble != nil {
			failing++
		}
	}
	return len(b.remotes), failing
}
