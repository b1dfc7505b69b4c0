package progression

import (
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

	status  *v1alpha1.RolloutStatus
	grants  map[string]v1alpha1.Grant
	needs   []PinRequest
	requeue time.Duration
	// unanswered holds why a Key has no commit.
	unanswered map[Key]Resolution
}

func newWalk(now time.Time, s Snapshot, members []*v1alpha1.Workspace) *walk {
	return &walk{
		now:        now,
		rollout:    s.Rollout,
		members:    members,
		resolved:   s.Resolved,
		status:     s.Rollout.Status.DeepCopy(),
		grants:     map[string]v1alpha1.Grant{},
		unanswered: map[Key]Resolution{},
	}
}

// decide goes on with the pass that is moving, or begins one when a member wants something other than drift.
func (w *walk) decide() {
	if w.moving() {
		w.goOn()
		return
	}
	steps := w.rollout.Spec.Strategy.Steps
	members, err := assign(steps, w.members)
	switch {
	case err != nil:
		w.report(v1alpha1.RolloutFailed, v1alpha1.ReasonInvalidSelector, err.Error())
	case w.somethingNew(members):
		w.begin()
		w.goOn()
	default:
		w.rest(members)
	}
}

// moving reports whether a pass has begun and not ended.
func (w *walk) moving() bool {
	return w.status.Pass != nil && w.status.Pass.FinishedAt == nil
}

