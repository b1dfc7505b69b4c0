package progression

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"magosproject.io/api/v1alpha1"
)

// clockOf says how long before the decision the clock of a member began.
func clockOf(index int, name string, ago time.Duration) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		r.Status.Steps[index].Members = append(r.Status.Steps[index].Members, v1alpha1.RolloutStepMember{Name: name, Since: &metav1.Time{Time: later.Add(-ago)}})
	}
}

// stoppedClock says how much of its time a member had used when its clock was stopped.
func stoppedClock(index int, name string, spent time.Duration) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		r.Status.Steps[index].Members = append(r.Status.Steps[index].Members, v1alpha1.RolloutStepMember{Name: name, Spent: &metav1.Duration{Duration: spent}})
	}
}

func within(length time.Duration) func(*v1alpha1.RolloutStep) {
	return func(s *v1alpha1.RolloutStep) { s.WorkspaceDeadline = &metav1.Duration{Duration: length} }
}

func awaitsSince(ago time.Duration) option {
	return func(m *v1alpha1.Workspace) {
		run(v1alpha1.RunPlanned, v1alpha1.TriggerSpec, passID, commitA)(m)
		m.Status.AwaitingApproval = &v1alpha1.AwaitingApproval{RunID: m.Status.Run.ID, Since: metav1.NewTime(later.Add(-ago))}
	}
}

func suspended(m *v1alpha1.Workspace) { m.Spec.Suspend = true }

