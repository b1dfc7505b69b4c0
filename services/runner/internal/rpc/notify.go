package rpc

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/services/runner/internal/execution"
)

// Follow makes the caches of Jobs, Pods and events tell the Hub about every change. It works on every replica.
func (h *Hub) Follow(ctx context.Context, informers cache.Cache) error {
	for _, object := range []client.Object{&batchv1.Job{}, &corev1.Pod{}, &corev1.Event{}} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("following %T: %w", object, err)
		}
		changed := func(o any) {
			if name, ok := jobBehind(ctx, informers, o); ok {
				h.Changed(name)
			}
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) }, DeleteFunc: changed,
		}); err != nil {
			return fmt.Errorf("following %T: %w", object, err)
		}
	}
	return nil
}

// jobBehind is the name of the Job that a changed object is about, if it is of a run.
func jobBehind(ctx context.Context, reader client.Reader, o any) (types.NamespacedName, bool) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	switch object := o.(type) {
	case *corev1.Event:
		about := object.InvolvedObject
		name := types.NamespacedName{Namespace: object.Namespace, Name: about.Name}
		switch about.Kind {
		case "Job":
			return name, true
		case "Pod":
			pod := &corev1.Pod{}
			if err := reader.Get(ctx, name, pod); err != nil {
				// Not a pod of a run, or gone: nobody waits for a hint about it.
				return types.NamespacedName{}, false
			}
			return jobOf(pod)
		}
	case client.Object:
		return jobOf(object)
	}
	return types.NamespacedName{}, false
}

func jobOf(o client.Object) (types.NamespacedName, bool) {
	key, ok := execution.KeyOf(o.GetNamespace(), o.GetLabels())
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: execution.JobName(key.RunID, key.Phase)}, ok
}