// somethingNew reports whether a member wants what a pass brings. A member that wants another commit only hints
// at one, for the watcher's annotation can be older than the commit that the last pass took from the remote:
// without the remote's word, passes would follow each other until the watcher catches up.
func (w *walk) somethingNew(members cohorts) bool {
	for _, m := range members.outside(-1) {
		if wantsRun(m) && (isLive(m) || !wantsCommit(m) || w.confirmed(m)) {
			return true
		}
	}
	return false
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

// rest gives the drift plans that are due their grants; nothing else runs between passes.
func (w *walk) rest(members cohorts) {
	w.grantDrift(members.outside(-1), false)
	w.reportRest(members, w.rollout.Spec.Strategy.Steps)
}

// goOn walks as far as the members have come: it passes over every step that is done and grants the first
// that is not. A pass that is stuck makes way for the next one where there is something new.
func (w *walk) goOn() {
	members, err := assign(w.status.Pass.Steps, w.members)
	if err != nil {
		w.report(v1alpha1.RolloutFailed, v1alpha1.ReasonInvalidSelector, err.Error())
		return
	}
	w.repair()
	for {
		step := w.step(members)
		if w.superseded(step, members) {
			w.end(v1alpha1.ReasonSuperseded)
			w.begin()
			w.goOn()
			return
		}
		if !step.done() || w.settling(step) {
			w.hold(step, members)
			return
		}
		w.finish(step)
		if step.index == len(w.status.Pass.Steps)-1 {
			w.end(string(v1alpha1.RolloutSucceeded))
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
}

// step judges the members of the current step, with the commits that the pass has for them.
func (w *walk) step(members cohorts) current {
	index := int(w.status.CurrentStep)
	w.enter(index)
	c := current{index: index, members: members.steps[index]}
	for _, m := range c.members {
		c.standings = append(c.standings, standingOf(m, w.status.Pass.ID, w.pin(m)))
	}
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

// done reports whether the pass may go on: a step without members never is, for a typo in a selector
// must not let the next step run.
func (c current) done() bool {
	return len(c.members) > 0 && c.count(done) == len(c.members)
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

// settling reports whether it is too early to pass over a step in which nothing ran.
func (w *walk) settling(c current) bool {
	for _, m := range c.members {
		if m.Status.Applied.Pass == w.status.Pass.ID {
			return false
		}
	}
	wait := w.status.Pass.StartedAt.Add(Settle).Sub(w.now)
	if wait <= 0 {
		return false
	}
	w.requeue = wait
	return true
}

// hold grants the current step and reports what it waits for. While a step in which nothing ran settles,
// its members get nothing: they would lose it again at once.
func (w *walk) hold(c current, members cohorts) {
	w.grantDrift(members.outside(c.index), true)
	settling := c.done()
	for i, m := range c.members {
		if pin := w.recorded(KeyOf(m)); pin != "" && (!settling || c.standings[i] != done) {
			w.grants[m.Name] = v1alpha1.Grant{
				Scope: v1alpha1.ScopeRun, Pass: w.status.Pass.ID, Revision: pin, For: v1alpha1.GrantSubject(m),
			}
		}
	}
	w.reportStep(c, members)
}

// grantDrift gives the members of other steps the grants of their drift plans.
func (w *walk) grantDrift(members []*v1alpha1.Workspace, moving bool) {
	pass := DriftPass
	if w.status.Pass != nil {
		pass = w.status.Pass.ID
	}
	for _, m := range members {
		if g, ok := driftGrant(m, pass, moving); ok {
			w.grants[m.Name] = g
		}
	}
}

// superseded reports whether the pass makes way for the next: its steps were edited, or a commit is newer than its own.
// Only a pass that is stuck does: nothing of its step runs, and a member has failed, or has no commit, or there is no member.
func (w *walk) superseded(c current, members cohorts) bool {
	stuck := len(c.members) == 0 || c.count(failed) > 0 || w.refused(c)
	if !stuck || c.live() {
		return false
	}
	steps := w.rollout.Spec.Strategy.Steps
	if _, err := assign(steps, nil); err != nil {
		return false
	}
	return !sameSteps(steps, w.status.Pass.Steps) || w.newCommit(members)
}

// refused reports whether the refwatcher has no commit for a member of the step.
func (w *walk) refused(c current) bool {
	for i, m := range c.members {
		if _, answered := w.unanswered[KeyOf(m)]; answered && c.standings[i] == unpinned {
			return true
		}
	}
	return false
}

// newCommit reports whether a commit is newer than the pin of the pass. The annotation of a member only hints at it,
// for it can be older than the pin, which was asked for when the pass began: the remote has to confirm it.
func (w *walk) newCommit(members cohorts) bool {
	for _, m := range members.outside(-1) {
		key := KeyOf(m)
		pin, hint := w.recorded(key), v1alpha1.DetectedRevision(m)
		if pin == "" || hint == "" || hint == pin {
			continue
		}
		answer, answered := w.resolved[key]
		if answered && answer.Revision != "" && answer.Revision != pin {
			return true
		}
		if !answered {
			w.need(PinRequest{Key: key, Member: m.Name, Hint: hint})
		}
	}
	return false
}

// recorded returns the commit that the pass has for a key, empty while there is none.
func (w *walk) recorded(key Key) string {
	for _, r := range w.status.Pass.Revisions {
		if r.RepoURL == key.RepoURL && r.TargetRevision == key.TargetRevision {
			return r.Revision
		}
	}
	return ""
}

// pin returns the commit of the pass for m. A key that has none yet takes the refwatcher's answer, or
// asks for it; the first answer stands for the whole pass.
func (w *walk) pin(m *v1alpha1.Workspace) string {
	key := KeyOf(m)
	if revision := w.recorded(key); revision != "" {
		return revision
	}
	answer, answered := w.resolved[key]
	switch {
	case !answered:
		w.need(PinRequest{Key: key, Member: m.Name})
		return ""
	case answer.Revision == "":
		w.unanswered[key] = answer
		return ""
	}
	w.status.Pass.Revisions = append(w.status.Pass.Revisions, v1alpha1.PinnedRevision{
		RepoURL: key.RepoURL, TargetRevision: key.TargetRevision, Revision: answer.Revision,
	})
	return answer.Revision
}

// need asks once per key.
func (w *walk) need(request PinRequest) {
	for _, n := range w.needs {
		if n.Key == request.Key {
			return
		}
	}
	w.needs = append(w.needs, request)
}

// seconds is the present time as the API keeps it.
func (w *walk) seconds() metav1.Time { return metav1.NewTime(w.now.Truncate(time.Second)) }
