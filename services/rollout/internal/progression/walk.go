package progression

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// DriftPass names the pass in the grant of a drift plan while the Rollout has had no pass yet.
const DriftPass = "drift"

// walk is one decision over a Project with a Rollout. It builds the desired status step by step from
// a copy of the observed one.
type walk struct {
	now      time.Time
	rollout  *v1alpha1.Rollout
	members  []*v1alpha1.Workspace
	resolved map[Key]Resolution

	status   *v1alpha1.RolloutStatus
	grants   map[string]v1alpha1.Grant
	needs    []PinRequest
	requeue  time.Duration
	consumed []string
	events   []Event
	// unanswered holds why a Key has no commit.
	unanswered map[Key]Resolution
	// commands are what people ask for.
	commands commands
	// late is true when the pass is overdue.
	late bool
	// entries are what is kept of the members of the current step, by name.
	entries map[string]v1alpha1.RolloutStepMember
	// hold says why nothing new may be granted; nil when it may.
	hold *hold
}

func newWalk(now time.Time, s Snapshot, members []*v1alpha1.Workspace) *walk {
	w := &walk{
		now:        now,
		rollout:    s.Rollout,
		members:    members,
		resolved:   s.Resolved,
		status:     s.Rollout.Status.DeepCopy(),
		grants:     map[string]v1alpha1.Grant{},
		unanswered: map[Key]Resolution{},
	}
	w.hold = w.held()
	return w
}

// decide goes on with the pass that is moving, or begins one when a member wants something other than drift.
func (w *walk) decide() {
	w.readCommands()
	if !w.moving() {
		w.betweenPasses()
		return
	}
	if w.commands.abort {
		w.abort("a person aborted it")
		return
	}
	w.goOn()
}

// moving reports whether a pass has begun and not ended.
func (w *walk) moving() bool {
	return w.status.Pass != nil && w.status.Pass.FinishedAt == nil
}

// betweenPasses begins a pass where there is a reason to, and lets drift be looked for where there is none.
func (w *walk) betweenPasses() {
	steps := w.rollout.Spec.Strategy.Steps
	members, err := assign(steps, w.members)
	switch {
	case err != nil:
		w.report(v1alpha1.RolloutFailed, v1alpha1.ReasonInvalidSelector, err.Error())
	case w.hold == nil && w.beginsAnew(members):
		w.begin()
		w.goOn()
	default:
		w.rest(members)
	}
}

// beginsAnew reports whether the next pass begins. An aborted pass stays the last one until there is a commit that it did
// not have, or a person retries.
func (w *walk) beginsAnew(members cohorts) bool {
	switch {
	case w.commands.retry:
		w.commands.retry = false
		w.tell(false, v1alpha1.ReasonStepRetried, fmt.Sprintf("a person asked to retry pass %s", w.status.Pass.ID))
		return true
	case w.aborted():
		return w.commitAfterAbort(members)
	}
	return w.somethingNew(members)
}

// aborted reports whether the last pass was aborted.
func (w *walk) aborted() bool {
	return w.status.Pass != nil && w.status.Pass.Result == v1alpha1.PassAborted
}

// somethingNew reports whether a member wants what a pass brings. A member that wants another commit only hints
// at one, for the watcher's annotation can be older than the commit that the last pass took from the remote:
// without the remote's word, passes would follow each other until the watcher catches up. A member that failed in the
// last pass and was left behind wants nothing new by wanting a further attempt.
func (w *walk) somethingNew(members cohorts) bool {
	for _, m := range members.outside(-1) {
		if !wantsRun(m) || w.leftBehind(m) {
			continue
		}
		if isLive(m) || !wantsCommit(m) || w.confirmed(m) {
			return true
		}
	}
	return false
}

// leftBehind reports whether m failed in the last pass, and wants only to try the same again.
func (w *walk) leftBehind(m *v1alpha1.Workspace) bool {
	want := m.Status.Wants
	return w.status.Pass != nil && endedFailing(m, w.status.Pass.ID) && want != nil && want.Trigger == v1alpha1.TriggerRetry
}

// confirmed reports whether the remote has another commit for m than the applied one; it asks where nobody has.
func (w *walk) confirmed(m *v1alpha1.Workspace) bool {
	key := KeyOf(m)
	answer, answered := w.resolved[key]
	switch {
	case !answered:
		w.need(PinRequest{Key: key, Member: m.Name, Hint: m.Status.Wants.Revision})
		return false
	case answer.Revision == "":
		w.unanswered[key] = answer
		return false
	}
	return m.Status.Applied == nil || answer.Revision != m.Status.Applied.Revision
}

// rest gives the drift plans that are due their grants; nothing else runs between passes, and nothing at all after an abort.
func (w *walk) rest(members cohorts) {
	if !w.aborted() {
		w.grantDrift(members.outside(-1), false)
	}
	w.reportRest(members, w.rollout.Spec.Strategy.Steps)
}

