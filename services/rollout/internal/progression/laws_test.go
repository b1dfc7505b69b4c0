package progression

import (
	"fmt"
	"testing"

	"magosproject.io/api/v1alpha1"
)

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
	case !moving && s.result == v1alpha1.PassAborted:
		t.Fatalf("w%d is granted %+v after an abort", i, g)
	case (s.paused || s.closed) && !m.live():
		t.Fatalf("w%d is granted %+v under a pause or outside of the windows, and nothing of it has begun", i, g)
	case g.scope == v1alpha1.ScopeDrift:
		if g.rev != m.appliedRev && !m.run.drift {
			t.Fatalf("a drift grant for another commit than the applied one: w%d %+v", i, m)
		}
	case !moving || stepOf(i) != int(s.step):
		between := !moving || s.awaits() || s.config.soak && s.complete()
		if !between || !m.run.drift || m.run.phase != v1alpha1.RunPlanned && m.run.phase != v1alpha1.RunApplying {
			t.Fatalf("w%d of step %d may run outside of step %d without drift: %+v", i, stepOf(i), s.step, *s)
		}
	case m.run.drift && m.live() && g.rev == m.run.rev:
		// What a drift plan found is applied at the commit that is in force.
	case s.awaits():
		t.Fatalf("w%d may run before step %d is approved", i, s.step)
	default:
		s.checkEarlierSteps(t, i, g.rev)
	}
}

// checkSoak holds that no step in which something ran is left before its soak has passed without a drift that anybody knows of.
func (s *simState) checkSoak(t *testing.T, next *v1alpha1.RolloutStatus) {
	t.Helper()
	left := next.Pass.ID == passID && (next.CurrentStep > int32(s.step) || next.Pass.Result == v1alpha1.PassSucceeded || next.Pass.Result == v1alpha1.PassIncomplete)
	if !s.config.soak || !left || s.passState != v1alpha1.RolloutProgressing {
		return
	}
	ran := false
	for _, i := range s.all() {
		m := s.members[i]
		if stepOf(i) != int(s.step) {
			continue
		}
		ran = ran || m.appliedPass == thisPass || m.passedOver
		if m.live() && m.run.drift && m.run.phase != v1alpha1.RunPlanning {
			t.Fatalf("step %d is left while drift was found in w%d: %+v", s.step, i, *s)
		}
	}
	if ran && s.soak != elapsed {
		t.Fatalf("step %d is left before it has soaked: %+v", s.step, *s)
	}
}

// complete reports whether every member of the current step has the commit of the pass, or was passed over.
func (s *simState) complete() bool {
	for _, i := range s.all() {
		if m := s.members[i]; stepOf(i) == int(s.step) && m.appliedRev != s.pin && !m.passedOver {
			return false
		}
	}
	return true
}

func (m simMember) live() bool { return m.run.phase != "" && !m.run.phase.Terminal() }

// awaits reports whether the current step waits for a person.
func (s *simState) awaits() bool {
	return s.config.gate > 0 && s.step == s.config.gate && !s.approved[s.step]
}

// checkEarlierSteps holds that no member of a step is granted a commit before all of the steps before have it, or were passed over.
func (s *simState) checkEarlierSteps(t *testing.T, i int, rev uint8) {
	t.Helper()
	for _, j := range s.all() {
		if stepOf(j) < stepOf(i) && s.members[j].appliedRev != rev && !s.members[j].passedOver {
			t.Fatalf("w%d of step %d is granted commit %d, and w%d of step %d has %d\n%+v", i, stepOf(i), rev, j, stepOf(j), s.members[j].appliedRev, *s)
		}
	}
}

// checkParallel holds that no more members of a step run at a time than maxParallel says.
func (s *simState) checkParallel(t *testing.T) {
	t.Helper()
	for step := range simSteps {
		n := 0
		for _, i := range s.all() {
			if m := s.members[i]; stepOf(i) == step && m.live() && !m.run.drift && m.run.pass == thisPass {
				n++
			}
		}
		if s.config.parallel > 0 && n > int(s.config.parallel) {
			t.Fatalf("%d members of step %d run at a time: %+v", n, step, *s)
		}
	}
}

// checkPassDeadline holds that a pass that is overdue gives no member its first grant, but what has failed before and has to heal.
// A member whose clock counts was to be granted already when the service died.
func (s *simState) checkPassDeadline(t *testing.T, d Decision, next *simState) {
	t.Helper()
	if s.passState != v1alpha1.RolloutProgressing || next.passState != v1alpha1.RolloutProgressing || d.Rollout.Pass.ID != passID {
		return
	}
	for _, i := range s.all() {
		m := s.members[i]
		granted := d.Grants[fmt.Sprintf("w%d", i)].Scope == v1alpha1.ScopeRun
		known := m.clock != notCounting || m.failedRev > 0 || m.grant.pass == thisPass || m.run.pass == thisPass || m.live() || m.appliedRev == s.pin
		if granted && !known && next.clock == elapsed {
			t.Fatalf("w%d is granted, and the pass is overdue: %+v", i, *s)
		}
	}
}

// checkNotCutShort holds that a window that closes takes no grant under which a run of the pass has begun.
func (s *simState) checkNotCutShort(t *testing.T, d Decision) {
	t.Helper()
	if !s.closed || s.paused || s.passState != v1alpha1.RolloutProgressing || d.Rollout.Pass.ID != passID || d.Rollout.Pass.FinishedAt != nil {
		return
	}
	for _, i := range s.all() {
		m := s.members[i]
		if stepOf(i) != int(s.step) || !m.live() || m.run.drift || m.run.pass != thisPass || m.grant.scope != v1alpha1.ScopeRun {
			continue
		}
		if g := d.Grants[fmt.Sprintf("w%d", i)]; g.Scope != v1alpha1.ScopeRun || g.Pass != passID {
			t.Fatalf("the run of w%d is cut short by a window: %+v", i, *s)
		}
	}
}
