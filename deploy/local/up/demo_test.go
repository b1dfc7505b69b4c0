package up

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

const commit, older = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"

func applied(name, revision string) *magosv1alpha1.Workspace {
	return &magosv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{magosv1alpha1.AnnotationDetectedRevision: revision}},
		Status:     magosv1alpha1.WorkspaceStatus{Phase: magosv1alpha1.PhaseApplied, Reason: "ApplySucceeded", ObservedRevision: revision},
	}
}

func settledView() view {
	return view{
		rollout:    &magosv1alpha1.Rollout{Status: magosv1alpha1.RolloutStatus{Phase: magosv1alpha1.RolloutSucceeded}},
		workspaces: []*magosv1alpha1.Workspace{applied("demo-dev", commit), applied("demo-staging", commit), applied("demo-prod", commit)},
	}
}

func TestTheDemoIsSettledOnlyWhenNothingIsLeftToDo(t *testing.T) {
	cases := map[string]struct {
		change func(view)
		commit string
		want   bool
	}{
		"all have applied the same":         {func(view) {}, "", true},
		"all have applied what was pushed":  {func(view) {}, commit, true},
		"all have applied what was before":  {func(view) {}, older, false},
		"one is behind":                     {func(v view) { v.workspaces[2].Status.ObservedRevision = older }, "", false},
		"one has applied nothing":           {func(v view) { v.workspaces[0].Status.ObservedRevision = "" }, "", false},
		"one is busy":                       {func(v view) { v.workspaces[1].Status.Phase = magosv1alpha1.PhasePlanning }, "", false},
		"one has seen a newer commit":       {func(v view) { v.workspaces[0].Annotations[magosv1alpha1.AnnotationDetectedRevision] = older }, "", false},
		"one wants a run":                   {func(v view) { want(v, magosv1alpha1.TriggerSpec) }, "", false},
		"one wants to look for drift":       {func(v view) { want(v, magosv1alpha1.TriggerDrift) }, "", true},
		"the Rollout has not yet noticed":   {func(v view) { v.rollout.Status.Phase = magosv1alpha1.RolloutProgressing }, "", false},
		"the Rollout has had no pass since": {func(v view) { v.rollout.Status.Phase = magosv1alpha1.RolloutIdle }, "", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := settledView()
			c.change(v)
			if _, got := v.settled(c.commit); got != c.want {
				t.Errorf("settled is %v, want %v", got, c.want)
			}
		})
	}
}

func want(v view, trigger magosv1alpha1.Trigger) {
	v.workspaces[0].Status.Wants = &magosv1alpha1.Want{Trigger: trigger}
}

func TestAFailureSaysWhoFailedAndWhy(t *testing.T) {
	v := settledView()
	if err := v.failure(); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
	v.workspaces[1].Status.Phase, v.workspaces[1].Status.Reason, v.workspaces[1].Status.Message = magosv1alpha1.PhaseFailed, "PlanFailed", "no such file"
	if err := v.failure(); err == nil || !strings.Contains(err.Error(), "demo-staging failed (PlanFailed): no such file") {
		t.Errorf("got %v", err)
	}
}

func TestWithoutATerminalEachChangeIsALine(t *testing.T) {
	var output bytes.Buffer
	table := newTable(&output)
	v := settledView()
	v.workspaces[2].Status = magosv1alpha1.WorkspaceStatus{Phase: magosv1alpha1.PhasePending, Reason: "AwaitingRollout"}
	table.show(v)
	table.show(v)
	v.workspaces[2].Status = magosv1alpha1.WorkspaceStatus{
		Phase: magosv1alpha1.PhasePlanning, Reason: "PlanRunning", Run: &magosv1alpha1.WorkspaceRun{Revision: older},
	}
	table.show(v)
	lines := strings.Split(strings.TrimRight(output.String(), "\n"), "\n")
	if len(lines) != 5 {
		t.Fatalf("want a head, three rows and one change, got:\n%s", output.String())
	}
	for _, part := range []string{"prod", "demo-prod", "Planning", "PlanRunning", older[:12]} {
		if !strings.Contains(lines[4], part) {
			t.Errorf("the change %q does not say %q", lines[4], part)
		}
	}
}

func TestValuesAreMergedKeyByKey(t *testing.T) {
	got := merge(
		map[string]any{"runner": map[string]any{"image": "a", "runImage": "b"}, "logLevel": "info"},
		map[string]any{"runner": map[string]any{"runImage": "c"}, "rollout": map[string]any{"replicas": 1}},
	)
	want := map[string]any{
		"runner": map[string]any{"image": "a", "runImage": "c"}, "logLevel": "info", "rollout": map[string]any{"replicas": 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
