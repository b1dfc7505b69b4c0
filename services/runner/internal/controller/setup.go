// Package controller keeps the results of runs and removes what is no longer needed.
package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runs"
	"magosproject.io/services/runner/internal/runspec"
)

// CacheByObject limits the caches to what is of runs: their Jobs, Pods and volumes by label, and of events the warnings, reduced
// to what a judgement reads.
func CacheByObject() map[client.Object]cache.ByObject {
	ofRuns, err := labels.Parse(v1alpha1.LabelRunID)
	if err != nil {
		// A constant that is a label's name is a selector; the tests would have said so.
		panic(err)
	}
	ofWorkspaces, err := labels.Parse(v1alpha1.LabelWorkspaceUID)
	if err != nil {
		panic(err)
	}
	return map[client.Object]cache.ByObject{
		&corev1.PersistentVolumeClaim{}: {Label: ofWorkspaces},
		&batchv1.Job{}:                  {Label: ofRuns},
		&corev1.Pod{}:                   {Label: ofRuns},
		&corev1.Event{}: {
			Field:     fields.OneTermEqualSelector("type", corev1.EventTypeWarning),
			Transform: reduceEvent,
		},
	}
}

// reduceEvent keeps what a judgement reads, and drops the text of events that are of no Job or Pod.
func reduceEvent(object any) (any, error) {
	e, ok := object.(*corev1.Event)
	if !ok {
		return object, nil
	}
	reduced := &corev1.Event{ObjectMeta: e.ObjectMeta, InvolvedObject: e.InvolvedObject, Reason: e.Reason, LastTimestamp: e.LastTimestamp, EventTime: e.EventTime, Series: e.Series}
	reduced.ManagedFields, reduced.Annotations = nil, nil
	if e.InvolvedObject.Kind == "Job" || e.InvolvedObject.Kind == "Pod" {
		reduced.Message = e.Message
	}
	return reduced, nil
}

// IndexEvents lets the cache find the events of an object.
func IndexEvents(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Event{}, runs.EventUID, func(o client.Object) []string {
		event, ok := o.(*corev1.Event)
		if !ok {
			return nil
		}
		return []string{string(event.InvolvedObject.UID)}
	})
	if err != nil {
		return fmt.Errorf("indexing events: %w", err)
	}
	return nil
}

// Setup adds the reconcilers to the manager; they run on its leader alone.
func Setup(m manager.Manager, r *runs.Runs, metrics *Metrics, workers int) error {
	options := ctrlcontroller.Options{MaxConcurrentReconciles: workers}
	err := builder.ControllerManagedBy(m).Named(jobsController).WithOptions(options).
		For(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: jobOf(o)}}
		})).
		Watches(&v1alpha1.Workspace{}, handler.EnqueueRequestsFromMapFunc(confirmedJobs)).
		Complete(&Jobs{Runs: r, Metrics: metrics})
	if err != nil {
		return fmt.Errorf("setting up the controller of jobs: %w", err)
	}
	err = builder.ControllerManagedBy(m).Named(workspacesController).WithOptions(options).
		For(&v1alpha1.Workspace{}).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[v1alpha1.LabelWorkspace]}}}
		})).
		Complete(&Workspaces{Runs: r})
	if err != nil {
		return fmt.Errorf("setting up the controller of workspaces: %w", err)
	}
	return nil
}

// confirmedJobs are the Jobs of the run of which a person says on the Workspace that it has ended.
func confirmedJobs(_ context.Context, ws client.Object) []reconcile.Request {
	run := ws.GetAnnotations()[v1alpha1.AnnotationConfirmEnded]
	if run == "" {
		return nil
	}
	var requests []reconcile.Request
	for _, phase := range []string{runspec.PhasePlan, runspec.PhaseApply} {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ws.GetNamespace(), Name: execution.JobName(run, phase)}})
	}
	return requests
}

// jobOf is the name of the Job that an object of a run belongs to.
func jobOf(o client.Object) types.NamespacedName {
	key, _ := execution.KeyOf(o.GetNamespace(), o.GetLabels())
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: execution.JobName(key.RunID, key.Phase)}
}
