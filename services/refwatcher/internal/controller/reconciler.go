package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// workers write annotations; each write is one short request.
const workers = 4

// eventAction is the verb of the Events.
const eventAction = "ResolveRevision"

// Reconciler writes what was found for a Workspace onto it: only when it changed, and only onto the version that was decided on.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Knowledge that it shares with the Poller.
	Knowledge *Knowledge
	// Credentials of the repositories.
	Credentials *Credentials
	// Events are emitted on transitions.
	Events events.EventRecorder
	// Clock is needed.
	Clock clock.PassiveClock
}

// SetupWithManager makes the manager run the Reconciler on the leader, for every change of a Workspace or of a repository credential in its namespace, and
// for every Workspace that comes from changed.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager, changed <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	enqueue := handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("refwatcher").
		For(&v1alpha1.Workspace{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.neighbours)).
		WatchesRawSource(source.Channel(changed, enqueue)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile brings one Workspace's annotations in line with what is known.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	w := &v1alpha1.Workspace{}
	err := r.Client.Get(ctx, request.NamespacedName, w)
	if apierrors.IsNotFound(err) || err == nil && w.DeletionTimestamp != nil {
		r.Knowledge.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Workspace %s: %w", request, err)
	}
	access, err := r.Credentials.Access(ctx, w)
	if err != nil {
		return reconcile.Result{}, err
	}
	found, told := r.Knowledge.Observe(r.Clock.Now(), w, access)
	decision := schedule.Decide(w, found, told)
	if err := r.act(ctx, w, decision); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

func (r *Reconciler) act(ctx context.Context, w *v1alpha1.Workspace, decision schedule.Decision) error {
	err := status.PatchAnnotations(ctx, r.Client, w.DeepCopy(), decision.Set, decision.Remove)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The cache is behind. What changed comes through the watch and is decided on afresh.
		return nil
	}
	if err != nil {
		return err
	}
	for _, a := range r.Knowledge.Tell(w, decision.Told, decision.Announce) {
		kind := corev1.EventTypeNormal
		if a.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(w, nil, kind, a.Reason, eventAction, "%s", a.Message)
	}
	return nil
}

// neighbours are the Workspaces whose repository a Secret may be for. A list that fails is not repaired by the next reconcile, as others are: but it comes
// from the cache, which fails only before it has synced, and then every Workspace is still to come.
func (r *Reconciler) neighbours(ctx context.Context, secret client.Object) []reconcile.Request {
	var list v1alpha1.WorkspaceList
	if err := r.Client.List(ctx, &list, client.InNamespace(secret.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
