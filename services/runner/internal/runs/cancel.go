package runs

import (
	"context"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
)

// Cancel ends one phase of a run. A Job that does not exist is made as a tombstone; one whose pod has not started is
// voided; a pod that runs is asked to end, or goes on with onlyIfNotStarted. Errors are of package rpcerr.
func (r *Runs) Cancel(ctx context.Context, key execution.Key, onlyIfNotStarted bool) (run Run, err error) {
	if err := invalid(execution.CheckKey(key)); err != nil {
		return Run{}, err
	}
	ws, err := r.workspace(ctx, key)
	if err != nil {
		return Run{}, err
	}
	for range conflictTries {
		run, err = r.cancel(ctx, ws, key, onlyIfNotStarted)
		// AlreadyExists: the Job came into being between the look and the tombstone.
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return run, err
}

func (r *Runs) cancel(ctx context.Context, ws *v1alpha1.Workspace, key execution.Key, onlyIfNotStarted bool) (Run, error) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: execution.JobName(key.RunID, key.Phase)}
	job := &batchv1.Job{}
	err := r.API.Get(ctx, name, job)
	if apierrors.IsNotFound(err) {
		return r.bury(ctx, ws, key)
	}
	if err != nil {
		return Run{}, fmt.Errorf("reading job %s: %w", name, err)
	}
	o, err := r.Observe(ctx, r.API, job)
	if err != nil {
		return Run{}, err
	}
	j := execution.Judge(o)
	if j.State.Terminal() || onlyIfNotStarted && j.State != execution.StatePending {
		return r.describe(ctx, r.API, job)
	}
	if j.State == execution.StatePending && !execution.IsVoid(job) {
		if err := r.Void(ctx, job); err != nil {
			return Run{}, err
		}
	}
	if err := r.EndPods(ctx, job); err != nil {
		return Run{}, err
	}
	return r.describe(ctx, r.API, job)
}

// bury makes the tombstone. The Workspace is held first, so that the tombstone is removed with it; one that is being
// deleted cannot be held any more, and then the tombstone goes as an orphan.
func (r *Runs) bury(ctx context.Context, ws *v1alpha1.Workspace, key execution.Key) (Run, error) {
	if ws.DeletionTimestamp.IsZero() {
		fresh, err := r.workspace(ctx, key)
		if err != nil {
			return Run{}, err
		}
		if fresh.DeletionTimestamp.IsZero() {
			if err := r.hold(ctx, fresh); err != nil {
				return Run{}, err
			}
		}
	}
	tombstone, err := execution.RenderTombstone(key, r.Settings, r.Now())
	if err != nil {
		return Run{}, err
	}
	err = r.Writer.Create(ctx, tombstone)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// Nothing can be created in a namespace that is being deleted, so that no tombstone is needed, unless the Job came into being
		// just before.
		err = r.absent(ctx, tombstone)
	}
	if err != nil {
		return Run{}, fmt.Errorf("creating the tombstone %s/%s: %w", tombstone.Namespace, tombstone.Name, err)
	}
	return r.describe(ctx, r.API, tombstone)
}

// absent is nil where the API server has no Job of this name, and an AlreadyExists where it has one.
func (r *Runs) absent(ctx context.Context, job *batchv1.Job) error {
	err := r.API.Get(ctx, client.ObjectKeyFromObject(job), &batchv1.Job{})
	if err == nil {
		return apierrors.NewAlreadyExists(batchv1.Resource("jobs"), job.Name)
	}
	return client.IgnoreNotFound(err)
}

// Void suspends a Job of which no container has run, and marks it as cancelled.
func (r *Runs) Void(ctx context.Context, job *batchv1.Job) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": job.UID, "resourceVersion": job.ResourceVersion,
			"annotations": map[string]string{v1alpha1.AnnotationRunVoid: "true"},
		},
		"spec": map[string]any{"suspend": true},
	})
	if err != nil {
		return fmt.Errorf("rendering the patch of job %s/%s: %w", job.Namespace, job.Name, err)
	}
	if err := r.Writer.Patch(ctx, job, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("voiding job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return nil
}

// EndPods asks every pod of the Job to end, with its own grace. One that was asked before is not asked again: that could
// shorten its grace.
func (r *Runs) EndPods(ctx context.Context, job *batchv1.Job) error {
	pods := &corev1.PodList{}
	selector := client.MatchingLabels{v1alpha1.LabelRunID: job.Labels[v1alpha1.LabelRunID], v1alpha1.LabelRunPhase: job.Labels[v1alpha1.LabelRunPhase]}
	if err := r.API.List(ctx, pods, client.InNamespace(job.Namespace), selector); err != nil {
		return fmt.Errorf("listing the pods of job %s/%s: %w", job.Namespace, job.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !pod.DeletionTimestamp.IsZero() || execution.PodEnded(pod, execution.Witness{Now: r.Now(), NodeLossGrace: r.NodeLossGrace}) {
			continue
		}
		err := r.Writer.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}
