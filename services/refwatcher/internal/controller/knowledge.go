// Package controller keeps the detected-revision annotations of Workspaces right: the Poller asks each remote once for all of its Workspaces, the
// Reconciler writes what was found. Both run on the leader alone. What they know lies in Knowledge, in memory: after a restart every remote is asked again.
package controller

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// announcementsPerPoll bounds how many Workspaces of one remote get an Event after one poll. The others are found with ListRemotes and in their status.
const announcementsPerPoll = 20

// Knowledge is what the leader knows of Workspaces and remotes. It is safe for concurrent use.
type Knowledge struct {
	schemes []string
	// wake tells the Poller that the schedule changed.
	wake chan struct{}

	mutex      sync.Mutex
	leading    bool
	schedule   *schedule.Schedule
	workspaces map[types.NamespacedName]*watched
	remotes    map[string]*remoteState
}

// watched is what is known of one Workspace.
type watched struct {
	uid  types.UID
	want schedule.Want
	// remote is the key of the remote that is polled for it, empty for none.
	remote string
	told   schedule.Told
}

// remoteState is what is known of one remote.
type remoteState struct {
	url refs.URL
	// members are the Workspaces that want it; never empty.
	members     map[types.NamespacedName]struct{}
	lastSuccess time.Time
	// trouble of the last poll; nil if it succeeded or none has ended.
	trouble *schedule.Trouble
	// findings of the last poll that succeeded, by target revision.
	findings map[string]schedule.Finding
	// announced since the last poll.
	announced int
}

// NewKnowledge makes an empty Knowledge. Only URLs with one of the schemes are polled.
func NewKnowledge(settings schedule.Settings, schemes []string) *Knowledge {
	return &Knowledge{
		schemes: schemes, wake: make(chan struct{}, 1), schedule: schedule.New(settings),
		workspaces: map[types.NamespacedName]*watched{}, remotes: map[string]*remoteState{},
	}
}

// Observe takes note of a Workspace as it is now, and returns what is known about its target revision and what was said about it.
func (k *Knowledge) Observe(now time.Time, w *v1alpha1.Workspace) (schedule.Finding, schedule.Told) {
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
	want := schedule.WantOf(w.Spec.Source, k.schemes)
	interval, _ := schedule.Interval(w.Annotations[v1alpha1.AnnotationGitPollInterval])

	k.mutex.Lock()
	defer k.mutex.Unlock()
	seen, known := k.workspaces[key]
	if !known || seen.uid != w.UID {
		// A successor of the same name has been told nothing.
		seen = &watched{uid: w.UID}
		k.workspaces[key] = seen
	}
	seen.want = want
	k.attach(key, seen)
	if want.Polled() {
		k.schedule.Set(now, key.String(), schedule.Target{Remote: seen.remote, Host: want.URL.Address(), Name: want.Name.String(), Interval: interval})
	} else {
		k.schedule.Remove(key.String())
	}
	k.signal()
	return k.finding(seen), seen.told
}

// Forget drops a Workspace that is gone or going.
func (k *Knowledge) Forget(key types.NamespacedName) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if seen, known := k.workspaces[key]; known {
		k.detach(key, seen)
		delete(k.workspaces, key)
		k.schedule.Remove(key.String())
		k.signal()
	}
}

// Tell notes what has been said about a Workspace, and cuts the list of what is still to be said where enough was said about its remote.
func (k *Knowledge) Tell(w *v1alpha1.Workspace, told schedule.Told, announce []schedule.Announcement) []schedule.Announcement {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	seen, known := k.workspaces[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}]
	if !known || seen.uid != w.UID {
		return announce
	}
	seen.told = told
	state, polled := k.remotes[seen.remote]
	if !polled {
		return announce
	}
	announce = announce[:min(len(announce), max(0, announcementsPerPoll-state.announced))]
	state.announced += len(announce)
	return announce
}

// finding needs the mutex.
func (k *Knowledge) finding(seen *watched) schedule.Finding {
	if seen.want.Trouble != nil {
		return schedule.Finding{Trouble: seen.want.Trouble}
	}
	if commit, pinned := seen.want.Name.Commit(); pinned {
		return schedule.Finding{Commit: commit}
	}
	state := k.remotes[seen.remote]
	found := state.findings[seen.want.Name.String()]
	if state.trouble != nil {
		found.Trouble = state.trouble
	}
	return found
}

// attach makes a Workspace a member of the remote that it wants, and of no other; it needs the mutex.
func (k *Knowledge) attach(key types.NamespacedName, seen *watched) {
	wanted := ""
	if seen.want.Polled() {
		wanted = seen.want.URL.String()
	}
	if seen.remote == wanted {
		return
	}
	k.detach(key, seen)
	if wanted == "" {
		return
	}
	state, known := k.remotes[wanted]
	if !known {
		state = &remoteState{url: seen.want.URL, members: map[types.NamespacedName]struct{}{}}
		k.remotes[wanted] = state
	}
	state.members[key] = struct{}{}
	seen.remote = wanted
}

// detach needs the mutex.
func (k *Knowledge) detach(key types.NamespacedName, seen *watched) {
	state, known := k.remotes[seen.remote]
	if !known {
		return
	}
	delete(state.members, key)
	if len(state.members) == 0 {
		delete(k.remotes, seen.remote)
	}
	seen.remote = ""
}

func (k *Knowledge) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// job is a poll to make.
type job struct {
	key   string
	url   refs.URL
	names []refs.Name
}

// next takes the next poll that is due.
func (k *Knowledge) next(now time.Time) (job, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	key, due := k.schedule.Start(now)
	if !due {
		return job{}, false
	}
	state := k.remotes[key]
	names := map[refs.Name]struct{}{}
	for member := range state.members {
		names[k.workspaces[member].want.Name] = struct{}{}
	}
	return job{key: key, url: state.url, names: slices.Collect(maps.Keys(names))}, true
}

// finish records how a poll ended and returns the Workspaces for which something changed. A trouble leaves the commits of earlier polls alone.
func (k *Knowledge) finish(now time.Time, j job, findings map[string]schedule.Finding, trouble *schedule.Trouble) []types.NamespacedName {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.schedule.Finish(now, j.key, trouble == nil)
	defer k.signal()
	state, wanted := k.remotes[j.key]
	if !wanted {
		return nil
	}
	before := k.findingsOf(state)
	state.trouble, state.announced = trouble, 0
	if trouble == nil {
		state.lastSuccess, state.findings = now, findings
	}
	var changed []types.NamespacedName
	for key, after := range k.findingsOf(state) {
		if !sameFinding(before[key], after) {
			changed = append(changed, key)
		}
	}
	slices.SortFunc(changed, compareKeys)
	return changed
}

// findingsOf has the finding of every Workspace of a remote; it needs the mutex.
func (k *Knowledge) findingsOf(state *remoteState) map[types.NamespacedName]schedule.Finding {
	found := make(map[types.NamespacedName]schedule.Finding, len(state.members))
	for key := range state.members {
		found[key] = k.finding(k.workspaces[key])
	}
	return found
}

func sameFinding(a, b schedule.Finding) bool {
	return a.Commit == b.Commit && reasonOf(a) == reasonOf(b)
}

func reasonOf(f schedule.Finding) v1alpha1.Reason {
	if f.Trouble == nil {
		return ""
	}
	return f.Trouble.Reason
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