func TestWorkspaceDeadline(t *testing.T) {
	const hour = time.Hour
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	prod := member("p", "prod", spec)
	planning := run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, passID, commitA)
	const exceeded = v1alpha1.ReasonWorkspaceDeadlineExceeded
	for name, test := range map[string]struct {
		ruleCase
		// deadline of the step, from the decision on; 0 for none.
		deadline time.Duration
		attempt  int32
	}{
		"it counts from the grant": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour))), members: members(member("d", "dev", spec), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, hour, 0},
		"24 hours by default": {ruleCase{
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", spec), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, 24 * hour, 0},
		"and goes on after a restart": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", 40*time.Minute)), members: members(member("d", "dev", planning), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, 20 * time.Minute, 0},
		"the first deadline is told": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", 40*time.Minute), clockOf(0, "e", 50*time.Minute)),
			members: members(member("d", "dev", planning), member("e", "dev", planning), prod),
			grants:  "d Run a, e Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, 10 * time.Minute, 0},
		"what is done has no deadline": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), onStep(0, soakFor(hour)), clockOf(0, "d", hour)), members: members(member("d", "dev", applied(commitA, passID)), prod),
			grants: "d Run a", phase: v1alpha1.RolloutSoaking, reason: v1alpha1.ReasonStepSoaking,
		}, 0, 0},
		"an overdue member halts, and may still come to its end": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", hour)), members: members(member("d", "dev", planning), member("e", "dev", spec), prod),
			grants: "d Run a", phase: failedPhase, reason: exceeded, message: "d is overdue (workspaceDeadline 1h0m0s)",
		}, 0, 0},
		"one that has not begun keeps its grant": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", 2*hour)), members: members(member("d", "dev", spec), prod),
			grants: "d Run a", phase: failedPhase, reason: exceeded,
		}, -hour, 0},
		"the pass goes on when it is applied after all": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", hour)), members: members(member("d", "dev", applied(commitA, passID)), prod),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, 24 * hour, 0},
		"Continue passes it over, also while it runs": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), onStep(0, stepAction(v1alpha1.FailureContinue, 0)), clockOf(0, "d", hour)), members: members(member("d", "dev", planning), prod),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1, message: "a run that began earlier is let end in d",
		}, 24 * hour, 0},
		"Abort ends the pass": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), strategyAction(v1alpha1.FailureAbort, 0), clockOf(0, "d", hour)), members: members(member("d", "dev", planning), prod),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, message: "d is overdue",
		}, 0, 0},
		"Retry gives it its time again": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), strategyAction(v1alpha1.FailureRetry, 1), clockOf(0, "d", hour)), members: members(member("d", "dev", spec), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, hour, 1},
		"as often as it says": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), strategyAction(v1alpha1.FailureRetry, 1), clockOf(0, "d", hour), func(r *v1alpha1.Rollout) { r.Status.Steps[0].Members[0].Attempt = 1 }),
			members: members(member("d", "dev", spec), prod),
			grants:  "d Run a", phase: failedPhase, reason: exceeded,
		}, 0, 1},
		"a person's retry gives it its time again": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", hour), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")), members: members(member("d", "dev", spec), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, hour, 1},
		"a failed attempt's successor has all of the time": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), strategyAction(v1alpha1.FailureRetry, 1), clockOf(0, "d", 50*time.Minute)), members: members(member("d", "dev", failedRun(0)), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, hour, 1},
		"the clock stops while a person is waited for": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", 48*hour)), members: members(member("d", "dev", awaitsSince(48*hour-30*time.Minute)), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, message: "approve the plan of d",
		}, 0, 0},
		"and goes on from there": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), stoppedClock(0, "d", 45*time.Minute)), members: members(member("d", "dev", run(v1alpha1.RunApplying, v1alpha1.TriggerSpec, passID, commitA)), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, 15 * time.Minute, 0},
		"a suspended member is not overdue": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour))), members: members(member("d", "dev", spec, suspended), prod),
			phase: progressingPhase, reason: v1alpha1.ReasonMemberSuspended,
		}, 0, 0},
		"a pause that takes the grant ends the clock": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(hour)), clockOf(0, "d", 30*time.Minute), paused), members: members(member("d", "dev", spec), prod),
			phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused,
		}, 0, 0},
		"zero came around admission": {ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, within(0))), members: members(member("d", "dev", spec), prod),
			phase: failedPhase, reason: v1alpha1.ReasonInvalidSpec, message: "write a time above zero",
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			got := d.Rollout.Steps[test.step].Deadline
			overdue := test.reason == exceeded && test.deadline == 0
			switch {
			case test.deadline == 0 && !overdue && got != nil:
				t.Errorf("deadline %s, want none", got)
			case (test.deadline != 0 || overdue) && (got == nil || !got.Time.Equal(later.Add(test.deadline))):
				t.Errorf("deadline %v, want %s from the decision", got, test.deadline)
			}
			if test.deadline > 0 && d.Requeue != test.deadline {
				t.Errorf("decides again after %s, want %s", d.Requeue, test.deadline)
			}
			if got := attemptOf(d, "d"); got != test.attempt {
				t.Errorf("attempt %d, want %d", got, test.attempt)
			}
		})
	}
}

func TestClockThatStopsKeepsWhatWasSpent(t *testing.T) {
	r := with(inPass(0, commitA, "dev", "prod"), clockOf(0, "d", 3*time.Hour))
	ms := members(member("d", "dev", awaitsSince(time.Hour)), member("p", "prod"))
	d := Decide(later, Snapshot{Project: project(""), Rollout: r, Members: ms})
	e := d.Rollout.Steps[0].Members
	if len(e) != 1 || e[0].Since != nil || e[0].Spent == nil || e[0].Spent.Duration != 2*time.Hour {
		t.Errorf("members %+v, want two hours spent", e)
	}
}

// takes gives the pass that long, of which ago have passed.
func takes(length, ago time.Duration) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		r.Spec.Strategy.ProgressDeadline = &metav1.Duration{Duration: length}
		r.Status.Pass.StartedAt = metav1.NewTime(later.Add(-ago))
	}
}

