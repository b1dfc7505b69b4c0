package controller

import (
	"context"
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
	"magosproject.io/services/runner/internal/runspec"
)

// Jobs keeps the result of each run's Job, and then lets its Pods, and a deleted Job, go.
type Jobs struct {
	Runs    *runs.Runs
	Metrics *Metrics
}

// Reconcile is one pass over one Job: observe, decide, act once.
func (c *Jobs) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	job := &batchv1.Job{}
	err := c.Runs.Cache.Get(ctx, request.NamespacedName, job)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, c.releaseOrphans(ctx, request.NamespacedName)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading job %s: %w", request.NamespacedName, err)
	}
	o, err := c.Runs.Observe(ctx, c.Runs.Cache, job)
	if err != nil {
		return reconcile.Result{}, err
	}
	action, judgement := execution.Next(o)
	if action == execution.ActionReleaseJob {
		ws, err := c.workspaceOf(ctx, job)
		if err != nil {
			return reconcile.Result{}, err
		}
		if isAwaited(ws, job) {
			return reconcile.Result{RequeueAfter: awaitedRecheck}, nil
		}
		if err := c.releaseJob(ctx, job, ws); err != nil {
			return decideAgain(err)
		}
		return reconcile.Result{RequeueAfter: judgement.Recheck}, nil
	}
	if err := c.act(ctx, action, o, judgement); err != nil {
		return decideAgain(err)
	}
	return reconcile.Result{RequeueAfter: judgement.Recheck}, nil
}

// conflictPause is how long a changed object may take to reach the cache.
const conflictPause = 100 * time.Millisecond

// awaitedRecheck is when to look again at a deleted Job whose result is still to be read.
const awaitedRecheck = 5 * time.Second

// workspaceOf asks the API server for the Workspace that the Job was made for; nil when it is gone.
func (c *Jobs) workspaceOf(ctx context.Context, job *batchv1.Job) (*v1alpha1.Workspace, error) {
	key, _ := execution.KeyOf(job.Namespace, job.Labels)
	ws := &v1alpha1.Workspace{}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Workspace}
	if err := c.Runs.API.Get(ctx, name, ws); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", name, err)
	}
	if string(ws.UID) != key.WorkspaceUID {
		return nil, nil
	}
	return ws, nil
}

// isAwaited reports whether the Workspace has still to learn from the Job how this phase of its run ended: without it an apply
// that succeeded counts as lost.
func isAwaited(ws *v1alpha1.Workspace, job *batchv1.Job) bool {
	key, _ := execution.KeyOf(job.Namespace, job.Labels)
	if ws == nil || ws.Status.Run == nil || ws.Status.Run.ID != key.RunID || settled(ws) {
		return false
	}
	phase := ws.Status.Run.Phase
	return phase == v1alpha1.RunPlanning || phase == v1alpha1.RunApplying && key.Phase == runspec.PhaseApply
}

// decideAgain makes a conflict what it is: not a failure, but a reason to look at the object as it is now.
func decideAgain(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	return reconcile.Result{}, err
}

func (c *Jobs) act(ctx context.Context, action execution.Action, o execution.Observation, j execution.Judgement) error {
	switch action {
	case execution.ActionRecord:
		return c.record(ctx, o, j)
	case execution.ActionReleasePods:
		for _, pod := range execution.HeldPods(o) {
			if err := c.releasePod(ctx, pod); err != nil {
				return err
			}
		}
	case execution.ActionSuspend:
		return c.Runs.Void(ctx, o.Job.DeepCopy())
	case execution.ActionEndPods:
		return c.Runs.EndPods(ctx, o.Job)
	case execution.ActionDelete:
		// Without a precondition on its version: what else somebody makes of it, it stays void.
		err := c.Runs.Writer.Delete(ctx, o.Job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &o.Job.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting job %s/%s: %w", o.Job.Namespace, o.Job.Name, err)
		}
	case execution.ActionNone, execution.ActionReleaseJob:
	}
	return nil
}

