package progression

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// granted lists the grants as "name scope revision-letter", by name.
func granted(d Decision) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(d.Grants)) {
		g := d.Grants[name]
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %.1s", name, g.Scope, g.Revision)))
	}
	return strings.Join(all, ", ")
}

func TestExactlyOneOrchestratorAnswers(t *testing.T) {
	a, b := member("a", "dev", wants(v1alpha1.TriggerSpec)), member("b", "prod", wants(v1alpha1.TriggerSpec))
	gone := member("gone", "dev", wants(v1alpha1.TriggerSpec), deleting)
	members := []*v1alpha1.Workspace{b, a, gone}
	for name, test := range map[string]struct {
		snapshot      Snapshot
		grants        string
		projectReason string
		rolloutReason string
	}{
		"without a Project nobody is granted":                    {Snapshot{Members: members}, "", "", ""},
		"without a Project its Rollout grants nobody":            {Snapshot{Members: members, Rollout: rollout(stepsOf("dev")...)}, "", "", v1alpha1.ReasonProjectNotFound},
		"without a Rollout Auto grants every living member":      {Snapshot{Members: members, Project: project(v1alpha1.OrchestrationAuto)}, "a Run, b Run", v1alpha1.ReasonDefaultParallel, ""},
		"an empty orchestration means Auto":                      {Snapshot{Members: members, Project: project("")}, "a Run, b Run", v1alpha1.ReasonDefaultParallel, ""},
		"without a Rollout, where one is asked for, nobody runs": {Snapshot{Members: members, Project: project(v1alpha1.OrchestrationRollout)}, "", v1alpha1.ReasonRolloutMissing, ""},
		"with a Rollout its first step alone runs": {
			Snapshot{Members: members, Project: project(v1alpha1.OrchestrationAuto), Rollout: rollout(stepsOf("dev", "prod")...), Resolved: resolved(commitA)},
			"a Run a", v1alpha1.ReasonManagedByRollout, v1alpha1.ReasonStepProgressing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(later, test.snapshot)
			if got := granted(d); got != test.grants {
				t.Errorf("granted %q, want %q", got, test.grants)
			}
			if d.Project != nil && d.Project.Reason != test.projectReason || d.Project == nil && test.projectReason != "" {
				t.Errorf("project status %+v, want reason %q", d.Project, test.projectReason)
			}
			if d.Rollout != nil && d.Rollout.Reason != test.rolloutReason || d.Rollout == nil && test.rolloutReason != "" {
				t.Errorf("rollout status %+v, want reason %q", d.Rollout, test.rolloutReason)
			}
		})
	}
}

func TestRolloutDeletedInMidPassFallsBackToDefaultParallel(t *testing.T) {
	m := member("a", "dev", wants(v1alpha1.TriggerRevision))
	maps.Copy(m.Annotations, runGrant(m, passID, commitA).Annotations())
	d := Decide(later, Snapshot{Project: project(v1alpha1.OrchestrationAuto), Members: []*v1alpha1.Workspace{m}})
	if g := d.Grants["a"]; g.Pass != v1alpha1.StandingPass || g.Revision != "" {
		t.Errorf("granted %+v, want a standing grant without a commit", g)
	}
}

// ruleCase is one rule of a Rollout that has begun or begins.
type ruleCase struct {
	rollout  *v1alpha1.Rollout
	members  []*v1alpha1.Workspace
	resolved map[Key]Resolution

	grants  string
	needs   string
	phase   v1alpha1.RolloutPhase
	reason  string
	step    int32
	message string
}

func (c ruleCase) check(t *testing.T) Decision {
	t.Helper()
	d := Decide(later, Snapshot{Project: project(v1alpha1.OrchestrationAuto), Rollout: c.rollout, Members: c.members, Resolved: c.resolved})
	if got := granted(d); got != c.grants {
		t.Errorf("granted %q, want %q", got, c.grants)
	}
	var needs []string
	for _, n := range d.NeedPins {
		needs = append(needs, strings.TrimSpace(fmt.Sprintf("%s@%s %.1s", n.Member, n.Key.TargetRevision, n.Hint)))
	}
	if got := strings.Join(needs, ", "); got != c.needs {
		t.Errorf("needs pins %q, want %q", got, c.needs)
	}
	if d.Rollout.Phase != c.phase || d.Rollout.Reason != c.reason || d.Rollout.CurrentStep != c.step {
		t.Errorf("status %s/%s step %d, want %s/%s step %d (%s)", d.Rollout.Phase, d.Rollout.Reason, d.Rollout.CurrentStep, c.phase, c.reason, c.step, d.Rollout.Message)
	}
	if !strings.Contains(d.Rollout.Message, c.message) {
		t.Errorf("message %q, want it to say %q", d.Rollout.Message, c.message)
	}
	return d
}

