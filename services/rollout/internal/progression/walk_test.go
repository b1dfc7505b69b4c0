package progression

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// This file walks every state that a small Rollout (three steps, two members each) can come to when
// Workspaces run, fail and drift, commits arrive, the watcher lags behind, the Rollout is deleted, created and edited, and the
// service dies between any two effects. A state is a comparable value, so that each is visited once.

const (
	simSteps     = 3
	simPerStep   = 2
	simMembers   = simSteps * simPerStep
	simCommitMax = 3
)

// Who a pass ID of the simulation belongs to: all earlier passes are alike.
const (
	noPass = iota
	oldPass
	thisPass
	standingPass
)

// simRun is a run; phase "" means none that matters.
type simRun struct {
	phase v1alpha1.RunPhase
	drift bool
	pass  uint8
	rev   uint8
}

type simGrant struct {
	scope v1alpha1.GrantScope
	pass  uint8
	rev   uint8
}

type simMember struct {
	appliedRev, appliedPass uint8
	failedRev               uint8
	drift                   bool
	run                     simRun
	grant                   simGrant
}

// budget bounds what may still go wrong, so that the walk ends.
type budget struct{ pushes, failures, drifts, toggles, edits uint8 }

type simState struct {
	head, detected uint8
	rollout        bool
	passState      v1alpha1.RolloutPhase // "" none, Progressing, Succeeded (ended)
	step           uint8
	pin            uint8
	specVersion    uint8
	passVersion    uint8
	perStep        int
	members        [simMembers]simMember
	left           budget
}

// all yields the indices of the members that there are.
func (s *simState) all() []int {
	if s.perStep == 1 {
		return []int{0, 2, 4}
	}
	return []int{0, 1, 2, 3, 4, 5}
}

func stepOf(i int) int { return i / simPerStep }

func commitName(rev uint8) string {
	if rev == 0 {
		return ""
	}
	return fmt.Sprintf("%040d", rev)
}

func commitNumber(name string) (rev uint8) {
	if name != "" {
		fmt.Sscanf(name, "%d", &rev)
	}
	return rev
}

func passName(p uint8) string { return [...]string{"", "old", passID, v1alpha1.StandingPass}[p] }

// passNumber reads a pass ID back; current is the one of the status.
func passNumber(name, current string) uint8 {
	switch name {
	case "":
		return noPass
	case current:
		return thisPass
	case v1alpha1.StandingPass:
		return standingPass
	}
	return oldPass
}

func simStepsOf(version uint8) []v1alpha1.RolloutStep {
	steps := stepsOf("0", "1", "2")
	if version == 1 {
		steps[2].Name = "renamed"
	}
	return steps
}

// workspace renders member i as the workspace service would have it.
func (s *simState) workspace(i int) *v1alpha1.Workspace {
	sim := s.members[i]
	m := member(fmt.Sprintf("w%d", i), fmt.Sprint(stepOf(i)), detected(commitName(s.detected)))
	if sim.appliedRev > 0 {
		applied(commitName(sim.appliedRev), passName(sim.appliedPass))(m)
	}
	if sim.run.phase != "" {
		trigger := v1alpha1.TriggerRevision
		if sim.run.drift {
			trigger = v1alpha1.TriggerDrift
		}
		run(sim.run.phase, trigger, passName(sim.run.pass), commitName(sim.run.rev))(m)
		if sim.run.drift && sim.run.phase == v1alpha1.RunSucceeded {
			m.Status.Applied.RunID = m.Status.Run.ID
		}
	}
	if sim.failedRev > 0 {
		failures(commitName(sim.failedRev))(m)
	}
	if g := sim.grant; g.scope != "" {
		maps.Copy(m.Annotations, v1alpha1.Grant{Scope: g.scope, Pass: passName(g.pass), Revision: commitName(g.rev), For: v1alpha1.GrantSubject(m)}.Annotations())
	}
	if trigger := s.wants(i); trigger != "" {
		wants(trigger)(m)
		m.Status.Wants.Revision = commitName(s.target(i))
	}
	return m
}

// grantOf is the grant as the workspace service reads it.
func (s *simState) grantOf(i int) simGrant {
	if s.members[i].grant.scope == "" {
		return simGrant{}
	}
	if _, ok := v1alpha1.ReadGrant(s.workspace(i), s.rollout); !ok {
		return simGrant{}
	}
	return s.members[i].grant
}

// target is the commit that member i would run.
func (s *simState) target(i int) uint8 {
	if g := s.members[i].grant; g.rev > 0 && (g.pass != standingPass) && s.rollout {
		return g.rev
	}
	return s.detected
}

