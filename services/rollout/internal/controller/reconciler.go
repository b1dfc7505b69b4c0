// Package controller brings grants and statuses in line with what package progression decides.
package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/rollout/internal/progression"
)

const (
	// projectIndex finds the Workspaces of a Project in the cache.
	projectIndex = "spec.projectRef.name"
	// staleDelay is when to look again after the cache was behind; usually its event comes first.
	staleDelay = 200 * time.Millisecond
)

// Config of a Reconciler.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Revisions asks the refwatcher.
	Revisions Revisions
	// Events announces transitions.
	Events events.EventRecorder
	// Clock; default the real one.
	Clock clock.PassiveClock
	// Metrics counts what is done; nil counts nothing.
	Metrics *Metrics
	// StatusInterval is the shortest time between two writes of one status that differ in counts and messages only; default 2 s.
	// What decides or what people follow is written at once.
	StatusInterval time.Duration
	// Workers is how many Projects are decided on at a time; default 4.
	Workers int
}

// Reconciler decides, per namespace and Project name, who may run, and grants it.
type Reconciler struct {
	config  Config
	pins    *pins
	written status.Written
	lazy    *lazyWrites
}

// New makes a Reconciler.
func New(config Config) *Reconciler {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.StatusInterval == 0 {
		config.StatusInterval = 2 * time.Second
	}
	if config.Workers == 0 {
		config.Workers = 4
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics(nil)
	}
	return &Reconciler{
		config: config,
		pins:   newPins(config.Revisions, config.Clock, config.Metrics),
		lazy:   newLazyWrites(config.StatusInterval),
	}
}

// SetupWithManager watches Projects, Rollouts and Workspaces. All three lead to the one reconcile of the Project's name.
func (r *Reconciler) SetupWithManager(ctx context.Context, manager ctrl.Manager) error {
	index := func(o client.Object) []string { return []string{o.(*v1alpha1.Workspace).Spec.ProjectRef.Name} }
	if err := manager.GetFieldIndexer().IndexField(ctx, &v1alpha1.Workspace{}, projectIndex, index); err != nil {
		return fmt.Errorf("indexing Workspaces by Project: %w", err)
	}
	return ctrl.NewControllerManagedBy(manager).
		Named("rollout").
		For(&v1alpha1.Project{}).
		Watches(&v1alpha1.Rollout{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.Workspace{}, handler.EnqueueRequestsFromMapFunc(projectOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.config.Workers}).
		Complete(r)
}

func projectOf(_ context.Context, o client.Object) []reconcile.Request {
	w := o.(*v1alpha1.Workspace)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: w.Namespace, Name: w.Spec.ProjectRef.Name}}}
}

// Reconcile observes, decides, and carries the decision out: grants are taken, then the status with the pass
// and its commits is recorded, then grants are given. Whoever wrote in between makes it decide again.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.behind {
		return ctrl.Result{RequeueAfter: staleDelay}, nil
	}
	after, err := r.carryOut(ctx, o)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		r.config.Metrics.conflicts.Inc()
		return ctrl.Result{RequeueAfter: staleDelay}, nil
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// carryOut returns when to decide again although nothing has changed, 0 for not at all.
func (r *Reconciler) carryOut(ctx context.Context, o *observed) (time.Duration, error) {
	now := r.config.Clock.Now()
	d := progression.Decide(now, o.Snapshot)
	if err := r.revoke(ctx, o, d); err != nil {
		return 0, err
	}
	again := d.Requeue
	for len(d.NeedPins) > 0 {
		retry, err := r.pins.answer(ctx, o, d.NeedPins)
		if err != nil {
			return 0, err
		}
		d = progression.Decide(now, o.Snapshot)
		if err := r.revoke(ctx, o, d); err != nil {
			return 0, err
		}
		again = soonest(d.Requeue, retry)
	}
	recorded, err := r.record(ctx, o, d, now)
	if err != nil {
		return 0, err
	}
	if err := r.grant(ctx, o, d, recorded, now); err != nil {
		return 0, err
	}
	return soonest(again, recorded.delay), nil
}

// soonest is the shorter of two delays, of which 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