// record keeps the result on the Job. What the cache does not show proves nothing: a result that rests on there being no
// pod is judged again over what the API server has.
func (c *Jobs) record(ctx context.Context, o execution.Observation, j execution.Judgement) error {
	if len(o.Pods) == 0 {
		fresh := &batchv1.Job{}
		if err := c.Runs.API.Get(ctx, client.ObjectKeyFromObject(o.Job), fresh); err != nil {
			return client.IgnoreNotFound(err)
		}
		o, err := c.Runs.Observe(ctx, c.Runs.API, fresh)
		if err != nil {
			return err
		}
		var action execution.Action
		if action, j = execution.Next(o); action != execution.ActionRecord {
			return nil
		}
		return c.write(ctx, fresh, j.Result)
	}
	return c.write(ctx, o.Job, j.Result)
}

func (c *Jobs) write(ctx context.Context, job *batchv1.Job, result execution.Result) error {
	if err := c.Runs.KeepReview(ctx, job, &result); err != nil {
		return err
	}
	if result.Plan != nil && result.Node != "" {
		arch, err := c.Runs.NodeArch(ctx, result.Node)
		if err != nil {
			return err
		}
		result.Arch = arch
	}
	text, err := result.Encode()
	if err != nil {
		return err
	}
	if err := status.PatchAnnotations(ctx, c.Runs.Writer, job.DeepCopy(), map[string]string{v1alpha1.AnnotationRunResult: text}, nil); err != nil {
		return err
	}
	c.Metrics.ended(job, result)
	return nil
}

func (c *Jobs) releasePod(ctx context.Context, pod *corev1.Pod) error {
	rest := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerResult })
	return client.IgnoreNotFound(status.PatchFinalizers(ctx, c.Runs.Writer, pod.DeepCopy(), rest))
}

// releaseJob lets a deleted Job go, after its ConfigMap and a look at what the API server has: the cache may not know a pod yet.
func (c *Jobs) releaseJob(ctx context.Context, job *batchv1.Job, ws *v1alpha1.Workspace) error {
	o, err := c.Runs.Observe(ctx, c.Runs.API, job)
	if err != nil {
		return err
	}
	if action, _ := execution.Next(o); action != execution.ActionReleaseJob {
		return nil
	}
	if err := c.deleteConfigMaps(ctx, job, ws); err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(job.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerRunner })
	return client.IgnoreNotFound(status.PatchFinalizers(ctx, c.Runs.Writer, job.DeepCopy(), rest))
}

// deleteConfigMaps deletes those of the Job, but not what a destroy may still need: a Job that somebody deletes by hand must not take it along. That
// goes with the Workspace.
func (c *Jobs) deleteConfigMaps(ctx context.Context, job *batchv1.Job, ws *v1alpha1.Workspace) error {
	key, _ := execution.KeyOf(job.Namespace, job.Labels)
	if ws != nil && key.Phase == runspec.PhasePlan && mayNeed(ws, key.RunID) && (!isGoing(ws) || !settled(ws)) {
		return nil
	}
	selector := client.MatchingLabels{v1alpha1.LabelRunID: key.RunID, v1alpha1.LabelRunPhase: key.Phase}
	return deleteConfigMaps(ctx, c.Runs, job.Namespace, selector)
}

// mayNeed reports whether a destroy of ws may need what the run was given: it left the state as it is, or may yet come to that.
func mayNeed(ws *v1alpha1.Workspace, runID string) bool {
	if run := ws.Status.Run; run != nil && run.ID == runID && run.ApplyRequestedAt != nil {
		return true
	}
	if last := ws.Status.LastApply; last != nil {
		return last.RunID == runID
	}
	return ws.Status.Applied != nil && ws.Status.Applied.RunID == runID
}

func isGoing(ws *v1alpha1.Workspace) bool { return !ws.DeletionTimestamp.IsZero() }

// releaseOrphans lets ended pods go whose Job somebody tore away from us: there is nothing left to keep their result on.
func (c *Jobs) releaseOrphans(ctx context.Context, name types.NamespacedName) error {
	pods := &corev1.PodList{}
	if err := c.Runs.Cache.List(ctx, pods, client.InNamespace(name.Namespace), client.HasLabels{v1alpha1.LabelRunID}); err != nil {
		return fmt.Errorf("listing the pods of job %s: %w", name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if jobOf(pod).Name != name.Name || !slices.Contains(pod.Finalizers, v1alpha1.FinalizerResult) {
			continue
		}
		ended, err := c.Runs.PodEnded(ctx, pod)
		if err != nil {
			return err
		}
		if !ended {
			continue
		}
		if err := c.Runs.API.Get(ctx, name, &batchv1.Job{}); !apierrors.IsNotFound(err) {
			return err
		}
		if err := c.releasePod(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}
