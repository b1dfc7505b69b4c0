package progression

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
)

type rolloutOption func(*v1alpha1.Rollout)

// with returns r after the options.
func with(r *v1alpha1.Rollout, options ...rolloutOption) *v1alpha1.Rollout {
	for _, o := range options {
		o(r)
	}
	return r
}

func annotated(name, value string) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[name] = value
	}
}

func paused(r *v1alpha1.Rollout) { r.Spec.Paused = true }

// onStep edits a step of the spec and of the pass.
func onStep(index int, edit func(*v1alpha1.RolloutStep)) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		edit(&r.Spec.Strategy.Steps[index])
		if r.Status.Pass != nil {
			edit(&r.Status.Pass.Steps[index])
		}
	}
}

func requireApproval(s *v1alpha1.RolloutStep) {
	s.Approval = &v1alpha1.ApprovalRequirement{Required: true}
}

func atMost(n intstr.IntOrString) func(*v1alpha1.RolloutStep) {
	return func(s *v1alpha1.RolloutStep) { s.MaxParallel = &n }
}

func stepAction(action v1alpha1.FailureAction, retries int32) func(*v1alpha1.RolloutStep) {
	return func(s *v1alpha1.RolloutStep) { s.OnFailure = stated(action, retries) }
}

func stated(action v1alpha1.FailureAction, retries int32) *v1alpha1.OnFailure {
	o := &v1alpha1.OnFailure{Action: action}
	if retries > 0 {
		o.Retries = ptr.To(retries)
	}
	return o
}

func strategyAction(action v1alpha1.FailureAction, retries int32) rolloutOption {
	return func(r *v1alpha1.Rollout) { r.Spec.Strategy.OnFailure = stated(action, retries) }
}

func attempted(index int, name string, attempt int32) rolloutOption {
	return func(r *v1alpha1.Rollout) {
		r.Status.Steps[index].Members = append(r.Status.Steps[index].Members, v1alpha1.RolloutStepMember{Name: name, Attempt: attempt})
	}
}

func endedAs(result v1alpha1.PassResult) rolloutOption {
	return func(r *v1alpha1.Rollout) { r.Status.Pass.Result = result }
}

// failedRun says that the member's run of this pass has failed, as its attempt number n.
func failedRun(n int32) option {
	return func(m *v1alpha1.Workspace) {
		run(v1alpha1.RunFailed, v1alpha1.TriggerSpec, passID, commitA)(m)
		m.Status.Run.Attempt = n
		failures(commitA)(m)
		wants(v1alpha1.TriggerRetry)(m)
	}
}

func attemptOf(d Decision, name string) int32 { return d.Grants[name].Attempt }

func told(d Decision) string {
	var all []string
	for _, e := range d.Events {
		if e.About == AboutRollout {
			all = append(all, e.Reason)
		}
	}
	return strings.Join(all, " ")
}

const failedPhase, progressingPhase, abortedPhase = v1alpha1.RolloutFailed, v1alpha1.RolloutProgressing, v1alpha1.RolloutAborted

func TestMaxParallel(t *testing.T) {
	spec := wants(v1alpha1.TriggerSpec)
	doneMember := applied(commitA, passID)
	four := func(options ...option) []*v1alpha1.Workspace {
		ms := members(member("a", "dev", spec), member("b", "dev", spec), member("c", "dev", spec), member("d", "dev", spec), member("p", "prod", spec))
		for _, o := range options {
			o(ms[1])
		}
		return ms
	}
	running := run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, passID, commitA)
	heldGrant := func(m *v1alpha1.Workspace) {
		for k, v := range runGrant(m, passID, commitA).Annotations() {
			m.Annotations[k] = v
		}
	}
	for name, test := range map[string]struct {
		bound   intstr.IntOrString
		members []*v1alpha1.Workspace
		grants  string
	}{
		"a number bounds how many are granted":                  {intstr.FromInt32(2), four(), "a Run a, b Run a"},
		"a number above the members grants all":                 {intstr.FromInt32(9), four(), "a Run a, b Run a, c Run a, d Run a"},
		"a percentage is rounded down":                          {intstr.FromString("70%"), four(), "a Run a, b Run a"},
		"a small percentage grants one":                         {intstr.FromString("1%"), four(), "a Run a"},
		"all of them":                                           {intstr.FromString("100%"), four(), "a Run a, b Run a, c Run a, d Run a"},
		"what runs goes first":                                  {intstr.FromInt32(1), four(running), "b Run a"},
		"what is granted keeps its turn":                        {intstr.FromInt32(1), four(heldGrant), "b Run a"},
		"what is done makes room, and needs no grant":           {intstr.FromInt32(1), four(doneMember), "a Run a"},
		"more runs than the bound, from before, let nobody in":  {intstr.FromInt32(1), members(member("a", "dev", running), member("b", "dev", running), member("c", "dev", spec)), "a Run a, b Run a"},
		"a run from before the pass has to fit like the others": {intstr.FromInt32(1), members(member("a", "dev", running), member("b", "dev", run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, "old", commitA))), "a Run a"},
	} {
		t.Run(name, func(t *testing.T) {
			ruleCase{
				rollout: with(inPass(0, commitA, "dev", "prod"), onStep(0, atMost(test.bound))), members: test.members,
				grants: test.grants, phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
			}.check(t)
		})
	}
}

