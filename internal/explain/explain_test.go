package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// declared reads the reasons of the API from the source, so that one without an explanation is noticed.
func declared(t *testing.T) map[string]v1alpha1.Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1alpha1.Reason{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = value
		return true
	})
	if len(found) < 50 {
		t.Fatalf("only %d reasons found: where did they go?", len(found))
	}
	return found
}

func TestEveryReasonOfTheAPIHasAnExplanationAndAWayOut(t *testing.T) {
	constants := declared(t)
	for name, reason := range constants {
		e, known := reasons[reason]
		switch {
		case !known:
			t.Errorf("%s (%s) has no entry in the tables of this package: say what it means and what to do", name, reason)
		case e.says == "" || e.wayOut == "":
			t.Errorf("%s (%s): says %q, way out %q", name, reason, e.says, e.wayOut)
		case strings.HasSuffix(e.says, ".") || strings.HasSuffix(e.wayOut, ".") || strings.Contains(e.says, "\n"):
			t.Errorf("%s (%s) is no part of a sentence: %q, %q", name, reason, e.says, e.wayOut)
		}
	}
	if total := len(waiting) + len(moving) + len(failing) + len(aside) + len(rollouts); total != len(reasons) {
		t.Errorf("%d entries make %d: a reason is in two tables", total, len(reasons))
	}
}

func workspace(name string, phase v1alpha1.Phase, reason v1alpha1.Reason, message string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 3, Labels: map[string]string{"env": name}}}
	w.Spec.ProjectRef.Name = "pay"
	w.Status = v1alpha1.WorkspaceStatus{ObservedGeneration: 3, Phase: phase, Reason: reason, Message: message, Run: &v1alpha1.WorkspaceRun{ID: "run-7"}}
	return w
}

func applied(name, pass string) *v1alpha1.Workspace {
	w := workspace(name, v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded, "commit abc is in force")
	w.Status.Applied = &v1alpha1.AppliedState{Pass: pass}
	return w
}

func project() *v1alpha1.Project {
	return &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pay"}}
}