func (s *simState) wants(i int) v1alpha1.Trigger {
	sim := s.members[i]
	switch target := s.target(i); {
	case sim.run.phase != "" && !sim.run.phase.Terminal():
		return ""
	case sim.failedRev == target:
		return v1alpha1.TriggerRetry
	case sim.appliedRev == 0:
		return v1alpha1.TriggerSpec
	case sim.appliedRev != target:
		return v1alpha1.TriggerRevision
	case sim.drift:
		return v1alpha1.TriggerDrift
	}
	return ""
}

func (s *simState) snapshot() Snapshot {
	snap := Snapshot{Project: project(v1alpha1.OrchestrationAuto)}
	for _, i := range s.all() {
		snap.Members = append(snap.Members, s.workspace(i))
	}
	if !s.rollout {
		return snap
	}
	snap.Rollout = rollout(simStepsOf(s.specVersion)...)
	if s.passState == "" {
		return snap
	}
	r := inPass(int(s.step), commitName(s.pin), "0", "1", "2")
	r.Status.Pass.Steps = simStepsOf(s.passVersion)
	if s.passState == v1alpha1.RolloutSucceeded {
		ended := metav1.NewTime(start)
		r.Status.Pass.FinishedAt = &ended
	}
	snap.Rollout.Status = r.Status
	return snap
}

// reconcile carries out what Decide says, in the order of the reconciler, and checks every grant that it gives.
// It returns the state after every effect, the last one with all of them.
func (s simState) reconcile(t *testing.T) ([]simState, Decision) {
	d := Decide(later, s.snapshot())
	s.revoke(d)
	states := []simState{s}
	for range 4 {
		if len(d.NeedPins) == 0 {
			break
		}
		snap := s.snapshot()
		snap.Resolved = resolved(commitName(s.head))
		d = Decide(later, snap)
		s.revoke(d)
		states = append(states, s)
	}
	if len(d.NeedPins) > 0 {
		t.Fatalf("the refwatcher has answered and is asked again: %+v\n%+v", d.NeedPins, s)
	}
	s.record(d)
	states = append(states, s)
	for _, i := range s.all() {
		if s.give(t, d, i) {
			states = append(states, s)
		}
	}
	return append(states, s), d
}

func (s *simState) revoke(d Decision) {
	for i := range s.members {
		if _, ok := d.Grants[fmt.Sprintf("w%d", i)]; !ok {
			s.members[i].grant = simGrant{}
		}
	}
}

// record takes over the status. When a new pass has begun, what belonged to the last one is old.
func (s *simState) record(d Decision) {
	if d.Rollout == nil {
		return
	}
	pass := d.Rollout.Pass
	if pass == nil {
		return
	}
	if pass.ID != passID {
		for i := range s.members {
			m := &s.members[i]
			m.appliedPass, m.run.pass, m.grant.pass = aged(m.appliedPass), aged(m.run.pass), aged(m.grant.pass)
		}
	}
	s.passState = v1alpha1.RolloutProgressing
	if pass.FinishedAt != nil {
		s.passState = v1alpha1.RolloutSucceeded
	}
	s.step, s.pin, s.passVersion = uint8(d.Rollout.CurrentStep), 0, 0
	if len(pass.Revisions) > 0 {
		s.pin = commitNumber(pass.Revisions[0].Revision)
	}
	if pass.Steps[2].Name == "renamed" {
		s.passVersion = 1
	}
}

func aged(pass uint8) uint8 {
	if pass == thisPass {
		return oldPass
	}
	return pass
}

// give writes one grant and reports whether there was anything to write.
func (s *simState) give(t *testing.T, d Decision, i int) bool {
	g, ok := d.Grants[fmt.Sprintf("w%d", i)]
	if !ok {
		return false
	}
	current := ""
	if d.Rollout != nil && d.Rollout.Pass != nil {
		current = d.Rollout.Pass.ID
	}
	want := simGrant{scope: g.Scope, pass: passNumber(g.Pass, current), rev: commitNumber(g.Revision)}
	if want == s.members[i].grant {
		return false
	}
	s.members[i].grant = want
	s.checkGrant(t, i)
	return true
}

// checkGrant holds the laws of granting.
func (s *simState) checkGrant(t *testing.T, i int) {
	t.Helper()
	m := s.members[i]
	g := m.grant
	moving := s.passState == v1alpha1.RolloutProgressing
	switch {
	case !s.rollout:
		if g.pass != standingPass || g.scope != v1alpha1.ScopeRun {
			t.Fatalf("without a Rollout w%d holds %+v", i, g)
		}
	case g.pass == standingPass || g.rev == 0:
		t.Fatalf("two orchestrators: w%d holds %+v under a Rollout", i, g)
	case g.scope == v1alpha1.ScopeDrift:
		if g.rev != m.appliedRev && !m.run.drift {
			t.Fatalf("a drift grant for another commit than the applied one: w%d %+v", i, m)
		}
	case !moving:
		if !m.run.drift || m.run.phase != v1alpha1.RunPlanned && m.run.phase != v1alpha1.RunApplying {
			t.Fatalf("w%d may run between passes without drift: %+v", i, m)
		}
	case stepOf(i) != int(s.step):
		t.Fatalf("w%d of step %d may run in step %d", i, stepOf(i), s.step)
	default:
		s.checkEarlierSteps(t, i, g.rev)
	}
}

