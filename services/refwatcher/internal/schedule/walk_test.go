package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
)

// The walk visits every state that a small world can get into: two Workspaces over two repositories of one host, one of which needs a credential that is
// rotated; polls that are answered, refused, or come to nothing; pushes, with and without a hint; edits and deletions; a clock; a restart at any moment.
// Every state is checked against what the documentation promises, said once more in other words than the code.

// tick is the step of the clock, interval and gap are small multiples of it.
const (
	tick         = time.Second
	walkInterval = time.Second
	// hanging is how many ticks a poll may take: the client's timeout.
	hanging = 1
)

var (
	walkSettings = Settings{MaxBackoff: 2 * time.Second, MinGap: time.Second, PerHost: 1, Total: 2}
	walkURLs     = []string{"https://example.com/a", "https://example.com/b"}
	walkNames    = []string{"one", "two"}
)

// walkWorld is the world around the Book. All of it but the Book is comparable and copied by assignment.
type walkWorld struct {
	book *Book
	now  time.Time
	facts
}

// facts are what is so, whatever the Book believes.
type facts struct {
	// source of each Workspace: an index of walkURLs, or none.
	source [2]int
	// annotation of each Workspace: the source that it is for, or none, and the commit.
	annotated [2]int
	commit    [2]byte
	// head of each repository.
	head [2]byte
	// rotated is the version of the credential of the second Workspace.
	rotated byte
	// polling is the key of the running poll of each repository by credential; empty for none. asked is what the repository held when it began.
	polling [remotes]string
	asked   [remotes]byte
	began   [remotes]time.Time
	// told is the last answer of each remote that counts: what the annotation must be once everything has been reconciled; 0 for none yet.
	told [remotes]byte
	// wait is until when each remote must be left alone, because of its interval or its back-off.
	wait [remotes]time.Time
	// hurried says that somebody arrived, pushed or rotated since the last poll began.
	hurried [remotes]bool
	last    [remotes]time.Time
}

const (
	none    = -1
	headA   = 'a'
	headB   = 'b'
	remotes = 2
)

// remoteOf is which remote a Workspace wants: that of its repository.
func (w *walkWorld) remoteOf(i int) int { return w.source[i] }

// accessOf: repository b is reached with a credential.
func (w *walkWorld) accessOf(i int) Access {
	if w.source[i] == 1 {
		return Access{Namespace: "team", Secret: "s", Version: string(w.rotated)}
	}
	return Access{}
}

func (w *walkWorld) workspace(i int) *v1alpha1.Workspace {
	ws := named(walkNames[i], walkURLs[w.source[i]], "main")
	ws.Annotations = map[string]string{v1alpha1.AnnotationGitPollInterval: walkInterval.String()}
	if w.annotated[i] != none {
		ws.Annotations[v1alpha1.AnnotationDetectedFor] = v1alpha1.GrantSubject(named(walkNames[i], walkURLs[w.annotated[i]], "main"))
		ws.Annotations[v1alpha1.AnnotationDetectedRevision] = strings.Repeat(string(w.commit[i]), 40)
	}
	return ws
}

func key(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: walkNames[i]}
}

// reconcile is what the watch leads to after any change of a Workspace or of its credential.
func (w *walkWorld) reconcile(i int) {
	if w.source[i] == none {
		w.book.Forget(key(i))
		w.annotated[i], w.commit[i] = none, 0
		w.forgetUnwanted()
		return
	}
	ws := w.workspace(i)
	found, told := w.book.Observe(w.now, ws, w.accessOf(i))
	d := Decide(ws, found, told)
	w.book.Tell(ws, d.Told, d.Announce)
	if revision, set := d.Set[v1alpha1.AnnotationDetectedRevision]; set {
		w.annotated[i], w.commit[i] = w.source[i], revision[0]
	}
	if len(d.Remove) > 0 {
		w.annotated[i], w.commit[i] = none, 0
	}
	w.forgetUnwanted()
}

func (w *walkWorld) reconcileAll() {
	for i := range walkNames {
		w.reconcile(i)
	}
}