// rollout is in step i of the steps dev, staging and prod.
func rollout(i int32, phase v1alpha1.RolloutPhase, reason v1alpha1.Reason, message string) *v1alpha1.Rollout {
	r := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pay", Generation: 2}}
	r.Spec.ProjectRef = "pay"
	for _, env := range []string{"dev", "staging", "prod"} {
		r.Spec.Strategy.Steps = append(r.Spec.Strategy.Steps, v1alpha1.RolloutStep{Name: env, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": env}}})
		r.Status.Steps = append(r.Status.Steps, v1alpha1.RolloutStepStatus{Name: env})
	}
	r.Status.ObservedGeneration, r.Status.CurrentStep = 2, i
	r.Status.Phase, r.Status.Reason, r.Status.Message = phase, reason, message
	r.Status.Pass = &v1alpha1.RolloutPass{ID: "p1", Steps: r.Spec.Strategy.Steps}
	return r
}

func waits(name string) *v1alpha1.Workspace {
	return workspace(name, v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout, "waits for its turn in Rollout \"pay\"")
}

func halted() *v1alpha1.Rollout {
	return rollout(1, v1alpha1.RolloutFailed, v1alpha1.ReasonWorkspaceFailed, "pass p1, step \"staging\": staging failed (PlanFailed)")
}

func failed(name string) *v1alpha1.Workspace {
	w := workspace(name, v1alpha1.PhaseFailed, v1alpha1.ReasonPlanFailed, "\nError: no such resource\n\n  on main.tf line 1")
	due := metav1.NewTime(time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC))
	w.Status.NextReconcileTime = &due
	return w
}

func TestAWorkspaceIsExplainedDownToTheCause(t *testing.T) {
	ordered := project()
	ordered.Spec.Orchestration = v1alpha1.OrchestrationRollout
	edited := waits("prod")
	edited.Generation = 4
	parked := workspace("staging", v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingApproval, "the plan waits for approval")
	parked.Status.AwaitingApproval = &v1alpha1.AwaitingApproval{RunID: "run-7"}
	stray := waits("canary")
	paused := rollout(2, v1alpha1.RolloutProgressing, v1alpha1.ReasonStepProgressing, "waits for prod")
	atRest := rollout(2, v1alpha1.RolloutSucceeded, v1alpha1.ReasonPassSucceeded, "pass p1 is done")
	atRest.Status.Pass.FinishedAt = &metav1.Time{}
	unchecked := applied("prod", "p1")
	unchecked.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDriftCheckFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonFetchFailed, Message: "no route"}}
	deleting := waits("prod")
	deleting.DeletionTimestamp = &metav1.Time{}
	deleting.Generation++ // as every deletion does
	deleting.Status.Reason = v1alpha1.ReasonDeleting

	for name, c := range map[string]struct {
		scene    Scene
		sentence string
		chain    string
		wayOut   string
	}{
		"behind a halted step": {
			Scene{Workspace: waits("prod"), Project: project(), Rollout: halted(), Members: []*v1alpha1.Workspace{waits("prod"), failed("staging"), applied("dev", "p1")}},
			"Workspace prod waits for its turn (AwaitingRollout), because Rollout pay in step staging (2 of 3) is halted, and step prod comes later (WorkspaceFailed), " +
				"because Workspace staging failed to plan (PlanFailed): Error: no such resource",
			"Workspace prod Pending AwaitingRollout < Rollout pay Failed WorkspaceFailed < Workspace staging Failed PlanFailed",
			"mend the module",
		},
		"behind a step that waits for a person": {
			Scene{Workspace: waits("prod"), Project: project(), Rollout: rollout(1, v1alpha1.RolloutProgressing, v1alpha1.ReasonStepProgressing, "m"), Members: []*v1alpha1.Workspace{waits("prod"), parked}},
			"Workspace prod waits for its turn (AwaitingRollout), because Rollout pay in step staging (2 of 3) waits for Workspaces, and step prod comes later (StepProgressing), " +
				"because Workspace staging waits for a person to approve its plan (AwaitingApproval): the plan waits for approval",
			"Workspace prod Pending AwaitingRollout < Rollout pay Progressing StepProgressing < Workspace staging Planned AwaitingApproval",
			"kubectl -n team annotate workspace staging --overwrite magosproject.io/approved=run-7",
		},
		"in its own step, held by nobody else": {
			Scene{Workspace: waits("prod"), Project: project(), Rollout: paused, Members: []*v1alpha1.Workspace{waits("prod"), applied("dev", "p1")}},
			"Workspace prod waits for its turn (AwaitingRollout), because Rollout pay in step prod (3 of 3) waits for Workspaces (StepProgressing): waits for prod",
			"Workspace prod Pending AwaitingRollout < Rollout pay Progressing StepProgressing",
			"get workspaces",
		},
		"behind a Rollout at rest": {
			Scene{Workspace: waits("prod"), Project: project(), Rollout: atRest, Members: []*v1alpha1.Workspace{waits("prod"), failed("staging")}},
			"Workspace prod waits for its turn (AwaitingRollout), because Rollout pay has brought every step where it should be (PassSucceeded): pass p1 is done",
			"Workspace prod Pending AwaitingRollout < Rollout pay Succeeded PassSucceeded",
			"nothing is to be done",
		},
		"in no step": {
			Scene{Workspace: stray, Project: project(), Rollout: halted(), Members: []*v1alpha1.Workspace{stray, failed("staging")}},
			"Workspace canary waits for its turn (AwaitingRollout), because no step of Rollout pay matches its labels (WorkspaceFailed)",
			"Workspace canary Pending AwaitingRollout < Rollout pay Failed WorkspaceFailed",
			"label the Workspace",
		},
		"without its Project": {
			Scene{Workspace: waits("prod")},
			"Workspace prod waits for its turn (AwaitingRollout), because Project pay does not exist in namespace team (ProjectNotFound)",
			"Workspace prod Pending AwaitingRollout < Project pay  ProjectNotFound",
			"create the Project pay in namespace team",
		},
		"without the Rollout that the Project wants": {
			Scene{Workspace: waits("prod"), Project: ordered},
			"Workspace prod waits for its turn (AwaitingRollout), because Project pay lets nothing run while it has no Rollout (RolloutMissing)",
			"Workspace prod Pending AwaitingRollout < Project pay  RolloutMissing",
			"create the Rollout pay in namespace team",
		},
		"not granted yet": {
			Scene{Workspace: waits("prod"), Project: project()},
			"Workspace prod waits for its turn (AwaitingRollout), because Project pay grants every Workspace at once, and has not granted this one yet",
			"Workspace prod Pending AwaitingRollout < Project pay  ",
			"magos-rollout runs",
		},
		"edited a moment ago": {
			Scene{Workspace: edited, Project: project(), Rollout: halted()},
			"Workspace prod waits for its turn (AwaitingRollout), because the workspace service has not looked at its present spec yet",
			"Workspace prod Pending AwaitingRollout < Workspace prod  ",
			"magos-workspace runs",
		},
		"where it should be": {
			Scene{Workspace: applied("prod", "p1"), Project: project(), Rollout: atRest},
			"Workspace prod is where it should be (ApplySucceeded): commit abc is in force",
			"Workspace prod Applied ApplySucceeded",
			"nothing is to be done",
		},
		"whose drift plan failed": {
			Scene{Workspace: unchecked, Project: project(), Rollout: atRest},
			"Workspace prod is Applied, and whether reality still matches is not known since its last drift plan failed (FetchFailed): no route",
			"Workspace prod Applied FetchFailed",
			"reach the host",
		},
		"being deleted": {
			Scene{Workspace: deleting},
			"Workspace prod is being deleted (Deleting): waits for its turn in Rollout \"pay\"",
			"Workspace prod Pending Deleting",
			"finalizers",
		},
		"that nobody has looked at": {
			Scene{Workspace: &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "new", Generation: 1}}},
			"Workspace new was not looked at yet, because the workspace service has not looked at its present spec yet",
			"Workspace new   < Workspace new  ",
			"magos-workspace runs",
		},
		"with a reason that is not known here": {
			Scene{Workspace: workspace("prod", v1alpha1.PhaseFailed, "Eclipsed", "the moon")},
			"Workspace prod is Failed (Eclipsed): the moon",
			"Workspace prod Failed Eclipsed",
			"kubectl -n team annotate workspace prod --overwrite magosproject.io/reconcile-request=",
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkExplanation(t, Workspace(c.scene), c.sentence, c.chain, c.wayOut)
		})
	}
}