// checkEarlierSteps holds that no member of a step is granted a commit before all of the steps before have it.
func (s *simState) checkEarlierSteps(t *testing.T, i int, rev uint8) {
	t.Helper()
	for _, j := range s.all() {
		if stepOf(j) < stepOf(i) && s.members[j].appliedRev != rev {
			t.Fatalf("w%d of step %d is granted commit %d, and w%d of step %d has %d\n%+v", i, stepOf(i), rev, j, stepOf(j), s.members[j].appliedRev, *s)
		}
	}
}

// workspaceMoves returns what the workspace service and its pods can do next for member i.
func (s simState) workspaceMoves(t *testing.T, i int) []simState {
	m, g := s.members[i], s.grantOf(i)
	with := func(change func(*simState, *simMember)) simState {
		next := s
		change(&next, &next.members[i])
		return next
	}
	var moves []simState
	end := func(next *simMember) {
		next.appliedRev, next.appliedPass, next.failedRev, next.drift = m.run.rev, m.run.pass, 0, false
		next.run.phase = v1alpha1.RunSucceeded
	}
	covered := g.scope == v1alpha1.ScopeRun && (g.rev == 0 || g.rev == m.run.rev)
	switch m.run.phase {
	case v1alpha1.RunPlanning:
		switch {
		case m.run.drift:
			moves = append(moves, with(func(_ *simState, n *simMember) { end(n) })) // nothing has drifted
			moves = append(moves, with(func(_ *simState, n *simMember) { n.run.phase = v1alpha1.RunPlanned }))
		case covered:
			moves = append(moves, with(func(_ *simState, n *simMember) { n.run.phase = v1alpha1.RunApplying }))
		default: // parked for good, for the commit that is granted next may be another
			moves = append(moves, with(func(_ *simState, n *simMember) { n.run = simRun{} }))
		}
	case v1alpha1.RunPlanned:
		switch {
		case covered:
			moves = append(moves, with(func(_ *simState, n *simMember) { n.run.phase = v1alpha1.RunApplying }))
		case g.scope != "" && g.rev != m.run.rev:
			moves = append(moves, with(func(_ *simState, n *simMember) { n.run = simRun{} }))
		}
	case v1alpha1.RunApplying:
		moves = append(moves, with(func(_ *simState, n *simMember) { end(n) }))
	default:
		trigger := s.wants(i)
		mayDrift := trigger == v1alpha1.TriggerDrift && g.scope == v1alpha1.ScopeDrift && g.rev == m.appliedRev
		mayRun := trigger != "" && g.scope == v1alpha1.ScopeRun
		if mayDrift || mayRun {
			rev := g.rev
			if rev == 0 {
				rev = s.detected
			}
			if s.rollout && mayRun && trigger != v1alpha1.TriggerDrift && g.pass == thisPass {
				s.checkEarlierSteps(t, i, rev)
			}
			moves = append(moves, with(func(_ *simState, n *simMember) {
				n.run = simRun{phase: v1alpha1.RunPlanning, drift: trigger == v1alpha1.TriggerDrift, pass: g.pass, rev: rev}
			}))
		}
	}
	return moves
}

// mishaps returns what may happen without anybody's plan, within the budget.
func (s simState) mishaps() []simState {
	var all []simState
	add := func(change func(*simState)) {
		next := s
		change(&next)
		all = append(all, next)
	}
	if s.left.pushes > 0 && s.head < simCommitMax {
		add(func(n *simState) { n.head++; n.left.pushes-- })
	}
	if s.left.toggles > 0 {
		add(func(n *simState) {
			n.left.toggles--
			n.rollout = !n.rollout
			n.passState, n.step, n.pin, n.passVersion = "", 0, 0, 0
			for i := range n.members {
				m := &n.members[i]
				m.appliedPass, m.run.pass, m.grant.pass = aged(m.appliedPass), aged(m.run.pass), aged(m.grant.pass)
			}
		})
	}
	if s.left.edits > 0 && s.rollout {
		add(func(n *simState) { n.left.edits--; n.specVersion = 1 - n.specVersion })
	}
	for _, i := range s.all() {
		m := s.members[i]
		if s.left.failures > 0 && (m.run.phase == v1alpha1.RunPlanning || m.run.phase == v1alpha1.RunApplying) && !m.run.drift {
			add(func(n *simState) {
				n.left.failures--
				n.members[i].run.phase, n.members[i].failedRev = v1alpha1.RunFailed, m.run.rev
			})
		}
		if s.left.drifts > 0 && s.wants(i) == "" && m.appliedRev > 0 && (m.run.phase == "" || m.run.phase.Terminal()) {
			add(func(n *simState) { n.left.drifts--; n.members[i].drift = true })
		}
	}
	return all
}

