package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runs"
)

// Workspaces deletes the Jobs of old runs, and everything of a Workspace that is going or gone.
type Workspaces struct {
	Runs *runs.Runs
}

// Reconcile is one pass over one Workspace.
func (c *Workspaces) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ws := &v1alpha1.Workspace{}
	err := c.Runs.Cache.Get(ctx, request.NamespacedName, ws)
	if apierrors.IsNotFound(err) {
		ws = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading workspace %s: %w", request.NamespacedName, err)
	}
	own, foreign, err := c.jobs(ctx, request.NamespacedName, ws)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(foreign) > 0 {
		if err := c.clearForeign(ctx, request.NamespacedName, foreign); err != nil {
			return decideAgain(err)
		}
	}
	var rest time.Duration
	switch {
	case ws == nil:
	case ws.DeletionTimestamp.IsZero():
		err = c.deleteJobs(ctx, execution.Surplus(own, runsInUse(ws)))
	default:
		var gone bool
		if gone, err = c.tearDown(ctx, ws, own); !gone {
			rest = leftoverRecheck
		}
	}
	if err != nil {
		return decideAgain(err)
	}
	return reconcile.Result{RequeueAfter: rest}, nil
}

// runsInUse are the present run and the last that was applied, in whole or in part: what people read of them is kept, and what a destroy needs.
func runsInUse(ws *v1alpha1.Workspace) []string {
	var ids []string
	if ws.Status.Run != nil {
		ids = append(ids, ws.Status.Run.ID)
	}
	if ws.Status.Applied != nil {
		ids = append(ids, ws.Status.Applied.RunID)
	}
	if ws.Status.LastApply != nil {
		ids = append(ids, ws.Status.LastApply.RunID)
	}
	return ids
}

// jobs are the Jobs of the Workspace, and those of others that had its name before; all are foreign where there is none.
func (c *Workspaces) jobs(ctx context.Context, name types.NamespacedName, ws *v1alpha1.Workspace) (own, foreign []*batchv1.Job, err error) {
	list := &batchv1.JobList{}
	if err := c.Runs.Cache.List(ctx, list, client.InNamespace(name.Namespace), client.MatchingLabels{v1alpha1.LabelWorkspace: name.Name}); err != nil {
		return nil, nil, fmt.Errorf("listing the jobs of workspace %s: %w", name, err)
	}
	for i := range list.Items {
		job := &list.Items[i]
		if ws != nil && job.Labels[v1alpha1.LabelWorkspaceUID] == string(ws.UID) {
			own = append(own, job)
		} else {
			foreign = append(foreign, job)
		}
	}
	return own, foreign, nil
}

// clearForeign deletes ended Jobs of Workspaces that are gone. The cache may be behind, so the API server is asked.
func (c *Workspaces) clearForeign(ctx context.Context, name types.NamespacedName, foreign []*batchv1.Job) error {
	leftover := execution.Leftover(foreign)
	if len(leftover) == 0 {
		return nil
	}
	ws := &v1alpha1.Workspace{}
	if err := c.Runs.API.Get(ctx, name, ws); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading workspace %s: %w", name, err)
	}
	present := string(ws.UID)
	leftover = slices.DeleteFunc(leftover, func(job *batchv1.Job) bool {
		return present != "" && job.Labels[v1alpha1.LabelWorkspaceUID] == present
	})
	return c.deleteJobs(ctx, leftover)
}

func (c *Workspaces) deleteJobs(ctx context.Context, jobs []*batchv1.Job) error {
	for _, job := range jobs {
		err := c.Runs.Writer.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	return nil
}

// tearDown removes what a Workspace that is being deleted has left, once no run of it can start any more; gone says that
// nothing of it is left.
func (c *Workspaces) tearDown(ctx context.Context, ws *v1alpha1.Workspace, own []*batchv1.Job) (gone bool, err error) {
	if !slices.Contains(ws.Finalizers, v1alpha1.FinalizerRunner) {
		return true, nil
	}
	if !settled(ws) {
		return false, c.disown(ctx, ws)
	}
	if err := c.deleteJobs(ctx, execution.Leftover(own)); err != nil {
		return false, err
	}
	if len(own) > 0 {
		return false, nil
	}
	if empty, err := c.nothingLeft(ctx, ws); err != nil || !empty {
		return false, err
	}
	return true, c.letGo(ctx, ws)
}

// letGo removes the volume and what ConfigMaps are left, and then the runner's finalizer.
func (c *Workspaces) letGo(ctx context.Context, ws *v1alpha1.Workspace) error {
	selector := client.MatchingLabels{v1alpha1.LabelWorkspaceUID: string(ws.UID)}
	if err := deleteConfigMaps(ctx, c.Runs, ws.Namespace, selector); err != nil {
		return err
	}
	if err := c.deleteVolume(ctx, ws); err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(ws.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerRunner })
	return client.IgnoreNotFound(status.PatchFinalizers(ctx, c.Runs.Writer, ws.DeepCopy(), rest))
}