func TestARolloutIsExplainedDownToTheCause(t *testing.T) {
	edited := halted()
	edited.Generation = 9
	empty := rollout(0, v1alpha1.RolloutFailed, v1alpha1.ReasonNoWorkspacesFound, "the selector of step \"dev\" matches no Workspace")
	other := failed("other")
	other.Labels["env"] = "dev"
	paused := rollout(1, v1alpha1.RolloutPaused, v1alpha1.ReasonPaused, "paused by spec.paused")
	waitsForPerson := rollout(2, v1alpha1.RolloutAwaitingApproval, v1alpha1.ReasonAwaitingStepApproval, "")
	aborted := rollout(1, v1alpha1.RolloutAborted, v1alpha1.ReasonAborted, "pass p1 was aborted")
	aborted.Status.Pass.FinishedAt = &metav1.Time{}
	for name, c := range map[string]struct {
		scene                   Scene
		sentence, chain, wayOut string
	}{
		"halted": {
			Scene{Project: project(), Rollout: halted(), Members: []*v1alpha1.Workspace{waits("prod"), failed("staging"), other}},
			"Rollout pay in step staging (2 of 3) is halted (WorkspaceFailed), because Workspace staging failed to plan (PlanFailed): Error: no such resource",
			"Rollout pay Failed WorkspaceFailed < Workspace staging Failed PlanFailed",
			"; it is tried again by itself at 2026-11-30T23:00:00Z",
		},
		"paused, with a failed member": {
			Scene{Project: project(), Rollout: paused, Members: []*v1alpha1.Workspace{failed("staging")}},
			"Rollout pay in step staging (2 of 3) is paused (Paused): paused by spec.paused",
			"Rollout pay Paused Paused",
			"kubectl -n team annotate rollout pay magosproject.io/hold-",
		},
		"before a step that a person lets it into": {
			Scene{Project: project(), Rollout: waitsForPerson, Members: []*v1alpha1.Workspace{waits("prod")}},
			"Rollout pay in step prod (3 of 3) waits for a person to let it enter the step (AwaitingStepApproval)",
			"Rollout pay AwaitingApproval AwaitingStepApproval",
			"kubectl -n team annotate rollout pay --overwrite 'magosproject.io/approved-step=p1/prod'",
		},
		"aborted": {
			Scene{Project: project(), Rollout: aborted, Members: []*v1alpha1.Workspace{failed("staging")}},
			"Rollout pay was aborted (Aborted): pass p1 was aborted",
			"Rollout pay Aborted Aborted",
			"kubectl -n team annotate rollout pay --overwrite 'magosproject.io/retry-step=p1/staging'",
		},
		"without members": {
			Scene{Project: project(), Rollout: empty},
			"Rollout pay in step dev (1 of 3) is halted by a selector that matches no Workspace of the Project (NoWorkspacesFound): the selector of step \"dev\" matches no Workspace",
			"Rollout pay Failed NoWorkspacesFound",
			"mend the selector",
		},
		"without its Project": {
			Scene{Rollout: rollout(0, v1alpha1.RolloutFailed, v1alpha1.ReasonProjectNotFound, "m")},
			"Rollout pay in step dev (1 of 3) waits for its Project, which does not exist (ProjectNotFound), because Project pay does not exist in namespace team (ProjectNotFound)",
			"Rollout pay Failed ProjectNotFound < Project pay  ProjectNotFound",
			"create the Project pay",
		},
		"edited a moment ago": {
			Scene{Project: project(), Rollout: edited, Members: []*v1alpha1.Workspace{failed("staging")}},
			"Rollout pay in step staging (2 of 3) is halted (WorkspaceFailed), because the rollout service has not looked at its present spec yet",
			"Rollout pay Failed WorkspaceFailed < Rollout pay  ",
			"magos-rollout runs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkExplanation(t, Rollout(c.scene), c.sentence, c.chain, c.wayOut)
		})
	}
}