func TestProgressDeadline(t *testing.T) {
	const hour = time.Hour
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	dev, prod := member("d", "dev", spec), member("p", "prod", spec)
	const exceeded = v1alpha1.ReasonProgressDeadlineExceeded
	for name, test := range map[string]struct {
		ruleCase
		// deadline of the pass, from the decision on.
		deadline time.Duration
	}{
		"it counts from the beginning of the pass": {ruleCase{
			rollout: with(inPass(0, commitA, all...), takes(2*hour, hour)), members: members(dev, prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, hour},
		"an overdue pass grants nobody new": {ruleCase{
			rollout: with(inPass(0, commitA, all...), takes(hour, hour)), members: members(dev, prod),
			phase: failedPhase, reason: exceeded, message: "progressDeadline 1h0m0s",
		}, 0},
		"what was granted goes on": {ruleCase{
			rollout: with(inPass(0, commitA, all...), takes(hour, hour)), members: members(member("d", "dev", run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, passID, commitA)), prod),
			grants: "d Run a", phase: failedPhase, reason: exceeded,
		}, 0},
		"and no later step begins": {ruleCase{
			rollout: with(inPass(0, commitA, all...), takes(hour, hour)), members: members(member("d", "dev", applied(commitA, passID)), prod),
			phase: failedPhase, reason: exceeded, step: 1,
		}, 0},
		"a pass that comes to its end has succeeded": {ruleCase{
			rollout: with(inPass(1, commitA, all...), takes(hour, hour)), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", applied(commitA, passID))),
			phase: v1alpha1.RolloutSucceeded, reason: v1alpha1.ReasonPassSucceeded, step: 1,
		}, 0},
		"Abort does not end one that has come to its end, and that nobody looked at in time": {ruleCase{
			rollout: with(inPass(1, commitA, all...), takes(hour, hour), strategyAction(v1alpha1.FailureAbort, 0)), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", applied(commitA, passID))),
			phase: v1alpha1.RolloutSucceeded, reason: v1alpha1.ReasonPassSucceeded, step: 1,
		}, 0},
		"Abort ends it": {ruleCase{
			rollout: with(inPass(0, commitA, all...), takes(hour, hour), strategyAction(v1alpha1.FailureAbort, 0)), members: members(dev, prod),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, message: "its progressDeadline",
		}, 0},
		"a person's retry gives it its time again": {ruleCase{
			rollout: with(inPass(0, commitA, all...), takes(hour, 2*hour), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")), members: members(dev, prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, hour},
		"a new commit takes its place": {ruleCase{
			rollout:  with(inPass(0, commitA, all...), takes(hour, hour)),
			members:  members(member("d", "dev", spec, detected(commitB)), prod),
			resolved: resolved(commitB), grants: "d Run b", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, hour},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			if got := d.Rollout.Pass.Deadline; got == nil || !got.Time.Equal(later.Add(test.deadline)) {
				t.Errorf("deadline %v, want %s from the decision", got, test.deadline)
			}
		})
	}
}

// TestAnOverdueRunKeepsItsPlaceAmongMaxParallel: the pass goes on without it, and not beside it with more than maxParallel says.
func TestAnOverdueRunKeepsItsPlaceAmongMaxParallel(t *testing.T) {
	planning := run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, passID, commitA)
	for name, test := range map[string]struct {
		overdue option
		grants  string
	}{
		"while it runs":      {planning, ""},
		"after it has ended": {failedRun(0), "e Run a"},
	} {
		t.Run(name, func(t *testing.T) {
			c := ruleCase{
				rollout: with(inPass(0, commitA, "dev", "prod"), onStep(0, func(s *v1alpha1.RolloutStep) { s.WorkspaceDeadline = &metav1.Duration{Duration: time.Hour} }),
					onStep(0, stepAction(v1alpha1.FailureContinue, 0)), onStep(0, atMost(intstr.FromInt32(1))), clockOf(0, "d", time.Hour)),
				members: members(member("d", "dev", test.overdue), member("e", "dev", wants(v1alpha1.TriggerSpec)), member("p", "prod", wants(v1alpha1.TriggerSpec))),
				grants:  test.grants, phase: v1alpha1.RolloutProgressing, reason: v1alpha1.ReasonStepProgressing,
			}
			c.check(t)
		})
	}
}
