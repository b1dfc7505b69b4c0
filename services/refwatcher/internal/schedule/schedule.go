// Package schedule decides which remote is polled when. It is pure: the time is an argument, and nothing here waits or talks to anybody.
package schedule

import "time"

// Settings bound how much is polled.
type Settings struct {
	// MaxBackoff is the longest time between two polls of a remote that fails, unless its interval is longer.
	MaxBackoff time.Duration
	// MinGap is the shortest time between the starts of two polls of one remote, however many Workspaces arrive.
	MinGap time.Duration
	// PerHost is how many polls of one host may run at a time.
	PerHost int
	// Total is how many polls may run at a time.
	Total int
	// Jitter is the largest part of a delay by which it is shortened, so that remotes that were made together part; 0.1 is a tenth.
	Jitter float64
	// Patience is how many polls in a row may find a remote unreachable before it is asked less often than its interval says: until then a server that
	// was only restarted is seen again as soon as a push to it would be.
	Patience int
}

// Target is what one Workspace wants to know.
type Target struct {
	// Remote stands for a normalised URL and a credential: all Workspaces with the same ones share its polls.
	Remote string
	// Host is what Settings.PerHost counts by.
	Host string
	// Name that the Workspace wants resolved.
	Name string
	// Interval between polls. The shortest of a remote's Workspaces counts.
	Interval time.Duration
}

// Schedule holds every remote that at least one Workspace wants, and when it is due. It is not safe for concurrent use.
type Schedule struct {
	settings Settings
	targets  map[string]Target
	remotes  map[string]*remote
	hosts    map[string]*host
	// ready holds the hosts that could start a poll when their first remote is due: those with a remote that is not being polled and with room.
	ready   queue[*host]
	running int
}

type remote struct {
	key  string
	host *host
	// members are the Workspaces that want it.
	members map[string]struct{}
	// next is when it is due; of no meaning while running.
	next time.Time
	// started and finished tell of the last poll; zero before the first.
	started, finished time.Time
	// notBefore is what the remote asked for itself; zero if it did not.
	notBefore time.Time
	// outcome of the last poll, and how many ended like it in a row; 0 where it was answered.
	outcome         Outcome
	failures, polls int
	running         bool
	// again is set when somebody arrives and cleared when a poll starts: until then the remote is due because of the arrival and not of
	// its interval. A poll that was running when they came may have begun too early for them.
	again bool
	place int
}

type host struct {
	key     string
	idle    queue[*remote]
	running int
	// silent says that the last poll of one of its remotes ended without an answer.
	silent bool
	place  int
}

// New makes an empty Schedule.
func New(settings Settings) *Schedule {
	return &Schedule{settings: settings, targets: map[string]Target{}, remotes: map[string]*remote{}, hosts: map[string]*host{}}
}

// Set says what a Workspace wants from now on. Where that is another remote or name than before, the remote is due at once; another
// interval alone counts at once. Saying the same again changes nothing.
func (s *Schedule) Set(now time.Time, workspace string, want Target) {
	old, known := s.targets[workspace]
	if known && old == want {
		return
	}
	if known && old.Remote != want.Remote {
		s.Remove(workspace)
		known = false
	}
	s.targets[workspace] = want
	r := s.remote(want)
	r.members[workspace] = struct{}{}
	if !known || old.Name != want.Name {
		s.hurry(now, r)
		return
	}
	if !r.running {
		s.place(r, s.following(r))
	}
}

// Remove forgets a Workspace, and its remote if nobody else wants it.
func (s *Schedule) Remove(workspace string) {
	old, known := s.targets[workspace]
	if !known {
		return
	}
	delete(s.targets, workspace)
	r := s.remotes[old.Remote]
	delete(r.members, workspace)
	switch {
	case len(r.members) == 0:
		s.drop(r)
	case !r.running:
		s.place(r, s.following(r))
	}
}

// Start takes the remote that has been due longest, if one is due and there is room for its poll. The caller polls it and calls Finish.
func (s *Schedule) Start(now time.Time) (remoteKey string, ok bool) {
	if s.running >= s.settings.Total || len(s.ready) == 0 || s.ready[0].due().After(now) {
		return "", false
	}
	h := s.ready[0]
	r := h.idle[0]
	h.idle.remove(r)
	r.running, r.again, r.started = true, false, now
	r.polls++
	h.running++
	s.running++
	s.settle(h)
	return r.key, true
}

// Prompt makes a remote due at once, or as soon as the gap since its last poll and what the remote asked for itself allow. False if nobody wants it.
func (s *Schedule) Prompt(now time.Time, remoteKey string) bool {
	r, known := s.remotes[remoteKey]
	if !known || len(r.members) == 0 {
		return false
	}
	s.hurry(now, r)
	return true
}