func TestLawWhatCannotBeUnderstoodGrantsNothing(t *testing.T) {
	ms := members(member("a", "dev", wants(v1alpha1.TriggerSpec)), member("p", "prod", wants(v1alpha1.TriggerSpec)))
	for message, edit := range map[string]rolloutOption{
		`maxParallel is 0`:             onStep(0, atMost(intstr.FromInt32(0))),
		`maxParallel is -1`:            onStep(1, atMost(intstr.FromInt32(-1))),
		`maxParallel is "0%"`:          onStep(0, atMost(intstr.FromString("0%"))),
		`maxParallel is "101%"`:        onStep(0, atMost(intstr.FromString("101%"))),
		`maxParallel is "half"`:        onStep(0, atMost(intstr.FromString("half"))),
		`maxParallel is "5"`:           onStep(0, atMost(intstr.FromString("5"))),
		`onFailure.action is "Ignore"`: onStep(1, stepAction("Ignore", 0)),
		`onFailure.action is "Hope"`:   strategyAction("Hope", 0),
	} {
		t.Run(message, func(t *testing.T) {
			ruleCase{rollout: with(rollout(stepsOf("dev", "prod")...), edit), members: ms, resolved: resolved(commitA),
				phase: failedPhase, reason: v1alpha1.ReasonInvalidSpec, message: message}.check(t)
			ruleCase{rollout: with(inPass(0, commitA, "dev", "prod"), edit), members: ms, resolved: resolved(commitA),
				phase: failedPhase, reason: v1alpha1.ReasonInvalidSpec, message: message}.check(t)
		})
	}
}

