package progression

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// soakFor makes a step soak.
func soakFor(length time.Duration) func(*v1alpha1.RolloutStep) {
	return func(s *v1alpha1.RolloutStep) { s.Soak = &metav1.Duration{Duration: length} }
}

// soakedSince says how long before the decision the current step began to soak.
func soakedSince(index int, ago time.Duration) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		r.Status.Steps[index].SoakingSince = &metav1.Time{Time: later.Add(-ago)}
	}
}

// driftFound says that a plan has found drift.
func driftFound(m *v1alpha1.Workspace) {
	m.Status.Drift = &v1alpha1.Drift{DetectedAt: metav1.NewTime(start), Resources: []string{"null_resource.a"}}
}

// ranUntil says that the last run changed something and ended that long before the decision.
func ranUntil(ago time.Duration) option {
	return func(m *v1alpha1.Workspace) {
		run(v1alpha1.RunSucceeded, v1alpha1.TriggerRevision, passID, commitA)(m)
		asked, ended := metav1.NewTime(start), metav1.NewTime(later.Add(-ago))
		m.Status.Run.ApplyRequestedAt, m.Status.Run.FinishedAt = &asked, &ended
	}
}

func TestSoak(t *testing.T) {
	const soakingPhase = v1alpha1.RolloutSoaking
	const length = 10 * time.Minute
	all := []string{"dev", "prod"}
	dev := func(options ...option) *v1alpha1.Workspace {
		return member("d", "dev", append([]option{applied(commitA, passID)}, options...)...)
	}
	prod := member("p", "prod", wants(v1alpha1.TriggerSpec))
	for name, test := range map[string]struct {
		ruleCase
		// since is how long before the decision the soak counts from; -1 for none.
		since   time.Duration
		requeue time.Duration
	}{
		"a step that is done soaks before the next is granted": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length))), members: members(dev(), prod),
			grants: "d Run a", phase: soakingPhase, reason: v1alpha1.ReasonStepSoaking, message: "soaks until 2026-11-30T12:11:00Z",
		}, 0, length},
		"a soak goes on where it was, also after a restart": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, 9*time.Minute)), members: members(dev(), prod),
			grants: "d Run a", phase: soakingPhase, reason: v1alpha1.ReasonStepSoaking, message: "soaks until 2026-11-30T12:02:00Z",
		}, 9 * time.Minute, time.Minute},
		"a soak that has passed lets the pass go on": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, length)), members: members(dev(), prod),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, -1, 0},
		"a step in which nothing ran does not soak": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length))), members: members(member("d", "dev", applied(commitA, "old")), prod),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, -1, 0},
		"drift interrupts it": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, length)), members: members(dev(driftFound), prod),
			grants: "d Run a", phase: soakingPhase, reason: v1alpha1.ReasonSoakInterrupted, message: "drift was found in d",
		}, -1, 0},
		"a look for drift does not": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, length)), members: members(dev(run(v1alpha1.RunPlanning, v1alpha1.TriggerDrift, passID, commitA)), prod),
			grants: "d Drift a, p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, -1, 0},
		"drift that was mended makes it begin anew": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length))), members: members(dev(), prod),
			grants: "d Run a", phase: soakingPhase, reason: v1alpha1.ReasonStepSoaking,
		}, 0, length},
		"so does drift that was mended between two decisions": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, length)), members: members(dev(ranUntil(4*time.Minute)), prod),
			grants: "d Run a", phase: soakingPhase, reason: v1alpha1.ReasonStepSoaking,
		}, 4 * time.Minute, 6 * time.Minute},
		"a failure interrupts it": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, length)), members: members(dev(failedRun(0)), prod),
			grants: "d Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		}, -1, 0},
		"a member that joins interrupts it": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, length)), members: members(dev(), member("e", "dev", wants(v1alpha1.TriggerSpec)), prod),
			grants: "d Run a, e Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, -1, 0},
		"a pause does not": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(length)), soakedSince(0, 9*time.Minute), paused), members: members(dev(), prod),
			phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused,
		}, 9 * time.Minute, time.Minute},
		"the last step soaks before the pass has succeeded": {ruleCase{
			rollout: with(inPass(1, commitA, all...), onStep(1, soakFor(length)), soakedSince(1, time.Minute)), members: members(dev(), member("p", "prod", applied(commitA, passID))),
			grants: "p Run a", phase: soakingPhase, reason: v1alpha1.ReasonStepSoaking, step: 1,
		}, time.Minute, 9 * time.Minute},
		"drift in another step is mended meanwhile": {ruleCase{
			rollout: with(inPass(1, commitA, all...), onStep(1, soakFor(length)), soakedSince(1, time.Minute)),
			members: members(dev(run(v1alpha1.RunPlanned, v1alpha1.TriggerDrift, passID, commitA)), member("p", "prod", applied(commitA, passID))),
			grants:  "d Run a, p Run a", phase: soakingPhase, reason: v1alpha1.ReasonStepSoaking, step: 1,
		}, time.Minute, 9 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			step := d.Rollout.Steps[test.step]
			switch {
			case test.since < 0 && step.SoakingSince != nil:
				t.Errorf("soaks since %s, want not to", step.SoakingSince)
			case test.since >= 0 && (step.SoakingSince == nil || !step.SoakingSince.Time.Equal(later.Add(-test.since))):
				t.Errorf("soaks since %v, want %s before the decision", step.SoakingSince, test.since)
			}
			if test.requeue > 0 && d.Requeue != test.requeue {
				t.Errorf("decides again after %s, want %s", d.Requeue, test.requeue)
			}
		})
	}
}