// Finish says that a poll that Start gave out has ended, and how. retryAfter is how long the remote wants to be left alone; 0 if it does not say.
func (s *Schedule) Finish(now time.Time, remoteKey string, outcome Outcome, retryAfter time.Duration) {
	r, known := s.remotes[remoteKey]
	if !known || !r.running {
		return
	}
	r.running = false
	r.host.running--
	s.running--
	r.finished = now
	r.host.silent = outcome == Unreachable
	r.note(now, outcome, retryAfter)
	switch {
	case len(r.members) == 0:
		s.drop(r)
	case r.again:
		s.hurry(now, r)
	default:
		s.place(r, s.following(r))
	}
}

// Wake is when Start will next have something to give, provided that nothing else happens; false if only a Set or Finish can change that.
func (s *Schedule) Wake() (time.Time, bool) {
	if s.running >= s.settings.Total || len(s.ready) == 0 {
		return time.Time{}, false
	}
	return s.ready[0].due(), true
}

// Due is when a remote is polled, and why not sooner.
type Due struct {
	// Next is when it is due; zero while it is being polled.
	Next time.Time
	// Interval between polls while it answers.
	Interval time.Duration
	// Failures is how many polls in a row ended like the last one; 0 if that was answered.
	Failures int
	// NotBefore is until when it asked to be left alone; zero if it did not.
	NotBefore time.Time
}

// Due says when a remote is polled; false if nobody wants it.
func (s *Schedule) Due(remoteKey string) (Due, bool) {
	r, known := s.remotes[remoteKey]
	if !known || len(r.members) == 0 {
		return Due{}, false
	}
	due := Due{Next: r.next, Interval: s.interval(r), Failures: r.failures, NotBefore: r.notBefore}
	if r.running {
		due.Next = time.Time{}
	}
	return due, true
}

// Remotes is how many remotes are wanted.
func (s *Schedule) Remotes() int {
	n := 0
	for _, r := range s.remotes {
		if len(r.members) > 0 {
			n++
		}
	}
	return n
}

func (s *Schedule) remote(want Target) *remote {
	if r, known := s.remotes[want.Remote]; known {
		return r
	}
	h, known := s.hosts[want.Host]
	if !known {
		h = &host{key: want.Host, place: unplaced}
		s.hosts[want.Host] = h
	}
	r := &remote{key: want.Remote, host: h, members: map[string]struct{}{}, place: unplaced}
	s.remotes[want.Remote] = r
	return r
}

// hurry makes a remote due at once, or as soon as the gap since its last poll allows.
func (s *Schedule) hurry(now time.Time, r *remote) {
	r.again = true
	if r.running {
		return
	}
	due := now
	if earliest := r.started.Add(s.settings.MinGap); !r.started.IsZero() && earliest.After(due) {
		due = earliest
	}
	if r.notBefore.After(due) {
		due = r.notBefore
	}
	if r.place != unplaced && r.next.Before(due) {
		// Already due sooner.
		due = r.next
	}
	s.place(r, due)
}

// following is when a remote is due by its interval. The jitter only shortens, and is the same each time that it is asked for.
func (s *Schedule) following(r *remote) time.Time {
	if r.again || r.finished.IsZero() {
		return r.next
	}
	delay := s.settings.backoff(s.interval(r), r.outcome, r.failures)
	due := r.finished.Add(delay - time.Duration(float64(delay)*s.settings.Jitter*spread(r.key, r.polls)))
	if r.notBefore.After(due) {
		return r.notBefore
	}
	return due
}

// interval is the shortest of those that want a remote.
func (s *Schedule) interval(r *remote) time.Duration {
	shortest := time.Duration(0)
	for workspace := range r.members {
		if interval := s.targets[workspace].Interval; shortest == 0 || interval < shortest {
			shortest = interval
		}
	}
	return shortest
}

func (s *Schedule) place(r *remote, due time.Time) {
	if r.place != unplaced {
		r.host.idle.remove(r)
	}
	r.next = due
	r.host.idle.add(r)
	s.settle(r.host)
}

// drop forgets a remote. One that is being polled stays until Finish, so that the poll counts against its host as long as it runs.
func (s *Schedule) drop(r *remote) {
	if r.running {
		return
	}
	if r.place != unplaced {
		r.host.idle.remove(r)
	}
	delete(s.remotes, r.key)
	s.settle(r.host)
	if len(r.host.idle) == 0 && r.host.running == 0 {
		delete(s.hosts, r.host.key)
	}
}

// settle puts a host where it belongs after anything about it changed.
func (s *Schedule) settle(h *host) {
	if h.place != unplaced {
		s.ready.remove(h)
	}
	if len(h.idle) > 0 && h.running < s.room(h) {
		s.ready.add(h)
	}
}

// room of a host. One that is silent gets one poll at a time until it speaks again: several hosts that hang would use up all polls for those that do not.
func (s *Schedule) room(h *host) int {
	if h.silent {
		return 1
	}
	return s.settings.PerHost
}