func TestOnFailure(t *testing.T) {
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	prod := member("p", "prod", spec)
	for name, test := range map[string]struct {
		ruleCase
		attempt int32
	}{
		"Halt grants no further member": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, atMost(intstr.FromInt32(2)))), members: members(member("a", "dev", failedRun(0)), member("b", "dev", spec), prod),
			grants: "a Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed, message: "a failed (PlanFailed)",
		}},
		"Continue goes on without the failed member": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureContinue, 0)), members: members(member("a", "dev", failedRun(0)), member("b", "dev", applied(commitA, passID)), prod),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}},
		"Continue lets the others of the step end first": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureContinue, 0)), members: members(member("a", "dev", failedRun(0)), member("b", "dev", spec), prod),
			grants: "b Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, message: "a failed (PlanFailed) and is passed over; waits for b",
		}},
		"Continue gives a failure of an earlier pass its attempt first": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureContinue, 0)),
			members: members(member("a", "dev", run(v1alpha1.RunFailed, v1alpha1.TriggerSpec, "old", commitA), failures(commitA), wants(v1alpha1.TriggerRetry)), prod),
			grants:  "a Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		}},
		"Continue does not pass over a step that matches nothing": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureContinue, 0)), members: members(prod),
			phase: failedPhase, reason: v1alpha1.ReasonNoWorkspacesFound,
		}},
		"the step's own word counts before that of the strategy": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureContinue, 0), onStep(0, stepAction(v1alpha1.FailureHalt, 0))), members: members(member("a", "dev", failedRun(0)), prod),
			grants: "a Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		}},
		"Abort ends the pass": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, stepAction(v1alpha1.FailureAbort, 0))), members: members(member("a", "dev", failedRun(0)), member("b", "dev", run(v1alpha1.RunApplying, v1alpha1.TriggerSpec, passID, commitA)), prod),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, message: `onFailure of step "dev" is Abort, and a failed`,
		}},
		"Abort waits for the attempt of this pass": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), onStep(0, stepAction(v1alpha1.FailureAbort, 0))), members: members(member("a", "dev", failures(commitA), wants(v1alpha1.TriggerRetry)), prod),
			grants: "a Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		}},
		"Retry grants a fresh attempt": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureRetry, 2)), members: members(member("a", "dev", failedRun(0)), prod),
			grants: "a Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried, message: "fresh attempt 1",
		}, attempt: 1},
		"Retry waits for the attempt that it has granted": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureRetry, 2), attempted(0, "a", 1)), members: members(member("a", "dev", failedRun(0)), prod),
			grants: "a Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, attempt: 1},
		"Retry tries again as often as it says": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureRetry, 2), attempted(0, "a", 1)), members: members(member("a", "dev", failedRun(1)), prod),
			grants: "a Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, attempt: 2},
		"Retry halts then": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), strategyAction(v1alpha1.FailureRetry, 2), attempted(0, "a", 2)), members: members(member("a", "dev", failedRun(2)), prod),
			grants: "a Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed,
		}, attempt: 2},
		"RetryStep grants one more": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), attempted(0, "a", 2), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")), members: members(member("a", "dev", failedRun(2)), prod),
			grants: "a Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, attempt: 3},
		"RetryStep that is found again after a crash grants no second": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), attempted(0, "a", 3), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")), members: members(member("a", "dev", failedRun(2)), prod),
			grants: "a Run a", phase: progressingPhase, reason: v1alpha1.ReasonWorkspaceRetried,
		}, attempt: 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			if got := attemptOf(d, "a"); got != test.attempt {
				t.Errorf("attempt %d, want %d", got, test.attempt)
			}
		})
	}
}