// forgetUnwanted: what was learned of a remote is forgotten with its last Workspace.
func (w *walkWorld) forgetUnwanted() {
	for r := range remotes {
		if w.remoteOf(0) != r && w.remoteOf(1) != r {
			w.told[r], w.wait[r], w.hurried[r] = 0, time.Time{}, false
			if w.polling[r] == "" {
				w.last[r] = time.Time{}
			}
		}
	}
}

func (w *walkWorld) edit(i, source int) {
	before := w.remoteOf(i)
	w.source[i] = source
	w.reconcile(i)
	if r := w.remoteOf(i); r != none && r != before {
		w.hurried[r] = true
	}
}

// start is false if the Book has nothing to give.
func (w *walkWorld) start() (bool, string) {
	p, due := w.book.Next(w.now)
	if !due {
		return false, ""
	}
	r := w.byKey(p.Remote)
	if r == none {
		return true, "a remote is polled that no Workspace wants: " + p.Remote
	}
	if w.polling[r] != "" {
		return true, "law: one poll per remote at a time"
	}
	if w.now.Before(w.wait[r]) && !w.hurried[r] {
		return true, fmt.Sprintf("law: never earlier than the back-off: %s early", w.wait[r].Sub(w.now))
	}
	if !w.last[r].IsZero() && w.now.Before(w.last[r].Add(walkSettings.MinGap)) {
		return true, "law: no remote is asked twice within the gap"
	}
	w.polling[r], w.asked[r], w.began[r], w.last[r], w.hurried[r] = p.Remote, w.head[r], w.now, w.now, false
	return true, ""
}

// byKey is the remote of a key that the Book gave out; none if no Workspace wants it.
func (w *walkWorld) byKey(k string) int {
	for i := range walkNames {
		if r := w.remoteOf(i); r != none && keyOf(WantOf(w.workspace(i).Spec.Source, schemes), w.accessOf(i)) == k {
			return r
		}
	}
	return none
}

func (w *walkWorld) finish(r int, outcome Outcome) {
	answer := Answer{Outcome: outcome}
	if outcome == Answered {
		answer.Findings = map[string]Finding{"main": {Commit: strings.Repeat(string(w.asked[r]), 40)}}
	} else {
		answer.Trouble = &Trouble{Reason: v1alpha1.ReasonRemoteUnavailable, Message: "down"}
	}
	changed := w.book.Finish(w.now, Poll{Remote: w.polling[r]}, answer)
	wanted := w.remoteOf(0) == r || w.remoteOf(1) == r
	w.polling[r], w.began[r] = "", time.Time{}
	if !wanted {
		w.asked[r], w.last[r] = 0, time.Time{}
		return
	}
	if outcome == Answered {
		w.told[r] = w.asked[r]
	}
	w.asked[r] = 0
	w.wait[r] = w.now.Add(promised(outcome))
	for _, k := range changed {
		w.reconcile(slices.Index(walkNames, k.Name))
	}
}

// promised is the delay that docs/revisions.md promises for the interval and the limit of the walk.
func promised(outcome Outcome) time.Duration {
	if outcome == Answered {
		return walkInterval
	}
	return walkSettings.MaxBackoff
}

// moves are what can happen next.
func (w *walkWorld) moves() map[string]func(*walkWorld) string {
	quiet := func(f func(*walkWorld)) func(*walkWorld) string {
		return func(w *walkWorld) string { f(w); return "" }
	}
	all := map[string]func(*walkWorld) string{
		"start":   func(w *walkWorld) string { _, problem := w.start(); return problem },
		"restart": quiet((*walkWorld).restart),
	}
	for i := range walkNames {
		for source := none; source <= 1; source++ {
			// The second Workspace is never deleted: the world is symmetric enough without.
			if source != w.source[i] && (i == 0 || source != none) {
				all[fmt.Sprintf("edit %s to %d", walkNames[i], source)] = quiet(func(w *walkWorld) { w.edit(i, source) })
			}
		}
	}
	all["push"] = quiet(func(w *walkWorld) { w.head[0] ^= headA ^ headB })
	all["hint"] = quiet(func(w *walkWorld) { w.hint(0) })
	if w.source[0] == 1 || w.source[1] == 1 {
		all["rotate"] = quiet(func(w *walkWorld) {
			w.rotated ^= 'v' ^ 'w'
			w.hurried[1] = true
			w.reconcileAll()
		})
	}
	patient := true
	for r := range remotes {
		if w.polling[r] == "" {
			continue
		}
		for _, outcome := range []Outcome{Answered, Unreachable} {
			all[fmt.Sprintf("end %d as %d", r, outcome)] = quiet(func(w *walkWorld) { w.finish(r, outcome) })
		}
		patient = patient && w.now.Sub(w.began[r]) < hanging*tick
	}
	// The poller starts what is due before it waits, and no poll outlives its timeout.
	if at, some := w.book.Wake(); patient && (!some || at.After(w.now)) {
		all["tick"] = quiet(func(w *walkWorld) { w.now = w.now.Add(tick) })
	}
	return all
}

