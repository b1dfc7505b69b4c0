package progression

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

func TestStuckPassMakesWay(t *testing.T) {
	const progressing, failed = v1alpha1.RolloutProgressing, v1alpha1.RolloutFailed
	broken := func(options ...option) *v1alpha1.Workspace {
		return member("s", "staging", append([]option{run(v1alpha1.RunFailed, v1alpha1.TriggerSpec, passID, commitA), failures(commitA), wants(v1alpha1.TriggerRetry)}, options...)...)
	}
	dev := func(options ...option) *v1alpha1.Workspace {
		return member("d", "dev", append([]option{applied(commitA, passID), wants(v1alpha1.TriggerRevision)}, options...)...)
	}
	all := []string{"dev", "staging"}
	for name, test := range map[string]struct {
		ruleCase
		superseded bool
	}{
		"a commit that an annotation hints at is confirmed first": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), broken()),
			grants: "s Run a", needs: "d@main b", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, step: 1,
		}, false},
		"a confirmed commit begins a new pass at step 0 with it": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), broken()), resolved: resolved(commitC),
			grants: "d Run c", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		}, true},
		"a plan that a person cancelled makes way for a commit": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), cancelledPlan()), resolved: resolved(commitB),
			grants: "d Run b", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		}, true},
		"a plan that a person cancelled says what helps": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(), cancelledPlan()),
			grants: "s Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
			message: "the run of s was cancelled and is not tried again by itself: set the annotation " + v1alpha1.AnnotationRetryStep + " to " + passID + "/staging",
		}, false},
		"an annotation that is older than the pin changes nothing": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), broken()), resolved: resolved(commitA),
			grants: "s Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, step: 1,
		}, false},
		"a remote that cannot confirm leaves the pass": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), broken()),
			resolved: map[Key]Resolution{mainKey: {Reason: v1alpha1.ReasonAwaitingRevision, Message: "timeout"}},
			grants:   "s Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, step: 1,
		}, false},
		"a live run in the step is let end first": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), broken(run(v1alpha1.RunPlanning, v1alpha1.TriggerRetry, passID, commitA))), resolved: resolved(commitB),
			grants: "s Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, step: 1,
		}, false},
		"a pass that is not stuck goes on with its commit": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev(detected(commitB)), member("s", "staging", wants(v1alpha1.TriggerSpec))), resolved: resolved(commitB),
			grants: "s Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, false},
		"edited steps begin a new pass": {ruleCase{
			rollout: edited(inPass(1, commitA, all...), "staging", "dev"), members: members(dev(), broken()), resolved: resolved(commitA),
			grants: "s Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed,
		}, true},
		"edited steps that cannot be understood do not": {ruleCase{
			rollout: func() *v1alpha1.Rollout {
				r := inPass(1, commitA, all...)
				r.Spec.Strategy.Steps = []v1alpha1.RolloutStep{badStep()}
				return r
			}(), members: members(dev(), broken()),
			grants: "s Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, step: 1, message: "the edited steps cannot be used",
		}, false},
		"a mended selector begins a new pass": {ruleCase{
			rollout: edited(inPass(1, commitA, "dev", "stagin"), all...), members: members(dev(), member("s", "staging", wants(v1alpha1.TriggerSpec))), resolved: resolved(commitB),
			grants: "d Run b", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			wasSuperseded := d.Rollout.Pass.ID != passID
			if wasSuperseded != test.superseded {
				t.Fatalf("superseded is %v, want %v", wasSuperseded, test.superseded)
			}
			if !wasSuperseded {
				return
			}
			if h := d.Rollout.History; len(h) != 1 || h[0].ID != passID || h[0].Result != v1alpha1.PassSuperseded {
				t.Errorf("history %+v, want the old pass as Superseded", h)
			}
			if len(d.Events) == 0 || !slices.ContainsFunc(d.Events, func(e Event) bool { return e.Reason == v1alpha1.ReasonSuperseded }) {
				t.Errorf("events %+v, want one that says Superseded", d.Events)
			}
		})
	}
}