func TestOrderedSteps(t *testing.T) {
	const progressing, succeeded, failed, idle = v1alpha1.RolloutProgressing, v1alpha1.RolloutSucceeded, v1alpha1.RolloutFailed, v1alpha1.RolloutIdle
	spec, revision, drift := wants(v1alpha1.TriggerSpec), wants(v1alpha1.TriggerRevision), wants(v1alpha1.TriggerDrift)
	all := []string{"dev", "prod"}
	for name, c := range map[string]ruleCase{
		"a pass asks for its commit before it grants": {
			rollout: rollout(stepsOf(all...)...), members: members(member("d", "dev", spec), member("p", "prod", spec)),
			needs: "d@main", phase: progressing, reason: v1alpha1.ReasonAwaitingRevision, message: "no commit is known",
		},
		"the first step is granted with the pinned commit": {
			rollout: rollout(stepsOf(all...)...), members: members(member("d", "dev", spec), member("p", "prod", spec)), resolved: resolved(commitA),
			grants: "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "waits for d",
		},
		"nobody wants anything": {
			rollout: rollout(stepsOf(all...)...), members: members(member("d", "dev", applied(commitA, "standing")), member("p", "prod", applied(commitA, "standing"))),
			phase: idle, reason: v1alpha1.ReasonNothingToDo,
		},
		"a step is over when all its members were applied in this pass": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", revision)),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a step is not over while one member is not": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("d2", "dev", revision), member("p", "prod", revision)),
			grants: "d Run a, d2 Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "1 of 2 Workspaces done; waits for d2",
		},
		"an apply of an earlier pass at another commit proves nothing": {
			rollout: inPass(0, commitB, all...), members: members(member("d", "dev", applied(commitA, "old")), member("p", "prod", applied(commitA, "old"))),
			grants: "d Run b", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"a member that wants nothing at the pass's commit is done": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, "old")), member("p", "prod", applied(commitA, "old"), wants(v1alpha1.TriggerManual))),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a member whose edited spec nobody has looked at is not done": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, "old"), func(m *v1alpha1.Workspace) { m.Generation = 2 }), member("p", "prod", spec)),
			grants: "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"a drift run of this pass in a later step proves nothing for that step": {
			rollout: inPass(1, commitB, all...),
			members: members(member("d", "dev", applied(commitB, passID)), member("p", "prod", applied(commitA, passID), run(v1alpha1.RunSucceeded, v1alpha1.TriggerDrift, passID, commitA), revision)),
			grants:  "p Run b", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a drift run of this pass at the pass's commit does not prove what is wanted since": {
			rollout: inPass(0, commitA, all...),
			members: members(member("d", "dev", run(v1alpha1.RunSucceeded, v1alpha1.TriggerDrift, passID, commitA), applied(commitA, "old"), wants(v1alpha1.TriggerVariables)), member("p", "prod", revision)),
			grants:  "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "waits for d",
		},
		"a run of the pass that was given up proves nothing, though the commit was applied before": {
			rollout: inPass(0, commitA, all...),
			members: members(member("d", "dev", run(v1alpha1.RunDiscarded, v1alpha1.TriggerVariables, passID, commitA), applied(commitA, "old"), wants(v1alpha1.TriggerVariables)), member("p", "prod", revision)),
			grants:  "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "waits for d",
		},
		"the last step ends the pass and takes every grant": {
			rollout: inPass(1, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", applied(commitA, passID))),
			phase: succeeded, reason: v1alpha1.ReasonPassSucceeded, step: 1,
		},
		"a new commit in mid-pass leaves finished members for the next pass": {
			rollout: inPass(1, commitA, all...),
			members: members(member("d", "dev", applied(commitA, passID), revision, detected(commitB)), member("p", "prod", revision, detected(commitB))),
			grants:  "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"what finished members want begins the next pass": {
			rollout: afterPass(commitA, all...),
			members: members(member("d", "dev", applied(commitA, passID), revision), member("p", "prod", applied(commitA, passID), revision)), resolved: resolved(commitB),
			grants: "d Run b", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"a new member in a finished step waits for the next pass": {
			rollout: inPass(1, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("new", "dev", spec), member("p", "prod", revision)),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a new member in the current step holds it": { // C37
			rollout: inPass(1, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", applied(commitA, passID)), member("new", "prod", spec)),
			grants: "new Run a, p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1, message: "waits for new",
		},
		"a deleting member is a member of none": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("d2", "dev", revision, deleting), member("p", "prod", revision)),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a member that matches two steps belongs to the first": { // C35
			rollout: rollout(append(stepsOf("dev"), v1alpha1.RolloutStep{Name: "all"})...), members: members(member("d", "dev", spec), member("p", "prod", spec)), resolved: resolved(commitA),
			grants: "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"members that match no step never run and are counted": { // C35
			rollout: rollout(stepsOf(all...)...), members: members(member("d", "dev", applied(commitA, "old")), member("x", "test", spec), member("y", "", drift, applied(commitA, "old")), member("p", "prod", applied(commitA, "old"))),
			phase: idle, reason: v1alpha1.ReasonNothingToDo, message: "2 Workspaces in no step and never run: x, y",
		},
		"a step that matches nothing stops the pass": { // C35
			rollout: inPass(1, commitA, "dev", "prdo", "prod"), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", revision)),
			phase: failed, reason: v1alpha1.ReasonNoWorkspacesFound, step: 1, message: `step "prdo" matches no Workspace`,
		},
		"a first step that matches nothing is shown before anything runs": {
			rollout: rollout(stepsOf(all...)...), members: members(member("p", "prod", applied(commitA, "old"))),
			phase: failed, reason: v1alpha1.ReasonNoWorkspacesFound,
		},
		"a step that matches nothing recovers by itself": {
			rollout: inPass(1, commitA, "dev", "prod"), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", spec)),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a selector that cannot be understood runs nobody": {
			rollout: rollout(badStep()), members: members(member("d", "dev", spec), member("p", "prod", drift, applied(commitA, "old"))), resolved: resolved(commitA),
			phase: failed, reason: v1alpha1.ReasonInvalidSelector, message: `step "bad"`,
		},
		"no steps at all are no panic": { // C35
			rollout: rollout(), members: members(member("d", "dev", spec)),
			phase: failed, reason: v1alpha1.ReasonInvalidSelector,
		},
		"a failed member stops later steps and keeps its grant": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", run(v1alpha1.RunFailed, v1alpha1.TriggerSpec, passID, commitA), failures(commitA), wants(v1alpha1.TriggerRetry)), member("d2", "dev", applied(commitA, passID)), member("p", "prod", revision)),
			grants: "d Run a, d2 Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, message: "d failed (PlanFailed)",
		},
		"a healed member lets the same pass go on": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", run(v1alpha1.RunSucceeded, v1alpha1.TriggerRetry, passID, commitA), applied(commitA, passID)), member("p", "prod", revision)),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a failure of an earlier commit is none of this pass": {
			rollout: inPass(0, commitB, all...), members: members(member("d", "dev", run(v1alpha1.RunFailed, v1alpha1.TriggerSpec, "old", commitA), failures(commitA), revision), member("p", "prod", revision)),
			grants: "d Run b", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"a member that was applied in the pass and failed since stops it": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, passID), run(v1alpha1.RunFailed, v1alpha1.TriggerManual, passID, commitA)), member("p", "prod", revision)),
			grants: "d Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed,
		},
		"a failed drift plan stops nothing": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, passID), run(v1alpha1.RunFailed, v1alpha1.TriggerDrift, passID, commitA), failures(commitA)), member("p", "prod", revision)),
			grants: "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
		"a member without its variables stops the pass": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", spec, inputsMissingOption), member("p", "prod", revision)),
			grants: "d Run a", phase: failed, reason: v1alpha1.ReasonWorkspaceFailed, message: "UnresolvedVariables",
		},
		"a plan that waits for a person is named": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", run(v1alpha1.RunPlanned, v1alpha1.TriggerSpec, passID, commitA), awaitingApproval), member("p", "prod", revision)),
			grants: "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "waits for a person to approve the plan of d",
		},
		"a run that began before the hand-over is let end and listed": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", spec), member("p", "prod", run(v1alpha1.RunApplying, v1alpha1.TriggerSpec, "standing", commitA))),
			grants: "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "a run that began earlier is let end in p",
		},
		"a plan that was parked at the hand-over makes a pass": {
			rollout: rollout(stepsOf(all...)...), resolved: resolved(commitA),
			members: members(member("d", "dev", applied(commitA, "standing")), member("p", "prod", run(v1alpha1.RunPlanned, v1alpha1.TriggerSpec, "standing", commitA))),
			phase:   progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"each repository has its own commit, asked for when its step is reached": {
			rollout: inPass(0, commitA, all...), members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", spec, func(m *v1alpha1.Workspace) { m.Spec.Source.TargetRevision = "v1" })),
			needs: "p@v1", phase: progressing, reason: v1alpha1.ReasonAwaitingRevision, step: 1,
		},
		"a name that git does not have halts and says so": {
			rollout: inPass(0, "", all...), members: members(member("d", "dev", spec), member("p", "prod", spec)),
			resolved: map[Key]Resolution{mainKey: {Reason: v1alpha1.ReasonRevisionNotFound, Message: "git says: couldn't find remote ref main"}},
			phase:    failed, reason: v1alpha1.ReasonRevisionNotFound, message: "couldn't find remote ref main",
		},
		"a remote that is down is waited for": {
			rollout: inPass(0, "", all...), members: members(member("d", "dev", spec), member("p", "prod", spec)),
			resolved: map[Key]Resolution{mainKey: {Reason: v1alpha1.ReasonRefWatcherUnavailable, Message: "connection refused"}},
			phase:    progressing, reason: v1alpha1.ReasonRefWatcherUnavailable, message: "connection refused",
		},
		"an owed run of the applied commit makes a pass": {
			rollout: afterPass(commitA, all...), resolved: resolved(commitA),
			members: members(member("d", "dev", applied(commitA, passID), revision, wantsRevision(commitA)), member("p", "prod", applied(commitA, passID))),
			grants:  "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing,
		},
		"a commit that the remote does not have any more makes none": {
			rollout: afterPass(commitB, all...), resolved: resolved(commitB),
			members: members(member("d", "dev", applied(commitB, passID), revision, wantsRevision(commitA)), member("p", "prod", applied(commitB, passID))),
			phase:   succeeded, reason: v1alpha1.ReasonPassSucceeded, step: 1,
		},
		"a commit that cannot be confirmed makes none, and says so": {
			rollout:  afterPass(commitA, all...),
			resolved: map[Key]Resolution{mainKey: {Reason: v1alpha1.ReasonRefWatcherUnavailable, Message: "connection refused"}},
			members:  members(member("d", "dev", applied(commitA, passID), revision, wantsRevision(commitB)), member("p", "prod", applied(commitA, passID))),
			phase:    succeeded, reason: v1alpha1.ReasonRefWatcherUnavailable, step: 1, message: "connection refused",
		},
		"edited steps count from the next pass": {
			rollout: edited(inPass(0, commitA, all...), "prod", "dev"), members: members(member("d", "dev", spec), member("p", "prod", spec)),
			grants: "d Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, message: "the edited steps count from the next pass",
		},
		"a currentStep out of range is no panic": {
			rollout: func() *v1alpha1.Rollout { r := inPass(1, commitA, all...); r.Status.CurrentStep = 9; return r }(),
			members: members(member("d", "dev", applied(commitA, passID)), member("p", "prod", spec)),
			grants:  "p Run a", phase: progressing, reason: v1alpha1.ReasonStepProgressing, step: 1,
		},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

func wantsRevision(commit string) option {
	return func(m *v1alpha1.Workspace) { m.Status.Wants.Revision = commit }
}

func members(all ...*v1alpha1.Workspace) []*v1alpha1.Workspace { return all }

func badStep() v1alpha1.RolloutStep {
	return v1alpha1.RolloutStep{Name: "bad", Selector: metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Within", Values: []string{"dev"}}},
	}}
}

