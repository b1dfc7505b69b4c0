package progression

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

func TestPause(t *testing.T) {
	all := []string{"dev", "prod"}
	spec := wants(v1alpha1.TriggerSpec)
	const phase = v1alpha1.RolloutPaused
	prod := member("p", "prod", spec)
	planning := run(v1alpha1.RunPlanning, v1alpha1.TriggerSpec, passID, commitA)
	for name, c := range map[string]ruleCase{
		"no pass begins": {
			rollout: with(rollout(stepsOf(all...)...), paused), members: members(member("d", "dev", spec), prod), resolved: resolved(commitA),
			phase: phase, reason: v1alpha1.ReasonPaused, message: "spec.paused",
		},
		"what has not begun loses its grant, what has goes on": {
			rollout: with(inPass(0, commitA, all...), paused), members: members(member("d", "dev", planning), member("e", "dev", spec), prod),
			grants: "d Run a", phase: phase, reason: v1alpha1.ReasonPaused,
		},
		"a step that is over is not left": {
			rollout: with(inPass(0, commitA, all...), paused), members: members(member("d", "dev", applied(commitA, passID)), prod),
			phase: phase, reason: v1alpha1.ReasonPaused,
		},
		"no drift is looked for, and none applied": {
			rollout: with(afterPass(commitA, all...), paused),
			members: members(member("d", "dev", applied(commitA, passID), wants(v1alpha1.TriggerDrift)), member("p", "prod", applied(commitA, passID), run(v1alpha1.RunPlanned, v1alpha1.TriggerDrift, passID, commitA))),
			grants:  "p Drift a", phase: phase, reason: v1alpha1.ReasonPaused, step: 1,
		},
		"the annotation says so": {
			rollout: with(inPass(0, commitA, all...), annotated(v1alpha1.AnnotationHold, "true")), members: members(member("d", "dev", spec), prod),
			phase: phase, reason: v1alpha1.ReasonPaused, message: v1alpha1.AnnotationHold,
		},
		"an annotation that nobody understands holds as well": {
			rollout: with(inPass(0, commitA, all...), annotated(v1alpha1.AnnotationHold, "until friday")), members: members(member("d", "dev", spec), prod),
			phase: phase, reason: v1alpha1.ReasonPaused, message: `"until friday"; write true, or false, or remove it`,
		},
		"an annotation that says false does not": {
			rollout: with(inPass(0, commitA, all...), annotated(v1alpha1.AnnotationHold, "false")), members: members(member("d", "dev", spec), prod),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		},
		"a stuck pass does not make way": {
			rollout: with(edited(inPass(0, commitA, all...), "prod", "dev"), paused), members: members(member("d", "dev", failedRun(0)), prod), resolved: resolved(commitA),
			phase: phase, reason: v1alpha1.ReasonPaused, message: "d failed",
		},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

func TestAbort(t *testing.T) {
	all := []string{"dev", "prod"}
	spec, revision := wants(v1alpha1.TriggerSpec), wants(v1alpha1.TriggerRevision)
	abort := annotated(v1alpha1.AnnotationAbort, passID)
	aborted := func(options ...rolloutOption) *v1alpha1.Rollout {
		r := with(inPass(1, commitA, all...), endedAs(v1alpha1.PassAborted))
		ended := r.Status.Pass.StartedAt
		r.Status.Pass.FinishedAt = &ended
		return with(r, options...)
	}
	dev := func(options ...option) *v1alpha1.Workspace {
		return member("d", "dev", append([]option{applied(commitA, passID)}, options...)...)
	}
	// retargeted is dev after its target revision was edited; the Workspace wants it since then.
	retargeted := func(commit string, since time.Time) *v1alpha1.Workspace {
		return dev(func(m *v1alpha1.Workspace) {
			m.Spec.Source.TargetRevision = "v2"
			m.Status.Wants = &v1alpha1.Want{Trigger: v1alpha1.TriggerSpec, Revision: commit, Since: metav1.NewTime(since)}
		})
	}
	retryProd := annotated(v1alpha1.AnnotationRetryStep, passID+"/prod")
	for name, test := range map[string]struct {
		ruleCase
		began    bool
		consumed []string
	}{
		"an abort takes every grant": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), abort), members: members(dev(), member("p", "prod", run(v1alpha1.RunApplying, v1alpha1.TriggerSpec, passID, commitA)), member("q", "prod", spec)),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1, message: "a person aborted it",
		}, consumed: []string{v1alpha1.AnnotationAbort}},
		"an abort of another pass is void": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), annotated(v1alpha1.AnnotationAbort, "old")), members: members(dev(), member("p", "prod", spec)),
			grants: "p Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing, step: 1,
		}, consumed: []string{v1alpha1.AnnotationAbort}},
		"an abort wins over a pause, a retry and an approval": {ruleCase: ruleCase{
			rollout: with(inPass(1, commitA, all...), abort, paused, retryProd, onStep(1, requireApproval), annotated(v1alpha1.AnnotationApprovedStep, passID+"/prod")),
			members: members(dev(), member("p", "prod", spec)),
			phase:   abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}, consumed: []string{v1alpha1.AnnotationAbort, v1alpha1.AnnotationRetryStep, v1alpha1.AnnotationApprovedStep, v1alpha1.AnnotationApprovedBy}},
		"it lasts, whatever the Workspaces want": {ruleCase: ruleCase{
			rollout: aborted(), members: members(dev(), member("p", "prod", spec), member("q", "prod", run(v1alpha1.RunPlanned, v1alpha1.TriggerSpec, passID, commitA))), resolved: resolved(commitA),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"it lasts though an annotation of abort is left": {ruleCase: ruleCase{
			rollout: aborted(abort), members: members(dev(), member("p", "prod", spec)), resolved: resolved(commitA),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}, consumed: []string{v1alpha1.AnnotationAbort}},
		"no drift is looked for after it": {ruleCase: ruleCase{
			rollout: aborted(), members: members(dev(wants(v1alpha1.TriggerDrift)), member("p", "prod", spec)),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"a commit that an annotation hints at is confirmed first": {ruleCase: ruleCase{
			rollout: aborted(), members: members(dev(revision, detected(commitB)), member("p", "prod", spec)),
			needs: "d@main b", phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"a new commit begins the next pass": {ruleCase: ruleCase{
			rollout: aborted(), members: members(dev(revision, detected(commitB)), member("p", "prod", spec)), resolved: resolved(commitB),
			grants: "d Run b", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, began: true},
		"a commit of a new target revision is confirmed first": {ruleCase: ruleCase{
			rollout: aborted(), members: members(retargeted(commitB, later), member("p", "prod", spec)),
			needs: "d@v2 b", phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"a new target revision begins the next pass": {ruleCase: ruleCase{
			rollout: aborted(), members: members(retargeted(commitB, later), member("p", "prod", spec)), resolved: map[Key]Resolution{{repo, "v2"}: {Revision: commitB}},
			grants: "d Run b", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, began: true},
		"a new target revision that is the commit in force does not": {ruleCase: ruleCase{
			rollout: aborted(), members: members(retargeted(commitB, later), member("p", "prod", spec)), resolved: map[Key]Resolution{{repo, "v2"}: {Revision: commitA}},
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"a target revision that nobody has looked at does not": {ruleCase: ruleCase{
			rollout: aborted(), members: members(retargeted("", later), member("p", "prod", spec)), resolved: map[Key]Resolution{{repo, "v2"}: {Revision: commitB}},
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"a target revision from before the abort does not": {ruleCase: ruleCase{
			rollout: aborted(), members: members(retargeted(commitB, start.Add(-time.Hour)), member("p", "prod", spec)), resolved: map[Key]Resolution{{repo, "v2"}: {Revision: commitB}},
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}},
		"a retry begins the next pass": {ruleCase: ruleCase{
			rollout: aborted(retryProd), members: members(dev(wants(v1alpha1.TriggerManual)), member("p", "prod", spec)), resolved: resolved(commitA),
			grants: "d Run a", phase: progressingPhase, reason: v1alpha1.ReasonStepProgressing,
		}, began: true, consumed: []string{v1alpha1.AnnotationRetryStep}},
		"a retry waits while it is paused": {ruleCase: ruleCase{
			rollout: aborted(retryProd, paused), members: members(dev(), member("p", "prod", spec)), resolved: resolved(commitA),
			phase: v1alpha1.RolloutPaused, reason: v1alpha1.ReasonPaused, step: 1,
		}},
		"a retry of a step that there was not is void": {ruleCase: ruleCase{
			rollout: aborted(annotated(v1alpha1.AnnotationRetryStep, passID+"/test")), members: members(dev(), member("p", "prod", spec)), resolved: resolved(commitA),
			phase: abortedPhase, reason: v1alpha1.ReasonAborted, step: 1,
		}, consumed: []string{v1alpha1.AnnotationRetryStep}},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.check(t)
			if began := d.Rollout.Pass.ID != passID; began != test.began {
				t.Errorf("a new pass began: %v, want %v", began, test.began)
			}
			if !slices.Equal(d.Consumed, test.consumed) {
				t.Errorf("removes %v, want %v", d.Consumed, test.consumed)
			}
		})
	}
}

func TestAbortIsKeptInHistory(t *testing.T) {
	r := with(inPass(1, commitA, "dev", "prod"), annotated(v1alpha1.AnnotationAbort, passID))
	d := Decide(later, Snapshot{Project: project(""), Rollout: r, Members: members(member("p", "prod", wants(v1alpha1.TriggerSpec)))})
	if h := d.Rollout.History; len(h) != 1 || h[0].Result != v1alpha1.PassAborted || h[0].Message == "" {
		t.Errorf("history %+v", h)
	}
	if step := d.Rollout.Steps[1]; step.Phase != v1alpha1.StepAborted || step.FinishedAt == nil {
		t.Errorf("step %+v", step)
	}
	if told(d) != "Aborted" || !d.Events[len(d.Events)-1].Warning {
		t.Errorf("told %v", d.Events)
	}
}

func TestRetryOfAStepThatNamesNothingPresentIsVoid(t *testing.T) {
	for name, r := range map[string]*v1alpha1.Rollout{
		"before the first pass":   with(rollout(stepsOf("dev")...), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")),
		"of another step":         with(inPass(0, commitA, "dev", "prod"), annotated(v1alpha1.AnnotationRetryStep, passID+"/prod")),
		"of a pass that is done":  with(afterPass(commitA, "dev"), endedAs(v1alpha1.PassSucceeded), annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")),
		"of a pass without steps": with(inPass(0, commitA, "dev"), annotated(v1alpha1.AnnotationRetryStep, passID)),
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(later, Snapshot{Project: project(""), Rollout: r, Members: members(member("d", "dev", failedRun(0)))})
			if !strings.HasPrefix(told(d), v1alpha1.ReasonCommandVoid+" ") {
				t.Errorf("events %+v", d.Events)
			}
			if attemptOf(d, "d") != 0 || !slices.Equal(d.Consumed, []string{v1alpha1.AnnotationRetryStep}) {
				t.Errorf("attempt %d, removes %v", attemptOf(d, "d"), d.Consumed)
			}
		})
	}
}

// TestARetryOutlivesASelectorThatCannotBeUnderstood: taken for done while no pass can begin, it would never be done.
func TestARetryOutlivesASelectorThatCannotBeUnderstood(t *testing.T) {
	retry := annotated(v1alpha1.AnnotationRetryStep, passID+"/dev")
	broken := with(afterPass(commitA, "dev"), endedAs(v1alpha1.PassAborted), retry, func(r *v1alpha1.Rollout) { r.Spec.Strategy.Steps[0] = badStep() })
	d := Decide(later, Snapshot{Project: project(""), Rollout: broken, Members: members(member("d", "dev", wants(v1alpha1.TriggerSpec))), Resolved: resolved(commitA)})
	if d.Rollout.Reason != v1alpha1.ReasonInvalidSelector || len(d.Consumed) > 0 || len(d.Grants) > 0 {
		t.Errorf("%s/%s, removes %v, grants %v", d.Rollout.Phase, d.Rollout.Reason, d.Consumed, d.Grants)
	}
	mended := with(afterPass(commitA, "dev"), endedAs(v1alpha1.PassAborted), retry)
	d = Decide(later, Snapshot{Project: project(""), Rollout: mended, Members: members(member("d", "dev", wants(v1alpha1.TriggerSpec))), Resolved: resolved(commitA)})
	if d.Rollout.Pass.ID == passID || !slices.Equal(d.Consumed, []string{v1alpha1.AnnotationRetryStep}) {
		t.Errorf("pass %s, removes %v: want a new pass", d.Rollout.Pass.ID, d.Consumed)
	}
}