func (w *walkWorld) hint(repository int) {
	want := WantOf(named("x", walkURLs[repository], "main").Spec.Source, schemes)
	prompted := 0
	if w.source[0] == repository || w.source[1] == repository {
		w.hurried[repository] = true
		prompted = 1
	}
	if got := w.book.Pushed(w.now, "", []refs.URL{want.URL}); got != prompted {
		panic(fmt.Sprintf("a hint prompted %d remotes, want %d", got, prompted))
	}
}

// restart loses everything but the objects. Polls are cut off.
func (w *walkWorld) restart() {
	w.book = NewBook(walkSettings, schemes)
	w.polling, w.asked, w.began, w.last = [remotes]string{}, [remotes]byte{}, [remotes]time.Time{}, [remotes]time.Time{}
	w.told, w.wait, w.hurried = [remotes]byte{}, [remotes]time.Time{}, [remotes]bool{}
	w.reconcileAll()
}

// broken says which promise the state breaks; empty if none.
func (w *walkWorld) broken() string {
	for i := range walkNames {
		r := w.remoteOf(i)
		if r == none {
			if _, kept := w.book.workspaces[key(i)]; kept {
				return "a Workspace that is gone is remembered"
			}
			continue
		}
		due, known := w.book.schedule.Due(keyOf(WantOf(w.workspace(i).Spec.Source, schemes), w.accessOf(i)))
		next := due.Next
		switch {
		case !known:
			return "law: no Workspace is ever forgotten: " + walkNames[i] + " is in no queue"
		case next.IsZero() != (w.polling[r] != ""):
			return "law: one poll per remote at a time: the schedule does not know what is polled"
		case next.After(w.now.Add(walkSettings.MaxBackoff)):
			return fmt.Sprintf("law: no Workspace is ever forgotten: %s is due in %s", walkNames[i], next.Sub(w.now))
		case w.hurried[r] && !next.IsZero() && next.After(w.now.Add(walkSettings.MinGap)):
			return "an arrival, a push or a rotation waits longer than the gap"
		}
		if problem := w.wrongAnnotation(i, r); problem != "" {
			return problem
		}
	}
	return w.stuck()
}

// wrongAnnotation: the annotation is the last answer for the present source, or what was there before if there is none yet.
func (w *walkWorld) wrongAnnotation(i, r int) string {
	if w.annotated[i] != none && w.annotated[i] != w.source[i] {
		return "law: the annotation is for the present source"
	}
	if w.told[r] != 0 && (w.annotated[i] == none || w.commit[i] != w.told[r]) {
		return fmt.Sprintf("law: the annotation equals the last answer: %q of %d, want %q", w.commit[i], w.annotated[i], w.told[r])
	}
	return ""
}

// stuck: whatever is due can start, unless the host is at its limit.
func (w *walkWorld) stuck() string {
	running := 0
	for r := range remotes {
		if w.polling[r] != "" {
			running++
		}
	}
	if _, some := w.book.Wake(); !some && running == 0 && w.book.schedule.Remotes() > 0 {
		return "nothing will ever be polled again"
	}
	if running > walkSettings.PerHost {
		return "more polls than the host may have"
	}
	return ""
}

