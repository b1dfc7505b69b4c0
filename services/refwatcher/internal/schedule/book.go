package schedule

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
)

// announcementsPerPoll bounds how many Workspaces of one remote get an Event after one poll. The others are found with ListRemotes and in their status.
const announcementsPerPoll = 20

// Book is everything that the leader knows of Workspaces and remotes, with the Schedule. It lives in memory: after a restart every remote is asked again.
// It is not safe for concurrent use.
type Book struct {
	schemes    []string
	schedule   *Schedule
	workspaces map[types.NamespacedName]*watched
	remotes    map[string]*remoteState
	// places has the keys of the remotes by what a push hint names of them.
	places map[string]map[string]struct{}
}

// watched is what is known of one Workspace.
type watched struct {
	uid    types.UID
	want   Want
	access Access
	// remote is the key of the remote that is polled for it, empty for none.
	remote string
	told   Told
}

// remoteState is what is known of one remote.
type remoteState struct {
	url    refs.URL
	access Access
	// members are the Workspaces that want it; never empty.
	members     map[types.NamespacedName]struct{}
	lastSuccess time.Time
	// trouble of the last poll; nil if it succeeded or none has ended.
	trouble *Trouble
	// findings of the last poll that succeeded, by target revision.
	findings map[string]Finding
	// announced since the last poll.
	announced int
	// lastPush is when a push was last heard of; hintedAt when the first was that no poll has begun for. Zero for none.
	lastPush, hintedAt time.Time
}

// NewBook makes an empty Book. Only URLs with one of the schemes are polled.
func NewBook(settings Settings, schemes []string) *Book {
	return &Book{
		schemes: schemes, schedule: New(settings), workspaces: map[types.NamespacedName]*watched{}, remotes: map[string]*remoteState{},
		places: map[string]map[string]struct{}{},
	}
}

// Observe takes note of a Workspace as it is now, and of how its remote is reached, and returns what is known about its target revision and what was
// said about it. A credential whose version is another than before makes the remote due at once.
func (b *Book) Observe(now time.Time, w *v1alpha1.Workspace, access Access) (Finding, Told) {
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	seen, known := b.workspaces[key]
	if !known || seen.uid != w.UID {
		// A successor of the same name has been told nothing.
		b.Forget(key)
		seen = &watched{uid: w.UID}
		b.workspaces[key] = seen
	}
	seen.want, seen.access = WantOf(w.Spec.Source, b.schemes), access
	b.attach(key, seen)
	if seen.remote == "" {
		b.schedule.Remove(key.String())
		return b.finding(seen), seen.told
	}
	interval, _ := Interval(w.Annotations[v1alpha1.AnnotationGitPollInterval])
	b.schedule.Set(now, key.String(), Target{Remote: seen.remote, Host: seen.want.URL.Address(), Name: seen.want.Name.String(), Interval: interval})
	if state := b.remotes[seen.remote]; state.access.Version != access.Version {
		b.schedule.Prompt(now, seen.remote)
		state.access = access
	}
	return b.finding(seen), seen.told
}

// Forget drops a Workspace that is gone or going.
func (b *Book) Forget(key types.NamespacedName) {
	if seen, known := b.workspaces[key]; known {
		b.detach(key, seen)
		delete(b.workspaces, key)
		b.schedule.Remove(key.String())
	}
}

// Tell notes what has been said about a Workspace, and cuts the list of what is still to be said where enough was said about its remote.
func (b *Book) Tell(w *v1alpha1.Workspace, told Told, announce []Announcement) []Announcement {
	seen, known := b.workspaces[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}]
	if !known || seen.uid != w.UID {
		return announce
	}
	seen.told = told
	state, polled := b.remotes[seen.remote]
	if !polled {
		return announce
	}
	announce = announce[:min(len(announce), max(0, announcementsPerPoll-state.announced))]
	state.announced += len(announce)
	return announce
}

// finding is what is known of a Workspace's target revision.
func (b *Book) finding(seen *watched) Finding {
	if seen.want.Trouble != nil {
		return Finding{Trouble: seen.want.Trouble}
	}
	if commit, pinned := seen.want.Name.Commit(); pinned {
		return Finding{Commit: commit}
	}
	if seen.access.Trouble != nil {
		return Finding{Trouble: seen.access.Trouble}
	}
	state := b.remotes[seen.remote]
	found := state.findings[seen.want.Name.String()]
	found.Unverified = seen.access.Unverified
	if state.trouble != nil {
		found.Trouble = state.trouble.with(seen.access.Note)
	}
	return found
}

// attach makes a Workspace a member of the remote that it wants, and of no other.
func (b *Book) attach(key types.NamespacedName, seen *watched) {
	wanted := ""
	if seen.want.Polled() && seen.access.Trouble == nil {
		wanted = keyOf(seen.want, seen.access)
	}
	if seen.remote == wanted {
		return
	}
	b.detach(key, seen)
	if wanted == "" {
		return
	}
	state, known := b.remotes[wanted]
	if !known {
		state = &remoteState{url: seen.want.URL, access: seen.access, members: map[types.NamespacedName]struct{}{}}
		b.remotes[wanted] = state
		b.addPlace(seen.want.URL, wanted)
	}
	state.members[key] = struct{}{}
	seen.remote = wanted
}

func (b *Book) detach(key types.NamespacedName, seen *watched) {
	state, known := b.remotes[seen.remote]
	if !known {
		return
	}
	delete(state.members, key)
	if len(state.members) == 0 {
		delete(b.remotes, seen.remote)
		b.removePlace(state.url, seen.remote)
	}
	seen.remote = ""
}

func sameFinding(a, b Finding) bool {
	return a.Commit == b.Commit && reasonOf(a) == reasonOf(b)
}

func reasonOf(f Finding) v1alpha1.Reason {
	if f.Trouble == nil {
		return ""
	}
	return f.Trouble.Reason
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func sortKeys(keys []types.NamespacedName) { slices.SortFunc(keys, compareKeys) }
