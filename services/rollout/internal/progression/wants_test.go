package progression

import (
	"fmt"
	"testing"

	"magosproject.io/api/v1alpha1"
)

// What the workspace service says that a member of the walk wants, as lifecycle.wanted and lifecycle.schedule have it.

// fingerprint is of inputs that differ in nothing but their variables.
func fingerprint(vars uint8) string { return fmt.Sprintf("spec-%d", vars) }

// target is the commit that a run of member i would use.
func (s *simState) target(i int) uint8 {
	if g := s.members[i].grant; g.rev > 0 && (g.pass != standingPass) && s.rollout {
		return g.rev
	}
	return s.detected
}

// triggerAt is why member i would run if target were the commit to use. Where several things differ it names the commit before the variables.
func (s *simState) triggerAt(i int, target uint8) v1alpha1.Trigger {
	switch sim := s.members[i]; {
	case sim.failedRev == target && !sim.live():
		return v1alpha1.TriggerRetry
	case sim.appliedRev == 0:
		return v1alpha1.TriggerSpec
	case sim.appliedRev != target:
		return v1alpha1.TriggerRevision
	case sim.appliedVars != s.vars:
		return v1alpha1.TriggerVariables
	case sim.live() && !sim.run.drift:
		return v1alpha1.TriggerRevision
	case sim.live() || sim.drift:
		return v1alpha1.TriggerDrift
	}
	return ""
}

// wants is what status says, and of which commit: the detected one, and that of the grant only where nothing is wanted at the detected one.
func (s *simState) wants(i int) (v1alpha1.Trigger, uint8) {
	trigger, rev := s.triggerAt(i, s.detected), s.detected
	if target := s.target(i); s.members[i].grant.scope == v1alpha1.ScopeRun && (trigger == "" || trigger == v1alpha1.TriggerDrift) {
		if t := s.triggerAt(i, target); t != "" && t != v1alpha1.TriggerDrift {
			return t, target
		}
	}
	if trigger == v1alpha1.TriggerDrift {
		rev = s.members[i].appliedRev
	}
	return trigger, rev
}

// begins is the run that begins under grant g, and whether one does.
func (s *simState) begins(i int, g simGrant) (simRun, bool) {
	m := s.members[i]
	wanted, _ := s.wants(i)
	run := simRun{phase: v1alpha1.RunPlanning, pass: g.pass, rev: s.target(i), attempt: g.attempt, vars: s.vars}
	switch {
	case wanted == "" || g.scope == "":
		return simRun{}, false
	case wanted == v1alpha1.TriggerDrift:
		run.drift, run.rev = true, m.appliedRev
		return run, g.rev == m.appliedRev || g.scope == v1alpha1.ScopeRun && g.rev == 0
	case g.scope != v1alpha1.ScopeRun:
		return simRun{}, false
	}
	if t := s.triggerAt(i, run.rev); t == "" || t == v1alpha1.TriggerDrift {
		return run, m.appliedPass != g.pass // else it is done in this pass, and what is newer waits for the next one
	}
	return run, true
}

// checkLeft holds that a step is left only when each of its members was brought to the commit of the pass by the pass itself, or is in
// line with all that there is to apply at this commit, or was passed over.
func (s *simState) checkLeft(t *testing.T, d Decision) {
	t.Helper()
	if d.Rollout == nil || d.Rollout.Pass == nil || d.Rollout.Pass.ID != passID || s.passState != v1alpha1.RolloutProgressing {
		return
	}
	left := int(d.Rollout.CurrentStep)
	if r := d.Rollout.Pass.Result; r == v1alpha1.PassSucceeded || r == v1alpha1.PassIncomplete {
		left++
	}
	for _, i := range s.all() {
		m := s.members[i]
		if stepOf(i) < int(s.step) || stepOf(i) >= left || isPassedOver(d, i) {
			continue
		}
		pin := commitNumber(d.Rollout.Pass.Revisions[0].Revision)
		if m.appliedRev != pin || m.appliedPass != thisPass && m.appliedVars != s.vars {
			t.Fatalf("step %d is left at commit %d and variables %d, and w%d has %d and %d, which the pass has not brought\n%+v", stepOf(i), pin, s.vars, i, m.appliedRev, m.appliedVars, *s)
		}
	}
}

func isPassedOver(d Decision, i int) bool {
	for _, name := range d.Rollout.Steps[stepOf(i)].PassedOver {
		if name == fmt.Sprintf("w%d", i) {
			return true
		}
	}
	return false
}

// TestChangedVariablesAreNotHiddenByANewCommit: the step, and its approval, would be passed over, and prod be the first to run with them.
func TestChangedVariablesAreNotHiddenByANewCommit(t *testing.T) {
	const progressing = v1alpha1.RolloutProgressing
	spec, all := wants(v1alpha1.TriggerSpec), []string{"dev", "prod"}
	// wantsBoth is what the workspace service says where a commit is new and a variable has changed.
	wantsBoth := func(m *v1alpha1.Workspace) {
		m.Status.Applied.Fingerprint = "spec-old"
		m.Status.Wants = &v1alpha1.Want{Trigger: v1alpha1.TriggerRevision, Revision: commitB, Fingerprint: "spec-new"}
	}
	for name, c := range map[string]ruleCase{
		"changed variables are owed though a newer commit is all that the want names": {
			rollout: inPass(0, commitA, all...),
			members: members(member("d", "dev", applied(commitA, "old"), detected(commitB), wantsBoth), member("p", "prod", spec)),
			grants:  "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "waits for d",
		},
		"changed variables begin a pass though the remote does not confirm the newer commit": {
			rollout: afterPass(commitA, all...), resolved: resolved(commitA),
			members: members(member("d", "dev", applied(commitA, passID), detected(commitB), wantsBoth), member("p", "prod", applied(commitA, passID))),
			grants:  "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "waits for d",
		},
		"variables that cannot be known yet are not taken for changed ones": {
			rollout: inPass(0, commitA, all...),
			members: members(member("d", "dev", applied(commitA, "old"), detected(commitB), wantsBoth, func(m *v1alpha1.Workspace) { m.Status.Wants.Fingerprint = "spec-" }), member("p", "prod", spec)),
			grants:  "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}