func checkExplanation(t *testing.T, e Explanation, sentence, chain, wayOut string) {
	t.Helper()
	facts := make([]string, 0, len(e.Chain))
	for _, f := range e.Chain {
		facts = append(facts, f.Kind+" "+f.Name+" "+f.Phase+" "+f.Reason)
	}
	if e.Sentence != sentence {
		t.Errorf("sentence\n  %s\nwant\n  %s", e.Sentence, sentence)
	}
	if got := strings.Join(facts, " < "); got != chain {
		t.Errorf("chain\n  %s\nwant\n  %s", got, chain)
	}
	if !strings.Contains(e.WayOut, wayOut) || strings.ContainsAny(e.WayOut, "{}") {
		t.Errorf("way out %q, want one that says %q", e.WayOut, wayOut)
	}
}

// Whatever reason a Workspace or Rollout gives, the answer is one line that names it, and a way out without a gap.
func TestEveryReasonMakesASentenceAndAWayOut(t *testing.T) {
	all := slices.Sorted(maps.Keys(reasons))
	for _, reason := range declared(t) {
		all = append(all, reason)
	}
	for _, reason := range all {
		for _, phase := range []v1alpha1.Phase{v1alpha1.PhasePending, v1alpha1.PhasePlanned, v1alpha1.PhaseFailed} {
			checkAnswer(t, reason, Workspace(Scene{Workspace: workspace("prod", phase, reason, "said so"), Project: project(), Rollout: halted()}))
		}
		checkAnswer(t, reason, Rollout(Scene{Project: project(), Rollout: rollout(1, v1alpha1.RolloutFailed, reason, "said so"), Members: []*v1alpha1.Workspace{failed("staging")}}))
	}
}

func checkAnswer(t *testing.T, reason string, e Explanation) {
	t.Helper()
	switch {
	case !strings.Contains(e.Sentence, "("+reason+")") || strings.Contains(e.Sentence, "\n"):
		t.Errorf("%s: sentence %q", reason, e.Sentence)
	case e.WayOut == "" || strings.ContainsAny(e.WayOut, "{}"):
		t.Errorf("%s: way out %q", reason, e.WayOut)
	}
}

func TestTheMemberThatHoldsAStepIsTheSameInAnyOrder(t *testing.T) {
	r := halted()
	for i := range r.Status.Pass.Steps {
		r.Status.Pass.Steps[i].Selector.MatchLabels = map[string]string{"step": r.Status.Pass.Steps[i].Name}
	}
	in := func(w *v1alpha1.Workspace) *v1alpha1.Workspace {
		w.Labels = map[string]string{"step": "staging"}
		return w
	}
	parked := in(workspace("a", v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingApproval, ""))
	parked.Status.AwaitingApproval = &v1alpha1.AwaitingApproval{}
	members := []*v1alpha1.Workspace{in(waits("b")), parked, in(failed("d")), in(failed("c")), in(applied("e", "p1"))}
	for range len(members) {
		members = append(members[1:], members[0])
		if m := blocking(Scene{Rollout: r, Members: members}, nil); m.Name != "c" {
			t.Errorf("%s holds the step, want c", m.Name)
		}
	}
	members = slices.DeleteFunc(members, func(m *v1alpha1.Workspace) bool { return m.Status.Phase == v1alpha1.PhaseFailed })
	if m := blocking(Scene{Rollout: r, Members: members}, nil); m.Name != "a" {
		t.Errorf("%s holds the step, want the one that waits for a person", m.Name)
	}
	if m := blocking(Scene{Rollout: r, Members: []*v1alpha1.Workspace{in(applied("e", "p1")), in(applied("f", "p0"))}}, nil); m != nil {
		t.Errorf("%s is done and holds the step", m.Name)
	}
}

func TestALongMessageIsQuotedInPart(t *testing.T) {
	e := Workspace(Scene{Workspace: workspace("prod", v1alpha1.PhaseFailed, v1alpha1.ReasonPlanFailed, "  \n"+strings.Repeat("ä", 1000)+"\nsecond")})
	if len(e.Sentence) > 400 || !strings.HasSuffix(e.Sentence, "ä...") || strings.Contains(e.Sentence, "second") {
		t.Errorf("sentence %q", e.Sentence)
	}
	if e.Chain[0].Message == "" {
		t.Error("the fact lost its message")
	}
}
