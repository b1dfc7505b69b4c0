package progression

import (
	"fmt"
	"slices"
	"testing"

	"magosproject.io/api/v1alpha1"
)

// This file walks every state that a small Rollout (three steps, two members each) can come to when
// Workspaces run, fail and drift, commits arrive, the watcher lags behind, the Rollout is deleted, created and edited, and the
// service dies between any two effects. A state is a comparable value, so that each is visited once.

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
		next.appliedRev, next.appliedVars, next.failedRev, next.drift = m.run.rev, m.run.vars, 0, false
		if !m.run.drift {
			next.appliedPass = m.run.pass
		}
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
		if next, does := s.begins(i, g); does {
			if s.rollout && !next.drift && g.pass == thisPass {
				s.checkEarlierSteps(t, i, next.rev)
			}
			moves = append(moves, with(func(_ *simState, n *simMember) { n.run = next }))
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
	if s.left.rotations > 0 {
		add(func(n *simState) { n.vars++; n.left.rotations-- })
	}
	if s.left.toggles > 0 {
		add(func(n *simState) {
			n.left.toggles--
			n.rollout = !n.rollout
			n.passState, n.result, n.step, n.pin, n.passVersion, n.approved, n.soak, n.clock = "", "", 0, 0, 0, [simSteps]bool{}, notCounting, notCounting
			n.age()
			n.abort, n.retry, n.approve, n.paused = simCommand{}, simCommand{}, simCommand{}, false
			n.closed = false
			for i := range n.members {
				n.members[i].attempt, n.members[i].passedOver, n.members[i].clock = 0, false, notCounting
			}
		})
	}
	if s.left.edits > 0 && s.rollout {
		add(func(n *simState) { n.left.edits--; n.specVersion = 1 - n.specVersion })
	}
	all = append(all, s.people()...)
	all = append(all, s.tooSlow()...)
	for _, i := range s.all() {
		m := s.members[i]
		if s.left.failures > 0 && (m.run.phase == v1alpha1.RunPlanning || m.run.phase == v1alpha1.RunApplying) && !m.run.drift {
			add(func(n *simState) {
				n.left.failures--
				n.members[i].run.phase, n.members[i].failedRev = v1alpha1.RunFailed, m.run.rev
			})
		}
		if wanted, _ := s.wants(i); s.left.drifts > 0 && wanted == "" && m.appliedRev > 0 && (m.run.phase == "" || m.run.phase.Terminal()) {
			add(func(n *simState) { n.left.drifts--; n.members[i].drift = true })
		}
	}
	return all
}

// people returns what may be asked of the Rollout, within the budget. An approval is asked for, so that it costs nothing.
func (s simState) people() []simState {
	if !s.rollout {
		return nil
	}
	var all []simState
	add := func(change func(*simState)) {
		next := s
		change(&next)
		all = append(all, next)
	}
	if s.left.pauses > 0 && !s.paused {
		add(func(n *simState) { n.paused = true; n.left.pauses-- })
	}
	if s.paused {
		add(func(n *simState) { n.paused = false })
	}
	if s.left.closings > 0 && !s.closed {
		add(func(n *simState) { n.closed = true; n.left.closings-- })
	}
	present := simCommand{thisPass, s.step}
	if s.passState == v1alpha1.RolloutProgressing && s.awaits() && s.approve == (simCommand{}) {
		add(func(n *simState) { n.approve = present })
	}
	if s.passState != "" && s.left.aborts > 0 {
		add(func(n *simState) { n.abort = present; n.left.aborts-- })
	}
	if s.passState != "" && s.left.retries > 0 {
		add(func(n *simState) { n.retry = present; n.left.retries-- })
	}
	return all
}

// helped is what a person does who wants the Rollout to go on; ok is false where it needs nobody.
func (s simState) helped() (next simState, ok bool) {
	present := simCommand{thisPass, s.step}
	switch {
	case !s.rollout:
		return s, false
	case s.paused:
		s.paused = false
	case s.passState == v1alpha1.RolloutProgressing && s.awaits():
		s.approve = present
	case s.passState == v1alpha1.RolloutProgressing && s.clock == elapsed:
		s.retry = present
	case s.passState == v1alpha1.RolloutSucceeded && s.result != v1alpha1.PassSucceeded:
		s.retry = present
	default:
		return s, false
	}
	return s, true
}

