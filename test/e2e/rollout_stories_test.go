package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

// TestProdGetsTheCommitThatDevProvedAndAPersonApproved: one pass holds its commit although a newer one is pushed while it waits, the
// next is aborted and prod keeps what it has, and the commit after that goes through again.
func TestProdGetsTheCommitThatDevProvedAndAPersonApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ns := w.namespace("e2e-rollout")
	r := rolloutStory{repository: w.clone(), ns: ns}
	const soak = 3 * time.Second

	project := newProject(ns, "pay")
	project.Spec.Orchestration = v1alpha1.OrchestrationRollout
	ro := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pay"}}
	ro.Spec.ProjectRef = "pay"
	for _, step := range []string{"dev", "prod"} {
		ro.Spec.Strategy.Steps = append(ro.Spec.Strategy.Steps, v1alpha1.RolloutStep{
			Name: step, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": step}},
		})
	}
	ro.Spec.Strategy.Steps[0].Soak = &metav1.Duration{Duration: soak}
	ro.Spec.Strategy.Steps[1].Approval = &v1alpha1.ApprovalRequirement{Required: true}
	first := r.commit("first")
	w.create(project, ro)
	for _, step := range []string{"dev", "prod"} {
		ws := newWorkspace(ns, "pay", step, "pay", "pay/"+step)
		ws.Labels = map[string]string{"env": step}
		w.create(ws)
	}

	pass := r.awaitsApproval()
	dev := w.expectApplied(ns, "dev", first)
	if waited := pass.step("dev").FinishedAt.Sub(dev.Status.Applied.At.Time); waited < soak-time.Second {
		t.Errorf("dev soaked for %v, want %v (the API keeps whole seconds)", waited, soak)
	}
	if got := r.applied("prod"); got != "" {
		t.Fatalf("prod is at %s before anybody approved", got)
	}

	second := r.commit("second")
	r.eventually("the second commit was found", func(ctx context.Context) error {
		ws, err := r.workspace(ctx, ns, "dev")
		if err != nil {
			return err
		}
		if found := ws.Annotations[v1alpha1.AnnotationDetectedRevision]; found != second {
			return fmt.Errorf("found is %s", found)
		}
		return nil
	})
	r.annotate(ro, v1alpha1.AnnotationApprovedStep, pass.id()+"/prod")
	w.expectApplied(ns, "prod", first)

	next := r.awaitsApproval()
	if next.id() == pass.id() {
		t.Fatalf("pass %s promotes two commits", pass.id())
	}
	w.expectApplied(ns, "dev", second)
	// The word for the pass before does not open this one.
	r.annotate(ro, v1alpha1.AnnotationApprovedStep, pass.id()+"/prod")
	r.eventually("the old approval is removed", func(ctx context.Context) error {
		now := r.rollout(ctx)
		if _, there := now.Annotations[v1alpha1.AnnotationApprovedStep]; there {
			return fmt.Errorf("it is still there; %s/%s", now.Status.Phase, now.Status.Reason)
		}
		return nil
	})
	r.annotate(ro, v1alpha1.AnnotationAbort, next.id())
	r.eventually("the pass is aborted", func(ctx context.Context) error {
		if now := r.rollout(ctx); now.Status.Phase != v1alpha1.RolloutAborted {
			return fmt.Errorf("it is %s/%s: %s", now.Status.Phase, now.Status.Reason, now.Status.Message)
		}
		return nil
	})
	if got := r.applied("prod"); got != first {
		t.Fatalf("prod is at %s after the abort, want %s", got, first)
	}

	third := r.commit("third")
	last := r.awaitsApproval()
	if last.id() == next.id() || r.applied("prod") != first {
		t.Fatalf("pass %s, prod at %s: want a new pass and prod at %s", last.id(), r.applied("prod"), first)
	}
	r.annotate(ro, v1alpha1.AnnotationApprovedStep, last.id()+"/prod")
	w.expectApplied(ns, "prod", third)
	r.eventually("the Rollout has succeeded", func(ctx context.Context) error {
		if now := r.rollout(ctx); now.Status.Phase != v1alpha1.RolloutSucceeded {
			return fmt.Errorf("it is %s/%s: %s", now.Status.Phase, now.Status.Reason, now.Status.Message)
		}
		return nil
	})
	var results []v1alpha1.PassResult
	for _, past := range r.rollout(t.Context()).Status.History {
		results = append(results, past.Result)
	}
	if len(results) != 3 {
		t.Errorf("history has %v, want the aborted pass between two that succeeded", results)
	}
}

// rolloutStory is a Rollout of two steps and its branch.
type rolloutStory struct {
	repository
	ns string
}

// commit pushes a change of both steps.
func (r rolloutStory) commit(input string) string {
	r.Helper()
	for _, step := range []string{"dev", "prod"} {
		r.write(map[string]string{"pay/" + step + "/main.tf": module(r.ns, step, fmt.Sprintf("resource \"terraform_data\" \"a\" {\n  input = %q\n}\n", input))})
	}
	return r.push("pay", input)
}

func (r rolloutStory) rollout(ctx context.Context) seen {
	r.Helper()
	ro := &v1alpha1.Rollout{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: r.ns, Name: "pay"}, ro); err != nil {
		r.Fatal(err)
	}
	return seen{r.world, ro}
}

func (r rolloutStory) applied(name string) string {
	r.Helper()
	ws, err := r.workspace(r.Context(), r.ns, name)
	if err != nil {
		r.Fatal(err)
	}
	return ws.Status.ObservedRevision
}

// awaitsApproval waits until the pass stands before prod.
func (r rolloutStory) awaitsApproval() (found seen) {
	r.Helper()
	r.eventually("the pass waits for approval", func(ctx context.Context) error {
		if found = r.rollout(ctx); found.Status.Phase != v1alpha1.RolloutAwaitingApproval {
			return fmt.Errorf("it is %s/%s: %s", found.Status.Phase, found.Status.Reason, found.Status.Message)
		}
		return nil
	})
	return found
}

// seen is a Rollout as it was read.
type seen struct {
	world
	*v1alpha1.Rollout
}

func (s seen) id() string { s.Helper(); return s.Status.Pass.ID }

func (s seen) step(name string) v1alpha1.RolloutStepStatus {
	s.Helper()
	for _, step := range s.Status.Steps {
		if step.Name == name {
			return step
		}
	}
	s.Fatalf("no step %s in %+v", name, s.Status.Steps)
	return v1alpha1.RolloutStepStatus{}
}