func TestRestartBeginsAnewWithANewCommit(t *testing.T) {
	restart := func(r *v1alpha1.Rollout) { r.Spec.Strategy.OnNewRevision = v1alpha1.NewRevisionRestart }
	all := []string{"dev", "prod"}
	dev := member("d", "dev", applied(commitA, passID), wants(v1alpha1.TriggerRevision), detected(commitB))
	prod := func(phase v1alpha1.RunPhase) *v1alpha1.Workspace {
		return member("p", "prod", run(phase, v1alpha1.TriggerSpec, passID, commitA), holding(v1alpha1.ScopeRun, commitA))
	}
	for name, test := range map[string]struct {
		ruleCase
		superseded bool
	}{
		"a plan of the old pass loses its grant": {ruleCase{
			rollout: with(inPass(1, commitA, all...), restart), members: members(dev, prod(v1alpha1.RunPlanned)), resolved: resolved(commitB),
			grants: "d Run b", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, true},
		"an apply is let end": {ruleCase{
			rollout: with(inPass(1, commitA, all...), restart), members: members(dev, prod(v1alpha1.RunApplying)), resolved: resolved(commitB),
			grants: "d Run b", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, message: "a run that began earlier is let end in p",
		}, true},
		"an annotation that is older than the pin begins nothing": {ruleCase{
			rollout: with(inPass(1, commitA, all...), restart), members: members(dev, prod(v1alpha1.RunPlanned)), resolved: resolved(commitA),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, false},
		"not under a pause": {ruleCase{
			rollout: with(inPass(1, commitA, all...), restart, paused), members: members(dev, prod(v1alpha1.RunPlanned)), resolved: resolved(commitB),
			grants: "p Run a", phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused, step: 1,
		}, false},
		"Finish goes on": {ruleCase{
			rollout: inPass(1, commitA, all...), members: members(dev, prod(v1alpha1.RunPlanned)), resolved: resolved(commitB),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, false},
		"what cannot be understood grants nothing new": {ruleCase{
			rollout: with(inPass(0, commitA, all...), func(r *v1alpha1.Rollout) { r.Spec.Strategy.OnNewRevision = "Sometimes" }), members: members(member("d", "dev", wants(v1alpha1.TriggerSpec)), member("p", "prod")), resolved: resolved(commitB),
			phase: failedPhase, reason: v1alpha1.ReasonInvalidSpec, message: "write Finish or Restart",
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			if got := d.Rollout.Pass.ID != passID; got != test.superseded {
				t.Fatalf("superseded is %v, want %v", got, test.superseded)
			}
			if test.superseded && (len(d.Rollout.History) != 1 || d.Rollout.History[0].Result != v1alpha1.PassSuperseded) {
				t.Errorf("history %+v", d.Rollout.History)
			}
		})
	}
}

// cancelledPlan is a member of staging whose plan a person cancelled in the pass.
func cancelledPlan() *v1alpha1.Workspace {
	m := member("s", "staging", run(v1alpha1.RunDiscarded, v1alpha1.TriggerSpec, passID, commitA), wants(v1alpha1.TriggerSpec))
	at := metav1.NewTime(start)
	m.Status.Run.CancelledAt = &at
	return m
}

func TestRetryOfAStepTriesWhatAPersonCancelled(t *testing.T) {
	r := with(inPass(1, commitA, "dev", "staging"), annotated(v1alpha1.AnnotationRetryStep, passID+"/staging"))
	d := Decide(later, Snapshot{Project: project(""), Rollout: r, Members: members(member("d", "dev", applied(commitA, passID)), cancelledPlan())})
	if g := d.Grants["s"]; g.Attempt != 1 || g.Scope != v1alpha1.ScopeRun {
		t.Fatalf("granted %+v, want a fresh attempt", g)
	}
	// The attempt is given once, and it is not said any more that nothing comes.
	r.Annotations, r.Status = nil, *d.Rollout
	d = Decide(later, Snapshot{Project: project(""), Rollout: r, Members: members(member("d", "dev", applied(commitA, passID)), cancelledPlan())})
	if g := d.Grants["s"]; g.Attempt != 1 || strings.Contains(d.Rollout.Message, "cancelled") {
		t.Errorf("then granted %+v: %s", g, d.Rollout.Message)
	}
}
