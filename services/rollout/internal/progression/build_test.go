package progression

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

const (
	repo    = "https://example.com/infra.git"
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	commitC = "cccccccccccccccccccccccccccccccccccccccc"
	passID  = "mgr8"
)

var (
	start   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	later   = start.Add(time.Minute)
	mainKey = Key{RepoURL: repo, TargetRevision: "main"}
)

// stepsOf returns steps that select by the label env, one per name.
func stepsOf(names ...string) []v1alpha1.RolloutStep {
	steps := make([]v1alpha1.RolloutStep, len(names))
	for i, name := range names {
		steps[i] = v1alpha1.RolloutStep{Name: name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": name}}}
	}
	return steps
}

func project(orchestration v1alpha1.Orchestration) *v1alpha1.Project {
	return &v1alpha1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: "pay", Namespace: "default", Generation: 1},
		Spec:       v1alpha1.ProjectSpec{Orchestration: orchestration},
	}
}

func rollout(steps ...v1alpha1.RolloutStep) *v1alpha1.Rollout {
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "pay", Namespace: "default", Generation: 1},
		Spec:       v1alpha1.RolloutSpec{ProjectRef: "pay", Strategy: v1alpha1.RolloutStrategy{Steps: steps}},
	}
}

// inPass returns a Rollout whose pass, pinned to commit (none when empty), has come to the given step.
func inPass(step int, commit string, names ...string) *v1alpha1.Rollout {
	r := rollout(stepsOf(names...)...)
	began := metav1.NewTime(start)
	r.Status.Pass = &v1alpha1.RolloutPass{ID: passID, StartedAt: began, Steps: stepsOf(names...)}
	if commit != "" {
		r.Status.Pass.Revisions = []v1alpha1.PinnedRevision{{RepoURL: repo, TargetRevision: "main", Revision: commit}}
	}
	r.Status.Steps = pending(r.Status.Pass.Steps)
	for i := range step {
		r.Status.Steps[i].Phase = v1alpha1.StepSucceeded
		r.Status.Steps[i].StartedAt, r.Status.Steps[i].FinishedAt = &began, &began
	}
	r.Status.CurrentStep = int32(step)
	return r
}

// afterPass returns a Rollout whose pass has ended.
func afterPass(commit string, names ...string) *v1alpha1.Rollout {
	r := inPass(len(names)-1, commit, names...)
	ended := metav1.NewTime(start)
	r.Status.Pass.FinishedAt = &ended
	return r
}

type option func(*v1alpha1.Workspace)

// member returns a Workspace with the label env that has never run, unless the options say otherwise.
func member(name, env string, options ...option) *v1alpha1.Workspace {
	m := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Generation: 1, Labels: map[string]string{"env": env}, Annotations: map[string]string{}},
		Spec: v1alpha1.WorkspaceSpec{
			ProjectRef: v1alpha1.ProjectReference{Name: "pay"},
			Source:     v1alpha1.WorkspaceSource{RepoURL: repo, TargetRevision: "main"},
		},
		Status: v1alpha1.WorkspaceStatus{ObservedGeneration: 1},
	}
	for _, o := range options {
		o(m)
	}
	return m
}

func wants(trigger v1alpha1.Trigger) option {
	return func(m *v1alpha1.Workspace) { m.Status.Wants = &v1alpha1.Want{Trigger: trigger} }
}

func applied(commit, pass string) option {
	return func(m *v1alpha1.Workspace) {
		m.Status.Applied = &v1alpha1.AppliedState{Pass: pass, RunID: "applied-" + pass, Revision: commit}
	}
}

func run(phase v1alpha1.RunPhase, trigger v1alpha1.Trigger, pass, commit string) option {
	return func(m *v1alpha1.Workspace) {
		m.Status.Run = &v1alpha1.WorkspaceRun{ID: "run-" + pass, Phase: phase, Trigger: trigger, Pass: pass, Revision: commit}
	}
}

func failures(commit string) option {
	return func(m *v1alpha1.Workspace) {
		m.Status.Failures = &v1alpha1.Failures{Count: 1, LastReason: v1alpha1.ReasonPlanFailed, Revision: commit}
	}
}

func detected(commit string) option {
	return func(m *v1alpha1.Workspace) {
		m.Annotations[v1alpha1.AnnotationDetectedRevision] = commit
		m.Annotations[v1alpha1.AnnotationDetectedFor] = v1alpha1.GrantSubject(m)
	}
}

func deleting(m *v1alpha1.Workspace) {
	t := metav1.NewTime(start)
	m.DeletionTimestamp = &t
}

func resolved(commit string) map[Key]Resolution {
	return map[Key]Resolution{mainKey: {Revision: commit}}
}

func runGrant(m *v1alpha1.Workspace, pass, commit string) v1alpha1.Grant {
	return v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: pass, Revision: commit, For: v1alpha1.GrantSubject(m)}
}
