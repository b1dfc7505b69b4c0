package controller

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
)

// A new leader whose cache is behind sees the Rollout at an earlier step. Members are as they are.
func TestOlderViewOfThePassGrantsNothing(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.mustReconcile()
	old := h.rollout()
	h.settle()
	// dev has lost its grant; in the old view it is dev's turn, and it is not done there.
	dev := h.workspace("d")
	dev.Status.Applied.Pass, dev.Status.Wants = "other", &v1alpha1.Want{Trigger: v1alpha1.TriggerManual, Since: dev.CreationTimestamp}
	if err := h.admin.Status().Update(t.Context(), dev); err != nil {
		t.Fatal(err)
	}
	h.restart(0, crash.Before)
	h.reconciler.config.Client = interceptor.NewClient(h.process, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if r, ok := o.(*v1alpha1.Rollout); ok {
				old.DeepCopyInto(r)
				return nil
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	h.mustReconcile()
	if held := heldGrant(h.workspace("d")); len(held) > 0 {
		t.Errorf("dev was granted %v on an old view of the pass", held)
	}
}

// A cache that has not seen a new Rollout still takes the Project for the orchestrator.
func TestOlderViewWithoutTheRolloutGrantsNothing(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.reconciler.config.Client = interceptor.NewClient(h.process, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if _, ok := o.(*v1alpha1.Rollout); ok {
				return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("rollouts").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	h.mustReconcile()
	for _, name := range []string{"d", "s", "p"} {
		if held := heldGrant(h.workspace(name)); len(held) > 0 {
			t.Errorf("%s was granted %v", name, held)
		}
	}
}

// The Workspace is repointed between the decision and the grant: the grant does not land.
func TestGrantDoesNotLandOnAChangedWorkspace(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	changed := false
	h.reconciler.config.Client = interceptor.NewClient(h.process, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if !changed {
				changed = true
				w := h.workspace(o.GetName())
				w.Spec.Source.TargetRevision = "other"
				if err := h.admin.Update(ctx, w); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	result := h.mustReconcile()
	if held := heldGrant(h.workspace("d")); !changed || len(held) > 0 {
		t.Errorf("changed %v, d holds %v", changed, held)
	}
	if result.RequeueAfter == 0 {
		t.Error("a conflict does not make it decide again")
	}
}
