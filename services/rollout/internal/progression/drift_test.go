package progression

import (
	"testing"

	"magosproject.io/api/v1alpha1"
)

func TestDriftGrants(t *testing.T) {
	drift := wants(v1alpha1.TriggerDrift)
	driftRun := func(phase v1alpha1.RunPhase, pass string) option {
		return run(phase, v1alpha1.TriggerDrift, pass, commitA)
	}
	all := []string{"dev", "prod"}
	inMidPass := func() *v1alpha1.Rollout { return inPass(1, commitB, all...) }
	between := func() *v1alpha1.Rollout { return afterPass(commitA, all...) }
	prod := member("p", "prod", wants(v1alpha1.TriggerRevision))
	for name, test := range map[string]struct {
		rollout *v1alpha1.Rollout
		dev     *v1alpha1.Workspace
		want    v1alpha1.Grant
	}{
		"a due drift plan in mid-pass, outside the step":         {inMidPass(), member("d", "dev", applied(commitA, "old"), drift), v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: passID, Revision: commitA}},
		"a due drift plan between passes":                        {between(), member("d", "dev", applied(commitA, passID), drift), v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: passID, Revision: commitA}},
		"a due drift plan before the first pass":                 {rollout(stepsOf(all...)...), member("d", "dev", applied(commitA, "standing"), drift), v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: DriftPass, Revision: commitA}},
		"a live drift plan keeps its pass":                       {inMidPass(), member("d", "dev", applied(commitA, "old"), driftRun(v1alpha1.RunPlanning, "old")), v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "old", Revision: commitA}},
		"what a drift plan found waits while a pass moves":       {inMidPass(), member("d", "dev", applied(commitA, "old"), driftRun(v1alpha1.RunPlanned, "old")), v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "old", Revision: commitA}},
		"what a drift plan found is applied between passes":      {between(), member("d", "dev", applied(commitA, passID), driftRun(v1alpha1.RunPlanned, passID)), v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: passID, Revision: commitA}},
		"a drift plan that began under a standing grant":         {between(), member("d", "dev", applied(commitA, passID), driftRun(v1alpha1.RunPlanning, "standing")), v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: passID, Revision: commitA}},
		"a drift plan that ended has its grant taken":            {between(), member("d", "dev", applied(commitA, passID), driftRun(v1alpha1.RunSucceeded, passID)), v1alpha1.Grant{}},
		"a member that was never applied has nothing to compare": {between(), member("d", "dev", drift), v1alpha1.Grant{}},
	} {
		t.Run(name, func(t *testing.T) {
			ms := members(test.dev)
			if test.rollout.Status.Pass == nil || test.rollout.Status.Pass.FinishedAt == nil {
				ms = members(test.dev, prod)
			}
			if test.rollout.Status.Pass == nil {
				ms = members(test.dev, member("p", "prod", applied(commitA, "standing")))
			}
			d := Decide(later, Snapshot{Project: project(""), Rollout: test.rollout, Members: ms})
			want := test.want
			if want.Scope != "" {
				want.For = v1alpha1.GrantSubject(test.dev)
			}
			if d.Grants["d"] != want {
				t.Errorf("granted %+v, want %+v", d.Grants["d"], want)
			}
		})
	}
}