// deleteConfigMaps deletes the ConfigMaps of runs that the labels select, also those whose Job never came to be.
func deleteConfigMaps(ctx context.Context, r *runs.Runs, namespace string, selector client.MatchingLabels) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := r.API.List(ctx, list, client.InNamespace(namespace), selector); err != nil {
		return fmt.Errorf("listing the configmaps of runs in %s: %w", namespace, err)
	}
	for i := range list.Items {
		config := &list.Items[i]
		config.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := r.Writer.Delete(ctx, config, client.Preconditions{UID: &config.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting configmap %s/%s: %w", namespace, config.Name, err)
		}
	}
	return nil
}

// deleteVolume deletes the Workspace's volume, and no other that has its name.
func (c *Workspaces) deleteVolume(ctx context.Context, ws *v1alpha1.Workspace) error {
	claim := &corev1.PersistentVolumeClaim{}
	name := types.NamespacedName{Namespace: ws.Namespace, Name: execution.VolumeName(ws.Name)}
	if err := c.Runs.API.Get(ctx, name, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.Labels[v1alpha1.LabelWorkspaceUID] != string(ws.UID) || !claim.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := c.Runs.Writer.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting persistentvolumeclaim %s: %w", name, err)
	}
	return nil
}

// settled reports whether the workspace service will start nothing more: it has let go, or its run is over and it has nothing to destroy.
func settled(ws *v1alpha1.Workspace) bool {
	if ws.Spec.DeletionPolicy == v1alpha1.DeletionDestroy {
		return !slices.Contains(ws.Finalizers, v1alpha1.FinalizerWorkspace)
	}
	return !slices.Contains(ws.Finalizers, v1alpha1.FinalizerWorkspace) || ws.Status.Run == nil || ws.Status.Run.Phase.Terminal()
}

// disown takes the owner reference off the volume of a Workspace whose run still needs it: a foreground deletion would
// take it away.
func (c *Workspaces) disown(ctx context.Context, ws *v1alpha1.Workspace) error {
	claim := &corev1.PersistentVolumeClaim{}
	name := types.NamespacedName{Namespace: ws.Namespace, Name: execution.VolumeName(ws.Name)}
	if err := c.Runs.API.Get(ctx, name, claim); err != nil {
		return client.IgnoreNotFound(err)
	}
	if claim.Labels[v1alpha1.LabelWorkspaceUID] != string(ws.UID) || len(claim.OwnerReferences) == 0 || !claim.DeletionTimestamp.IsZero() {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "ownerReferences": []string{},
	}})
	if err != nil {
		return fmt.Errorf("rendering the patch of persistentvolumeclaim %s: %w", name, err)
	}
	if err := c.Runs.Writer.Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("taking the owner off persistentvolumeclaim %s: %w", name, err)
	}
	return nil
}

// nothingLeft asks the API server whether the Workspace has neither Jobs nor live pods.
func (c *Workspaces) nothingLeft(ctx context.Context, ws *v1alpha1.Workspace) (bool, error) {
	selector := client.MatchingLabels{v1alpha1.LabelWorkspaceUID: string(ws.UID)}
	jobs := &metav1.PartialObjectMetadataList{}
	jobs.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	if err := c.Runs.API.List(ctx, jobs, client.InNamespace(ws.Namespace), selector, client.Limit(1)); err != nil {
		return false, fmt.Errorf("listing the jobs of workspace %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	if len(jobs.Items) > 0 {
		return false, nil
	}
	pods := &corev1.PodList{}
	if err := c.Runs.API.List(ctx, pods, client.InNamespace(ws.Namespace), selector); err != nil {
		return false, fmt.Errorf("listing the pods of workspace %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	for i := range pods.Items {
		if ended, err := c.Runs.PodEnded(ctx, &pods.Items[i]); err != nil || !ended {
			return false, err
		}
	}
	return true, nil
}

// Names of the controllers, which are also their metrics' labels.
const (
	jobsController       = "runs"
	workspacesController = "run-leftovers"
)

// leftoverRecheck finds what no event announces, such as a pod without a Job that ended.
const leftoverRecheck = time.Minute