// goOn walks as far as the members have come: it passes over every step that is over and grants the first
// that is not. A pass that is stuck makes way for the next one where there is something new.
func (w *walk) goOn() {
	members, err := assign(w.status.Pass.Steps, w.members)
	if err != nil {
		w.report(v1alpha1.RolloutFailed, v1alpha1.ReasonInvalidSelector, err.Error())
		return
	}
	w.repair()
	w.approve()
	overdue := w.judgePass()
	for {
		c := w.step(members)
		if why := w.judgeFailures(c); why != "" {
			w.abort(why)
			return
		}
		if w.superseded(c, members) {
			w.end(v1alpha1.PassSuperseded)
			w.begin()
			w.goOn()
			return
		}
		c.soak = w.soak(c)
		if !w.over(c) || w.settling(c) {
			// A pass that has come to its end is not aborted because nobody looked in time.
			if overdue != "" {
				w.abort(overdue)
				return
			}
			w.stay(c, members)
			return
		}
		w.finish(c)
		if c.index == len(w.status.Pass.Steps)-1 {
			w.end(w.result())
			w.reportRest(members, w.status.Pass.Steps)
			return
		}
		w.status.CurrentStep++
	}
}

// repair makes a status usable whose parts do not fit each other, which only a foreign writer can cause.
func (w *walk) repair() {
	if steps := w.status.Pass.Steps; len(w.status.Steps) != len(steps) {
		w.status.Steps = pending(steps)
	}
	w.status.CurrentStep = max(0, min(w.status.CurrentStep, count32(len(w.status.Pass.Steps)-1)))
}

// current is the current step with the standing of each of its members.
type current struct {
	index     int
	members   []*v1alpha1.Workspace
	standings []standing
	// late says which of them are overdue.
	late []bool
	// soak is what a step that is complete waits for before the pass goes on.
	soak soak
}

// step judges the members of the current step, with the commits that the pass has for them.
func (w *walk) step(members cohorts) current {
	index := int(w.status.CurrentStep)
	w.enter(index)
	c := current{index: index, members: members.steps[index]}
	for _, m := range c.members {
		c.standings = append(c.standings, standingOf(m, w.status.Pass.ID, w.pin(m)))
	}
	w.entries = map[string]v1alpha1.RolloutStepMember{}
	for _, e := range w.status.Steps[index].Members {
		w.entries[e.Name] = e
	}
	w.readClocks(&c)
	return c
}

func (c current) count(s standing) int {
	n := 0
	for _, have := range c.standings {
		if have == s {
			n++
		}
	}
	return n
}

// complete reports whether every member is done or passed over. A step without members never is, for a typo in a selector
// must not let the next step run.
func (c current) complete() bool {
	return len(c.members) > 0 && c.count(done)+c.count(passedOver) == len(c.members)
}

// over reports whether the pass may go on. A pass that is paused stays where it is.
func (w *walk) over(c current) bool {
	return c.complete() && c.soak == soaked && !w.paused()
}

// live reports whether a run of the step may still change something.
func (c current) live() bool {
	for _, m := range c.members {
		if isLive(m) && !isDriftRun(m) {
			return true
		}
	}
	return false
}

// ran reports whether anything of the step ran in this pass.
func (w *walk) ran(c current) bool {
	for i, m := range c.members {
		if c.standings[i] == passedOver || m.Status.Applied != nil && m.Status.Applied.Pass == w.status.Pass.ID {
			return true
		}
	}
	return false
}

// settling reports whether it is too early to pass over a step in which nothing ran.
func (w *walk) settling(c current) bool {
	if w.ran(c) {
		return false
	}
	wait := w.status.Pass.StartedAt.Add(Settle).Sub(w.now)
	if wait <= 0 {
		return false
	}
	w.wake(wait)
	return true
}

// stay grants what the current step may have, and reports what it waits for.
func (w *walk) stay(c current, members cohorts) {
	between := (w.awaitsApproval(c) || c.soak != soaked) && w.hold == nil
	w.grantDrift(members.outside(c.index), !between)
	w.grantStep(c)
	w.keepEntries(c)
	w.reportStep(c, members)
}

// grantDrift gives members that have no turn the grants of their drift plans. While a pass moves they only look.
// Under a hold no new one begins.
func (w *walk) grantDrift(members []*v1alpha1.Workspace, moving bool) {
	pass := DriftPass
	if w.status.Pass != nil {
		pass = w.status.Pass.ID
	}
	for _, m := range members {
		if w.hold != nil && !isLive(m) {
			continue
		}
		if g, ok := driftGrant(m, pass, moving || w.hold != nil && (!w.hold.window || !mayApply(m))); ok {
			w.grants[m.Name] = g
		}
	}
}

// mayApply reports whether m holds the grant to apply what its drift run finds: a window that closes does not cut it short.
func mayApply(m *v1alpha1.Workspace) bool {
	g, ok := v1alpha1.ReadGrant(m, true)
	return ok && g.Scope == v1alpha1.ScopeRun
}

// wake asks for another decision after the delay, if none comes earlier.
func (w *walk) wake(after time.Duration) {
	if w.requeue == 0 || after < w.requeue {
		w.requeue = after
	}
}

// seconds is the present time as the API keeps it.
func (w *walk) seconds() metav1.Time { return metav1.NewTime(w.now.Truncate(time.Second)) }