// canonical puts the members of a step, which are alike, into one order, and forgets runs that matter no more.
func (s simState) canonical() simState {
	for i := range s.members {
		m := &s.members[i]
		if m.run.phase == v1alpha1.RunSucceeded && !m.run.drift {
			m.run = simRun{}
		}
	}
	for step := range simSteps {
		if s.perStep == 1 {
			break
		}
		part := s.members[step*simPerStep : (step+1)*simPerStep]
		slices.SortFunc(part, func(a, b simMember) int {
			return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b)))
		})
	}
	return s
}

// settled reports whether everything is as it should be in the end.
func (s simState) settled() bool {
	for _, i := range s.all() {
		m := s.members[i]
		if m.appliedRev != s.head || m.drift || m.run.phase != "" && !m.run.phase.Terminal() {
			return false
		}
	}
	return !s.rollout || s.passState == v1alpha1.RolloutSucceeded || s.passState == ""
}

// goodNext is the next state when nothing goes wrong any more: first the service, then the first Workspace that
// can move, then the watcher. It returns s itself when nothing is left to do.
func (s simState) goodNext(t *testing.T) simState {
	states, d := s.reconcile(t)
	if next := states[len(states)-1].canonical(); next != s {
		return next
	}
	for _, i := range s.all() {
		if moves := s.workspaceMoves(t, i); len(moves) > 0 {
			return moves[0].canonical()
		}
	}
	if s.detected != s.head {
		s.detected = s.head
		return s
	}
	if !s.settled() {
		t.Fatalf("the Rollout stands still: %+v\ndecision %s\nstatus %+v", s, granted(d), d.Rollout)
	}
	return s
}

func TestEveryStateOfASmallRollout(t *testing.T) {
	for name, test := range map[string]struct {
		perStep int
		left    budget
	}{
		"commits and failures":       {2, budget{pushes: 2, failures: 1}},
		"a commit and drift":         {2, budget{pushes: 1, drifts: 1}},
		"edited steps, failures":     {2, budget{edits: 1, failures: 2}},
		"everything, once":           {1, budget{pushes: 1, failures: 1, drifts: 1, edits: 1}},
		"the Rollout comes and goes": {1, budget{toggles: 1, failures: 1, pushes: 1}},
		"hand-over and drift":        {1, budget{toggles: 2, drifts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ordered := range []bool{true, false} {
				if !ordered && test.left.toggles == 0 {
					continue
				}
				visited := visitAll(t, simState{head: 1, detected: 1, rollout: ordered, perStep: test.perStep, left: test.left})
				t.Logf("ordered at first: %v; %d states visited", ordered, len(visited))
				checkEnds(t, visited)
			}
		})
	}
}

// visitAll returns every state that can be reached.
func visitAll(t *testing.T, first simState) map[simState]struct{} {
	visited := map[simState]struct{}{}
	queue := []simState{first.canonical()}
	push := func(s simState) {
		s = s.canonical()
		if _, seen := visited[s]; !seen {
			visited[s] = struct{}{}
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		states, d := s.reconcile(t)
		if s.rollout && d.Rollout.Message == "" {
			t.Fatalf("the Rollout does not say what it does: %+v", s)
		}
		for _, next := range states {
			push(next)
		}
		for _, i := range s.all() {
			for _, next := range s.workspaceMoves(t, i) {
				push(next)
			}
		}
		if s.detected != s.head {
			polled := s
			polled.detected = s.head
			push(polled)
		}
		for _, next := range s.mishaps() {
			push(next)
		}
		if len(visited) > 400_000 {
			t.Fatal("the walk does not end: bound it")
		}
	}
	return visited
}

// checkEnds holds that from every state the Rollout comes to its end when nothing goes wrong any more: every pass
// ends, a halted one resumes, and drift is put right.
func checkEnds(t *testing.T, visited map[simState]struct{}) {
	good := map[simState]bool{}
	for s := range visited {
		var path []simState
		for steps := 0; !good[s]; steps++ {
			path = append(path, s)
			next := s.goodNext(t)
			if next == s {
				break
			}
			if steps > 500 {
				t.Fatalf("the Rollout goes round in circles at %+v", s)
			}
			s = next
		}
		for _, p := range path {
			good[p] = true
		}
	}
}