func TestPassThatWentOnWithoutAMemberSaysSoAndRests(t *testing.T) {
	r := with(inPass(1, commitA, "dev", "prod"), strategyAction(v1alpha1.FailureContinue, 0))
	ms := members(member("a", "dev", failedRun(0)), member("d", "dev", applied(commitA, passID)), member("p", "prod", applied(commitA, passID)))
	r.Status.CurrentStep, r.Status.Steps[0] = 0, v1alpha1.RolloutStepStatus{Name: "dev"}
	d := ruleCase{rollout: r, members: ms, phase: failedPhase, reason: v1alpha1.ReasonPassIncomplete, step: 1, message: `without a in step "dev"`}.check(t)
	step, pass := d.Rollout.Steps[0], d.Rollout.Pass
	if step.Phase != v1alpha1.StepIncomplete || !slices.Equal(step.PassedOver, []string{"a"}) || step.Failed != 1 || step.Applied != 1 {
		t.Errorf("step %+v, want it to say who was passed over", step)
	}
	if pass.Result != v1alpha1.PassIncomplete || d.Rollout.History[0].Result != v1alpha1.PassIncomplete {
		t.Errorf("result %s, history %+v", pass.Result, d.Rollout.History)
	}
	// The failed member wants to try again for ever. That begins no pass; a person or something new does.
	r.Status = *d.Rollout
	again := ruleCase{rollout: r, members: ms, resolved: resolved(commitA), phase: failedPhase, reason: v1alpha1.ReasonPassIncomplete, step: 1}
	again.check(t)
	again.rollout = with(r.DeepCopy(), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev"))
	again.reason, again.grants, again.step = v1alpha1.ReasonWorkspaceFailed, "a Run a, d Run a", 0
	if d := again.check(t); d.Rollout.Pass.ID == passID {
		t.Error("a person's retry begins no pass")
	}
	again = ruleCase{rollout: r, members: members(ms[0], member("d", "dev", applied(commitA, passID), wants(v1alpha1.TriggerManual)), ms[2]), resolved: resolved(commitA),
		grants: "a Run a", phase: failedPhase, reason: v1alpha1.ReasonWorkspaceFailed}
	again.check(t)
}

func TestApproval(t *testing.T) {
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	dev := member("d", "dev", applied(commitA, passID))
	gate := onStep(1, requireApproval)
	approve := annotated(v1alpha1.AnnotationApprovedStep, passID+"/prod")
	const awaiting = v1alpha1.RolloutAwaitingApproval
	for name, test := range map[string]struct {
		ruleCase
		by   string
		told string
	}{
		"a step that requires approval waits, and says what to write": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), gate), members: members(dev, member("p", "prod", spec)),
			phase: awaiting, reason: v1alpha1.ReasonAwaitingStepApproval, step: 1, message: v1alpha1.AnnotationApprovedStep + " to " + passID + "/prod",
		}, told: "AwaitingStepApproval"},
		"an approval lets the pass enter": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), gate, approve, annotated(v1alpha1.AnnotationApprovedBy, "ada")), members: members(dev, member("p", "prod", spec)),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, by: "ada", told: "StepApproved StepProgressing"},
		"an approval of nobody known": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), gate, approve), members: members(dev, member("p", "prod", spec)),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, by: "unknown", told: "StepApproved StepProgressing"},
		"an approval of another pass is void": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), gate, annotated(v1alpha1.AnnotationApprovedStep, "old/prod")), members: members(dev, member("p", "prod", spec)),
			phase: awaiting, reason: v1alpha1.ReasonAwaitingStepApproval, step: 1,
		}, told: "CommandVoid AwaitingStepApproval"},
		"an approval before the step is reached is void": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), gate, approve), members: members(dev, member("p", "prod", spec)),
			phase: awaiting, reason: v1alpha1.ReasonAwaitingStepApproval, step: 1,
		}, told: "CommandVoid AwaitingStepApproval"},
		"an approval of a step that asks for none is void": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, all...), annotated(v1alpha1.AnnotationApprovedStep, passID+"/dev")), members: members(member("d", "dev", spec), member("p", "prod", spec)),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, told: "CommandVoid StepProgressing"},
		"a step in which nothing has to run asks nobody": {ruleCase: ruleCase{
			rollout: with(inPass(0, commitA, append(all, "last")...), gate), members: members(dev, member("p", "prod", applied(commitA, "old")), member("l", "last", spec)),
			grants: "l Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 2,
		}, told: "StepProgressing"},
		"drift that was found is applied while a person is waited for": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), gate), members: members(member("d", "dev", applied(commitA, passID), run(v1alpha1.RunPlanned, v1alpha1.TriggerDrift, passID, commitA)), member("p", "prod", spec)),
			grants: "d Run a", phase: awaiting, reason: v1alpha1.ReasonAwaitingStepApproval, step: 1,
		}, told: "AwaitingStepApproval"},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			if got := told(d); got != test.told {
				t.Errorf("told %q, want %q", got, test.told)
			}
			_, annotated := test.rollout.Annotations[v1alpha1.AnnotationApprovedStep]
			if want := annotated; slices.Contains(d.Consumed, v1alpha1.AnnotationApprovedStep) != want || slices.Contains(d.Consumed, v1alpha1.AnnotationApprovedBy) != want {
				t.Errorf("removes %v", d.Consumed)
			}
			a := d.Rollout.Steps[d.Rollout.CurrentStep].Approval
			if test.by == "" && a != nil || test.by != "" && (a == nil || a.By != test.by) {
				t.Errorf("approval %+v, want it by %q", a, test.by)
			}
		})
	}
}

func TestApprovalsAreKeptInHistory(t *testing.T) {
	r := with(inPass(1, commitA, "dev", "prod"), onStep(1, requireApproval))
	r.Status.Steps[1].Approval = &v1alpha1.StepApproval{By: "ada"}
	d := Decide(later, Snapshot{Project: project(""), Rollout: r, Members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", applied(commitA, passID)))})
	if h := d.Rollout.History; len(h) != 1 || len(h[0].Approvals) != 1 || h[0].Approvals[0].By != "ada" || h[0].Approvals[0].Step != "prod" {
		t.Errorf("history %+v, want ada's approval of prod", h)
	}
}
