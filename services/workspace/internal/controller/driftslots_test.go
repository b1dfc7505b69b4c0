package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// nobody has no Workspaces.
type nobody struct{ client.Reader }

func (nobody) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func member(i int, version string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("w", i), UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: version}}
	w.Status.Applied = &v1alpha1.AppliedState{At: metav1.NewTime(began.Add(time.Duration(i) * time.Hour))}
	return w
}

func planning(w *v1alpha1.Workspace, trigger v1alpha1.Trigger) *v1alpha1.Workspace {
	w.Status.Run = &v1alpha1.WorkspaceRun{Trigger: trigger, Phase: v1alpha1.RunPlanning}
	return w
}

func TestDriftPlansAreBoundedAndTheMostOverdueBeginsFirst(t *testing.T) {
	slots := NewDriftSlots(2, nobody{})
	now := began.Add(1000 * time.Hour)
	take := func(i int) bool {
		t.Helper()
		taken, err := slots.take(t.Context(), member(i, "1"), now)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	for i, want := range map[int]bool{5: true, 6: true} {
		if take(i) != want {
			t.Fatalf("w%d has no place", i)
		}
	}
	for _, i := range []int{9, 7, 8} {
		if take(i) {
			t.Fatalf("w%d is the third of two", i)
		}
	}
	if !take(5) {
		t.Error("one that has its place was refused")
	}
	// The cache has yet to see the run of w5; that of w6 was never recorded, for somebody wrote in between.
	slots.observe(lifecycle.Snapshot{Workspace: member(5, "1")})
	slots.observe(lifecycle.Snapshot{Workspace: member(6, "2")})
	for _, c := range []struct {
		i    int
		want bool
	}{{9, false}, {8, false}, {7, true}, {8, false}} {
		if take(c.i) != c.want {
			t.Errorf("w%d: want %t", c.i, c.want)
		}
	}
	slots.observe(lifecycle.Snapshot{Workspace: planning(member(5, "2"), v1alpha1.TriggerDrift)})
	if take(9) || take(8) {
		t.Error("a drift plan that runs has lost its place")
	}
	slots.observe(lifecycle.Snapshot{Workspace: member(5, "3")})
	if take(9) || !take(8) {
		t.Error("w8 is the most overdue")
	}
	slots.forget(types.NamespacedName{Namespace: "team", Name: "w7"})
	if !take(9) {
		t.Error("a Workspace that is gone keeps its place")
	}
	// One that has stopped asking keeps nobody waiting.
	slots.forget(types.NamespacedName{Namespace: "team", Name: "w9"})
	slots.queue[types.NamespacedName{Namespace: "team", Name: "w1"}] = waiter{due: began, asked: now.Add(-waiterMemory - time.Second)}
	if !take(9) {
		t.Error("it waits for one that does not ask any more")
	}
}

func TestDriftNeverTakesWhatARunNeedsThatAPersonWaitsFor(t *testing.T) {
	slots := NewDriftSlots(10, nobody{})
	waiting := lifecycle.Snapshot{Workspace: planning(member(1, "1"), v1alpha1.TriggerRevision), Run: &lifecycle.RunView{State: lifecycle.RunPending}}
	slots.observe(waiting)
	elsewhere := member(3, "1")
	elsewhere.Namespace = "other"
	for _, c := range []struct {
		w    *v1alpha1.Workspace
		want bool
	}{{member(2, "1"), false}, {elsewhere, true}} {
		if taken, err := slots.take(t.Context(), c.w, began); err != nil || taken != c.want {
			t.Errorf("%s/%s: %t, want %t (%v)", c.w.Namespace, c.w.Name, taken, c.want, err)
		}
	}
	waiting.Run = &lifecycle.RunView{State: lifecycle.RunRunning}
	slots.observe(waiting)
	if taken, err := slots.take(t.Context(), member(2, "1"), began); err != nil || !taken {
		t.Errorf("the pod has started, and drift still waits (%v)", err)
	}
}

func TestARestartedServiceCountsTheDriftPlansThatRun(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	h.runner.Auto, h.runner.Empty = true, true
	h.until("applied", applied)
	h.runner.Auto = false
	h.advance(3 * time.Hour)
	h.until("a drift plan", func(w *v1alpha1.Workspace) bool { return lifecycle.IsDriftPlan(w) && w.Status.Run.PlanStartedAt != nil })
	slots := NewDriftSlots(1, ofNamespace{h})
	if taken, err := slots.take(t.Context(), member(2, "1"), h.now); err != nil || taken {
		t.Errorf("taken %t (%v): the only place is that of the plan that runs", taken, err)
	}
	h.workspaces.Drift = slots
	h.runner.Succeed("plan "+h.workspace().Status.Run.ID, true)
	h.passes(2)
	if taken, err := slots.take(t.Context(), member(2, "1"), h.now); err != nil || !taken {
		t.Errorf("taken %t (%v): the plan has ended", taken, err)
	}
}

func TestDriftThatAPlanFoundIsInStatusUntilItIsMended(t *testing.T) {
	h := newHarness(t)
	h.create(project(), standing())
	h.runner.Auto, h.runner.Empty = true, true
	h.until("applied", applied)
	h.runner.Auto = false
	h.advance(3 * time.Hour)
	id := h.until("a drift plan", func(w *v1alpha1.Workspace) bool { return lifecycle.IsDriftPlan(w) && w.Status.Run.PlanStartedAt != nil }).Status.Run.ID
	h.runner.Set("plan "+id, func(run *runnerv1alpha1.Run) {
		run.State = runnerv1alpha1.RunState_RUN_STATE_SUCCEEDED
		run.Plan = &runnerv1alpha1.PlanResult{Digest: "sealed-" + id, DriftedResources: []string{"aws_vpc.main", "aws_subnet.a"}, DriftedTotal: 31}
	})
	h.passes(1)
	drift := h.workspace().Status.Drift
	if drift == nil || drift.RunID != id || len(drift.Resources) != 2 || drift.Resources[0] != "aws_vpc.main" || drift.Total != 31 || drift.DetectedAt.IsZero() {
		t.Fatalf("drift %+v", drift)
	}
	h.until("applying", in(v1alpha1.RunApplying))
	h.runner.Succeed("apply "+id, false)
	if w := h.until("mended", applied); w.Status.Drift != nil {
		t.Errorf("drift %+v", w.Status.Drift)
	}
}

// ofNamespace lists the Workspaces of the test's namespace alone: other tests have theirs on the same API server.
type ofNamespace struct{ *harness }

func (c ofNamespace) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.admin.Get(ctx, key, o, opts...)
}

func (c ofNamespace) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return c.admin.List(ctx, list, client.InNamespace(c.namespace))
}
