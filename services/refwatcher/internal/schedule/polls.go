package schedule

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/internal/refs"
)

// Poll is a poll to make.
type Poll struct {
	// Remote is its key, to be given back to Finish.
	Remote string
	// URL to ask.
	URL refs.URL
	// Access to ask with.
	Access Access
	// Names to resolve.
	Names []refs.Name
	// HintedAt is when the push was heard of that it is made for; zero where there was none.
	HintedAt time.Time
}

// Answer is how a poll ended.
type Answer struct {
	// Outcome, and how long the remote wants to be left alone (0: it does not say).
	Outcome    Outcome
	RetryAfter time.Duration
	// Trouble where the outcome is not Answered, else nil.
	Trouble *Trouble
	// Findings by target revision where it is.
	Findings map[string]Finding
}

// Next takes the next poll that is due.
func (b *Book) Next(now time.Time) (Poll, bool) {
	key, due := b.schedule.Start(now)
	if !due {
		return Poll{}, false
	}
	state := b.remotes[key]
	names := map[refs.Name]struct{}{}
	for member := range state.members {
		names[b.workspaces[member].want.Name] = struct{}{}
	}
	poll := Poll{Remote: key, URL: state.url, Access: state.access, Names: slices.Collect(maps.Keys(names)), HintedAt: state.hintedAt}
	state.hintedAt = time.Time{}
	return poll, true
}

// Finish records how a poll ended and returns the Workspaces for which something changed. A trouble leaves the commits of earlier polls alone.
func (b *Book) Finish(now time.Time, poll Poll, answer Answer) []types.NamespacedName {
	b.schedule.Finish(now, poll.Remote, answer.Outcome, answer.RetryAfter)
	state, wanted := b.remotes[poll.Remote]
	if !wanted {
		return nil
	}
	before := b.findingsOf(state)
	state.trouble, state.announced = answer.Trouble, 0
	if answer.Trouble == nil {
		state.lastSuccess, state.findings = now, answer.Findings
	}
	var changed []types.NamespacedName
	for key, after := range b.findingsOf(state) {
		if !sameFinding(before[key], after) {
			changed = append(changed, key)
		}
	}
	sortKeys(changed)
	return changed
}

// findingsOf has the finding of every Workspace of a remote.
func (b *Book) findingsOf(state *remoteState) map[types.NamespacedName]Finding {
	found := make(map[types.NamespacedName]Finding, len(state.members))
	for key := range state.members {
		found[key] = b.finding(b.workspaces[key])
	}
	return found
}

// Wake is when Next will next have something to give, provided that nothing else happens; false if only another call can change that.
func (b *Book) Wake() (time.Time, bool) { return b.schedule.Wake() }