func inputsMissingOption(m *v1alpha1.Workspace) {
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionInputsResolved, Status: metav1.ConditionFalse})
}

func awaitingApproval(m *v1alpha1.Workspace) {
	m.Status.AwaitingApproval = &v1alpha1.AwaitingApproval{RunID: "r"}
}

func edited(r *v1alpha1.Rollout, names ...string) *v1alpha1.Rollout {
	r.Spec.Strategy.Steps = stepsOf(names...)
	r.Generation++
	return r
}

// Without the wait a change that all Workspaces share could be seen in prod's wants before it is seen in dev's.
func TestStepInWhichNothingRanIsNotPassedOverAtOnce(t *testing.T) {
	r := rollout(stepsOf("dev", "prod")...)
	dev, prod := member("d", "dev", applied(commitA, "old")), member("p", "prod", applied(commitA, "old"), wants(v1alpha1.TriggerVariables))
	snapshot := Snapshot{Project: project(""), Rollout: r, Members: members(dev, prod), Resolved: resolved(commitA)}
	d := Decide(later, snapshot)
	if granted(d) != "" || d.Requeue != Settle || d.Rollout.CurrentStep != 0 {
		t.Fatalf("granted %q, step %d, requeue %s, want nothing yet", granted(d), d.Rollout.CurrentStep, d.Requeue)
	}
	r.Status = *d.Rollout
	dev.Status.Wants = &v1alpha1.Want{Trigger: v1alpha1.TriggerVariables}
	if d := Decide(later.Add(Settle), snapshot); granted(d) != "d Run a" {
		t.Errorf("granted %q, want dev, which wants the same by now", granted(d))
	}
	dev.Status.Wants = nil
	if d := Decide(later.Add(Settle), snapshot); granted(d) != "p Run a" {
		t.Errorf("granted %q, want prod, as dev still wants nothing", granted(d))
	}
}