// canonical puts the members of a step, which are alike, into one order, and forgets runs that matter no more.
func (s simState) canonical() simState {
	for i := range s.members {
		m := &s.members[i]
		if m.run.phase == v1alpha1.RunSucceeded {
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
		if m.appliedRev != s.head || m.appliedVars != s.vars || m.drift || m.run.phase != "" && !m.run.phase.Terminal() {
			return false
		}
	}
	return !s.rollout || s.passState == v1alpha1.RolloutSucceeded && s.result == v1alpha1.PassSucceeded || s.passState == ""
}

// goodNext is the next state when nothing goes wrong any more: first the service, then the first Workspace that
// can move, then the watcher. It returns s itself when nothing is left to do.
// visited has what the service makes of a state, where that is known.
func (s simState) goodNext(t *testing.T, visited map[simState]simState) simState {
	next, known := visited[s]
	if !known {
		states, _ := s.reconcile(t)
		next = states[len(states)-1].canonical()
	}
	if next != s {
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
	if later := s.passing(); len(later) > 0 {
		return later[0]
	}
	if helped, ok := s.helped(); ok && !s.settled() {
		return helped
	}
	if !s.settled() {
		_, d := s.reconcile(t)
		t.Fatalf("the Rollout stands still: %+v\ndecision %s\nstatus %+v", s, granted(d), d.Rollout)
	}
	return s
}

func TestEveryStateOfASmallRollout(t *testing.T) {
	for name, test := range map[string]struct {
		perStep int
		left    budget
		config  simConfig
	}{
		"commits and failures":       {2, budget{pushes: 2, failures: 1}, simConfig{}},
		"a commit and drift":         {2, budget{pushes: 1, drifts: 1}, simConfig{}},
		"edited steps, failures":     {2, budget{edits: 1, failures: 2}, simConfig{}},
		"everything, once":           {1, budget{pushes: 1, failures: 1, drifts: 1, edits: 1}, simConfig{}},
		"the Rollout comes and goes": {1, budget{toggles: 1, failures: 1, pushes: 1}, simConfig{}},
		"hand-over and drift":        {1, budget{toggles: 2, drifts: 1}, simConfig{}},
		"one at a time":              {2, budget{pushes: 1, failures: 1}, simConfig{parallel: 1}},
		"one at a time, going on":    {2, budget{failures: 2}, simConfig{parallel: 1, onFailure: v1alpha1.FailureContinue}},
		"failures passed over":       {1, budget{pushes: 1, failures: 2, retries: 1}, simConfig{onFailure: v1alpha1.FailureContinue}},
		"failures retried":           {1, budget{pushes: 1, failures: 3, retries: 1}, simConfig{onFailure: v1alpha1.FailureRetry, retries: 1}},
		"failures abort":             {1, budget{pushes: 1, failures: 2}, simConfig{onFailure: v1alpha1.FailureAbort}},
		"people abort and retry":     {1, budget{pushes: 1, failures: 1, aborts: 1, retries: 1}, simConfig{}},
		"people pause and abort":     {1, budget{pushes: 1, pauses: 1, aborts: 1, drifts: 1}, simConfig{}},
		"a rotation and a commit":    {1, budget{pushes: 1, rotations: 1}, simConfig{gate: 2}},
		"rotations and drift":        {1, budget{rotations: 2, drifts: 1}, simConfig{}},
		"an approval":                {1, budget{pushes: 1, failures: 1, drifts: 1}, simConfig{gate: 2}},
		"a soak, failure, drift":     {1, budget{failures: 1, drifts: 1}, simConfig{soak: true}},
		"a soak, a commit, a pause":  {1, budget{pushes: 1, pauses: 1}, simConfig{soak: true, gate: 2}},
		"deadlines":                  {1, budget{pushes: 1, failures: 1, lates: 2}, simConfig{deadlines: true}},
		"deadlines, one at a time":   {2, budget{lates: 2}, simConfig{deadlines: true, parallel: 1}},
		"deadlines passed over":      {1, budget{lates: 2}, simConfig{deadlines: true, onFailure: v1alpha1.FailureContinue}},
		"deadlines and retries":      {1, budget{failures: 1, lates: 2, pauses: 1}, simConfig{deadlines: true, onFailure: v1alpha1.FailureRetry, retries: 1}},
		"deadlines abort":            {1, budget{lates: 2}, simConfig{deadlines: true, onFailure: v1alpha1.FailureAbort}},
		"windows":                    {2, budget{pushes: 1, closings: 1}, simConfig{windows: true, parallel: 1}},
		"windows, soak, drift":       {1, budget{drifts: 1, failures: 1, closings: 1}, simConfig{windows: true, soak: true, gate: 1}},
		"commits begin anew":         {1, budget{pushes: 2, failures: 1}, simConfig{restart: true}},
		"commits begin anew, drift":  {1, budget{pushes: 1, drifts: 1, pauses: 1}, simConfig{restart: true, gate: 1}},
		"an approval and an abort":   {1, budget{edits: 1, aborts: 1, pauses: 1, failures: 1}, simConfig{gate: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ordered := range []bool{true, false} {
				if !ordered && test.left.toggles == 0 {
					continue
				}
				visited := visitAll(t, simState{head: 1, detected: 1, rollout: ordered, perStep: test.perStep, left: test.left, config: test.config})
				t.Logf("ordered at first: %v; %d states visited", ordered, len(visited))
				checkEnds(t, visited)
			}
		})
	}
}

// visitAll returns every state that can be reached, and what the service makes of it.
func visitAll(t *testing.T, first simState) map[simState]simState {
	visited := map[simState]simState{}
	queue := []simState{first.canonical()}
	push := func(s simState) {
		s = s.canonical()
		if _, seen := visited[s]; !seen {
			visited[s] = s
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		states, d := s.reconcile(t)
		s.checkParallel(t)
		if s.rollout && d.Rollout.Message == "" {
			t.Fatalf("the Rollout does not say what it does: %+v", s)
		}
		visited[s] = states[len(states)-1].canonical()
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
		for _, next := range s.passing() {
			push(next)
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
func checkEnds(t *testing.T, visited map[simState]simState) {
	good := map[simState]bool{}
	for s := range visited {
		var path []simState
		for steps := 0; !good[s]; steps++ {
			path = append(path, s)
			next := s.goodNext(t, visited)
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
