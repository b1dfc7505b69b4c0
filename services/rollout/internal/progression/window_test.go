package progression

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

func window(kind v1alpha1.WindowKind, cron string, duration time.Duration, zone string) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		r.Spec.Strategy.Windows = append(r.Spec.Strategy.Windows, v1alpha1.RolloutWindow{Kind: kind, Cron: cron, Duration: metav1.Duration{Duration: duration}, Zone: zone})
	}
}

func holding(scope v1alpha1.GrantScope, commit string) option {
	return func(m *v1alpha1.Workspace) {
		for name, value := range (v1alpha1.Grant{Scope: scope, Pass: passID, Revision: commit, For: v1alpha1.GrantSubject(m)}).Annotations() {
			m.Annotations[name] = value
		}
	}
}

// The decision is at 12:01 UTC on Monday, 30 November 2026.
func TestWindows(t *testing.T) {
	const waiting = v1alpha1.RolloutWaiting
	closed := window(v1alpha1.WindowDeny, "0 12 * * MON", 2*time.Hour, "Europe/London")
	open := window(v1alpha1.WindowAllow, "0 12 * * MON", 2*time.Hour, "Europe/London")
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	prod := member("p", "prod", spec)
	dev := func(options ...option) *v1alpha1.Workspace { return member("d", "dev", options...) }
	for name, test := range map[string]struct {
		ruleCase
		// opens says in how long status.opensAt is; 0 for not at all.
		opens   time.Duration
		requeue time.Duration
	}{
		"no pass begins outside of the windows": {ruleCase{
			rollout: with(rollout(stepsOf(all...)...), closed), members: members(dev(spec), prod),
			phase: waiting, reason: v1alpha1.ReasonAwaitingWindow, message: "until the windows open at 2026-11-30T14:00:00Z",
		}, 119 * time.Minute, 119 * time.Minute},
		"nor is a Workspace granted in one that moves": {ruleCase{
			rollout: with(inPass(0, commitA, all...), closed), members: members(dev(spec), prod),
			phase: waiting, reason: v1alpha1.ReasonAwaitingWindow, message: "waits for d",
		}, 119 * time.Minute, 119 * time.Minute},
		"a grant that nothing has begun under is taken": {ruleCase{
			rollout: with(inPass(0, commitA, all...), closed), members: members(dev(spec, holding(v1alpha1.ScopeRun, commitA)), prod),
			phase: waiting, reason: v1alpha1.ReasonAwaitingWindow,
		}, 119 * time.Minute, 0},
		"what has begun is not cut short": {ruleCase{
			rollout: with(inPass(0, commitA, all...), closed), members: members(dev(run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, passID, commitA)), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, 119 * time.Minute, 0},
		"nor is the mending of drift": {ruleCase{
			rollout: with(afterPass(commitA, all...), closed),
			members: members(dev(applied(commitA, passID), run(v1alpha1.RunApplying, v1alpha1.TriggerDrift, passID, commitA), holding(v1alpha1.ScopeRun, commitA)), member("p", "prod", applied(commitA, passID))),
			grants:  "d Run a", phase: v1alpha1.RolloutSucceeded, reason: v1alpha1.ReasonPassSucceeded, step: 1,
		}, 119 * time.Minute, 0},
		"drift that was found is not mended before": {ruleCase{
			rollout: with(afterPass(commitA, all...), closed),
			members: members(dev(applied(commitA, passID), run(v1alpha1.RunPlanned, v1alpha1.TriggerDrift, passID, commitA), holding(v1alpha1.ScopeDrift, commitA)), member("p", "prod", applied(commitA, passID))),
			grants:  "d Drift a", phase: v1alpha1.RolloutSucceeded, reason: v1alpha1.ReasonPassSucceeded, step: 1,
		}, 119 * time.Minute, 0},
		"the next step is reached, and waits": {ruleCase{
			rollout: with(inPass(0, commitA, all...), closed), members: members(dev(applied(commitA, passID)), prod),
			phase: waiting, reason: v1alpha1.ReasonAwaitingWindow, step: 1, message: "waits for p",
		}, 119 * time.Minute, 0},
		"an approval can be given meanwhile": {ruleCase{
			rollout: with(inPass(1, commitA, all...), onStep(1, requireApproval), closed), members: members(dev(applied(commitA, passID)), prod),
			phase: v1alpha1.RolloutAwaitingApproval, reason: v1alpha1.ReasonAwaitingStepApproval, step: 1, message: "until the windows open",
		}, 119 * time.Minute, 0},
		"a failure is still a failure": {ruleCase{
			rollout: with(inPass(0, commitA, all...), closed), members: members(dev(failedRun(0)), prod),
			phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		}, 119 * time.Minute, 0},
		"an aborted pass stays aborted": {ruleCase{
			rollout: with(afterPass(commitA, all...), endedAs(v1alpha1.PassAborted), closed), members: members(dev(spec), prod),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}, 119 * time.Minute, 0},
		"a soak goes on": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, soakFor(time.Hour)), closed), members: members(dev(applied(commitA, passID)), prod),
			phase: v1alpha1.RolloutSoaking, reason: v1alpha1.ReasonStepSoaking,
		}, 119 * time.Minute, time.Hour},
		"while they are open it goes on, and looks again when they close": {ruleCase{
			rollout: with(inPass(0, commitA, all...), open), members: members(dev(spec), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, 0, 119 * time.Minute},
		"a zone that nobody knows opens nothing": {ruleCase{
			rollout: with(inPass(0, commitA, all...), window(v1alpha1.WindowDeny, "0 8 * * *", time.Hour, "Europe/Berlni")), members: members(dev(spec), prod),
			phase: failedPhase, reason: v1alpha1.ReasonInvalidSpec, message: "such as Europe/Berlin",
		}, 0, 0},
		"windows that never open say so": {ruleCase{
			rollout: with(inPass(0, commitA, all...), open, window(v1alpha1.WindowDeny, "0 0 * * *", 24*time.Hour, "")), members: members(dev(spec), prod),
			phase: failedPhase, reason: v1alpha1.ReasonInvalidSpec, message: "do not open within five years",
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			switch opens := d.Rollout.OpensAt; {
			case test.opens == 0 && opens != nil:
				t.Errorf("opens at %s, want nothing said", opens)
			case test.opens > 0 && (opens == nil || !opens.Time.Equal(later.Add(test.opens))):
				t.Errorf("opens at %v, want in %s", opens, test.opens)
			}
			if test.requeue > 0 && d.Requeue != test.requeue {
				t.Errorf("decides again after %s, want %s", d.Requeue, test.requeue)
			}
		})
	}
}

func TestWindowThatCannotBeUnderstoodIsAnnounced(t *testing.T) {
	r := with(inPass(0, commitA, "dev"), window(v1alpha1.WindowAllow, "0 8 * * *", time.Hour, "Mars/Olympus"))
	d := Decide(later, Snapshot{Project: project(""), Rollout: r, Members: members(member("d", "dev", wants(v1alpha1.TriggerSpec)))})
	if got := told(d); got != v1alpha1.ReasonInvalidSpec || !d.Events[len(d.Events)-1].Warning {
		t.Errorf("told %q, want a warning InvalidSpec", got)
	}
	if c := d.Rollout.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != v1alpha1.ReasonInvalidSpec {
		t.Errorf("conditions %+v, want Ready to be False", c)
	}
}