func TestPassIDsRise(t *testing.T) {
	for before, want := range map[string]string{"": "milo4g0w", "milo4g0w": "milo4g0x", "milo4g0v": "milo4g0w", "zzzzzzzzz": "1000000000", "not an id": "milo4g0w"} {
		if got := mint(time.UnixMilli(1764504000032), before); got != want {
			t.Errorf("after %q comes %q, want %q", before, got, want)
		}
	}
}

func TestHistoryKeepsTenPasses(t *testing.T) {
	r := rollout(stepsOf("dev")...)
	m := member("d", "dev")
	now := later
	for i := range 12 {
		m.Status.Wants = &v1alpha1.Want{Trigger: v1alpha1.TriggerManual}
		r.Status = *Decide(now, Snapshot{Project: project(""), Rollout: r, Members: members(m), Resolved: resolved(commitA)}).Rollout
		m.Status.Wants = nil
		applied(commitA, r.Status.Pass.ID)(m)
		r.Status = *Decide(now, Snapshot{Project: project(""), Rollout: r, Members: members(m)}).Rollout
		if r.Status.Phase != v1alpha1.RolloutSucceeded {
			t.Fatalf("pass %d ended as %s: %s", i, r.Status.Phase, r.Status.Message)
		}
	}
	ids := map[string]bool{}
	for _, h := range r.Status.History {
		ids[h.ID] = true
	}
	if len(r.Status.History) != 10 || len(ids) != 10 || r.Status.History[0].ID != r.Status.Pass.ID {
		t.Errorf("history has %d passes with %d IDs, want the last 10, the newest first", len(r.Status.History), len(ids))
	}
}

func TestDecideChangesNothingThatItWasGivenAndIsStable(t *testing.T) {
	r := inPass(0, commitA, "dev", "prod")
	ms := members(member("p", "prod", wants(v1alpha1.TriggerSpec)), member("d", "dev", applied(commitA, passID)))
	s := Snapshot{Project: project(""), Rollout: r, Members: ms}
	before := r.DeepCopy()
	d := Decide(later, s)
	if !reflect.DeepEqual(before, r) || ms[0].Name != "p" {
		t.Error("Decide changed what it was given")
	}
	r.Status, s.Project.Status = *d.Rollout, *d.Project
	for _, now := range []int{0, 1, 3600} {
		again := Decide(later.Add(time.Duration(now)*time.Second), s)
		if !reflect.DeepEqual(*again.Rollout, r.Status) || !reflect.DeepEqual(*again.Project, s.Project.Status) || len(again.Events) > 0 {
			t.Errorf("deciding again %ds later changes the status:\n%+v\n%+v\nevents %v", now, *again.Rollout, r.Status, again.Events)
		}
	}
}
