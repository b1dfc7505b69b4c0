package controller

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/services/workspace/internal/inputs"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// observation is a Snapshot with the variables that a run would be given.
type observation struct {
	lifecycle.Snapshot
	composition inputs.Composition
	// kept is what the run that was applied last was given; nil unless a destroy is due and the runner has it.
	kept *runnerv1alpha1.GetInputsResponse
}

// errBehind says that the cache does not show yet what this process has written: there is nothing to decide on.
var errBehind = errors.New("the cache is behind")

// observe reads everything that the decision depends on. What it cannot see is an error; after one of the runner the
// Workspace is there all the same, so that status can say so.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observation, error) {
	w := &v1alpha1.Workspace{}
	if err := r.Client.Get(ctx, key, w); err != nil {
		return observation{}, err
	}
	if r.written.Behind(key, w) {
		return observation{}, errBehind
	}
	seen := observation{Snapshot: lifecycle.Snapshot{Now: r.Clock.Now(), Workspace: w}}
	project, err := r.observeProject(ctx, w, &seen)
	if err != nil {
		return observation{}, err
	}
	if lifecycle.IsDestroyDue(w) {
		if err := r.observeDestroy(ctx, w, &seen); err != nil {
			return seen, err
		}
	} else if err := r.observeInputs(ctx, w, project, &seen); err != nil {
		return observation{}, err
	}
	if half, ok := lifecycle.InFlight(w); ok {
		seen.Run, err = r.observeRun(ctx, w, half)
	}
	return seen, err
}

func (r *Reconciler) observeProject(ctx context.Context, w *v1alpha1.Workspace, seen *observation) (*v1alpha1.Project, error) {
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Spec.ProjectRef.Name}
	rollout := &v1alpha1.Rollout{}
	err := r.Client.Get(ctx, key, rollout)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("looking for Rollout %s: %w", key, err)
	}
	seen.Ordered = err == nil
	project := &v1alpha1.Project{}
	if err := r.Client.Get(ctx, key, project); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("looking for Project %s: %w", key, err)
	}
	seen.ProjectFound = true
	seen.Ordered = seen.Ordered || project.Spec.Orchestration == v1alpha1.OrchestrationRollout
	return project, nil
}

func (r *Reconciler) observeInputs(ctx context.Context, w *v1alpha1.Workspace, project *v1alpha1.Project, seen *observation) error {
	if project == nil {
		// The Project's variables are not known, so none are: the fingerprint of the spec is all there is.
		seen.Inputs = lifecycle.Inputs{Fingerprint: lifecycle.SpecFingerprint(w)}
		return nil
	}
	composition, objects, err := Variables{r.Client, r.Objects}.Of(ctx, project, w)
	if err != nil {
		return err
	}
	seen.composition = composition
	seen.Inputs = composition.Inputs(w, objects)
	return nil
}

// metadataOf is an empty object of a kind of the core group, for reads of metadata alone.
func metadataOf(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
}