// state is everything that the future depends on, with times as distances.
func (w *walkWorld) state() string {
	var s strings.Builder
	since := func(t time.Time) int64 {
		if t.IsZero() {
			return -99
		}
		// What is long past makes no difference.
		return max(int64(t.Sub(w.now)/tick), -2)
	}
	// Which of two commits, or versions, is the present one makes no difference: only whether something is of the present one.
	present := func(repository int, commit byte) string {
		if commit == 0 {
			return "-"
		}
		return fmt.Sprint(commit == w.head[repository])
	}
	fmt.Fprint(&s, w.source, w.annotated, w.hurried)
	for i := range walkNames {
		fmt.Fprint(&s, " ", present(max(w.annotated[i], 0), w.commit[i]))
	}
	for r := range remotes {
		fmt.Fprint(&s, " ", present(r, w.asked[r]), present(r, w.told[r]), w.polling[r] != "", since(w.began[r]), since(w.wait[r]), since(w.last[r]))
	}
	for _, k := range slices.Sorted(maps.Keys(w.book.remotes)) {
		state, r := w.book.remotes[k], w.book.schedule.remotes[k]
		fmt.Fprint(&s, "|", k, since(r.next), since(r.started), since(r.finished), r.running, r.again, r.outcome, state.trouble != nil, state.access.Version == "" || state.access.Version == string(w.rotated))
		if found, some := state.findings["main"]; some {
			fmt.Fprint(&s, present(slices.Index(walkURLs, state.url.String()), found.Commit[0]))
		}
	}
	for _, h := range w.book.schedule.hosts {
		fmt.Fprint(&s, "|", h.running, len(h.idle))
	}
	return s.String()
}

// clone copies the world with everything behind it.
func (w *walkWorld) clone() *walkWorld {
	c := *w
	c.book = NewBook(walkSettings, schemes)
	for k, seen := range w.book.workspaces {
		copied := *seen
		c.book.workspaces[k] = &copied
	}
	for k, state := range w.book.remotes {
		copied := *state
		copied.members = maps.Clone(state.members)
		c.book.remotes[k] = &copied
	}
	for k, at := range w.book.places {
		c.book.places[k] = maps.Clone(at)
	}
	c.book.schedule = w.book.schedule.clone()
	return &c
}

// clone keeps the order within the queues.
func (s *Schedule) clone() *Schedule {
	c := New(s.settings)
	c.running = s.running
	maps.Copy(c.targets, s.targets)
	for k, h := range s.hosts {
		copied := *h
		copied.idle = make(queue[*remote], len(h.idle))
		c.hosts[k] = &copied
	}
	for k, r := range s.remotes {
		copied := *r
		copied.members = maps.Clone(r.members)
		copied.host = c.hosts[r.host.key]
		c.remotes[k] = &copied
		if r.place != unplaced {
			copied.host.idle[r.place] = &copied
		}
	}
	c.ready = make(queue[*host], len(s.ready))
	for i, h := range s.ready {
		c.ready[i] = c.hosts[h.key]
	}
	return c
}

func TestWalkOfEveryStateHoldsTheLaws(t *testing.T) {
	begin := &walkWorld{now: start, facts: facts{source: [2]int{none, 1}, annotated: [2]int{none, none}, head: [2]byte{headA, headA}, rotated: 'v'}}
	begin.restart()
	seen := map[string]string{begin.state(): "the beginning"}
	queued := []*walkWorld{begin}
	moves := 0
	for len(queued) > 0 {
		w := queued[0]
		queued = queued[1:]
		for name, move := range w.moves() {
			moves++
			next := w.clone()
			problem := move(next)
			if problem == "" {
				problem = next.broken()
			}
			if problem != "" {
				t.Fatalf("%s\nafter %q in the state that %q led to:\n%s\nit became\n%s", problem, name, seen[w.state()], w.state(), next.state())
			}
			state := next.state()
			if _, known := seen[state]; !known {
				seen[state] = name
				queued = append(queued, next)
			}
		}
	}
	t.Logf("%d states, %d moves", len(seen), moves)
	if len(seen) < 10_000 {
		t.Errorf("only %d states", len(seen))
	}
}
