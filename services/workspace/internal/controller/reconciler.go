package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/workspace/internal/lifecycle"
)

const (
	// peerPause is how long a peer that is down is left alone.
	peerPause = 5 * time.Second
	// conflictPause gives the cache time to see what somebody else wrote.
	conflictPause = 50 * time.Millisecond
	// stalePause is when to look again after the cache was behind; usually its event comes first.
	stalePause = 200 * time.Millisecond
	// runnerPatience is how long StartRun and CancelRun may take, as the runner itself has it.
	runnerPatience = 30 * time.Second
)

// Config of a Reconciler. Everything is needed.
type Config struct {
	// Client reads Magos resources, from a cache as a rule, and writes.
	Client client.Client
	// Live reads what is true now, from no cache: whether a namespace is being deleted.
	Live client.Reader
	// Objects tells of Secrets and ConfigMaps.
	Objects *Objects
	// Runner and RefWatcher are the peers.
	Runner     runnerv1alpha1.RunnerServiceClient
	RefWatcher refwatcherv1alpha1.RefWatcherServiceClient
	// Events takes what people should hear of.
	Events events.EventRecorder
	// Metrics counts runs.
	Metrics *Metrics
	// Drift bounds the drift plans that run at a time.
	Drift *DriftSlots
	// Clock tells the time of a pass.
	Clock clock.PassiveClock
}

// Reconciler brings one Workspace at a time in line.
type Reconciler struct {
	Config
	// written keeps passes from deciding on what this process has changed already.
	written status.Written
}

// Reconcile is one pass: observe, decide, act, record.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	seen, err := r.observe(ctx, request.NamespacedName)
	var t *trouble
	switch {
	case apierrors.IsNotFound(err):
		r.Drift.forget(request.NamespacedName)
		r.written.Behind(request.NamespacedName)
		return ctrl.Result{}, nil
	case errors.Is(err, errBehind):
		return ctrl.Result{RequeueAfter: stalePause}, nil
	case errors.As(err, &t):
		return r.recordTrouble(ctx, seen.Workspace, t)
	case err != nil:
		return ctrl.Result{}, err
	}
	decision, err := r.decide(ctx, &seen)
	if err != nil {
		return ctrl.Result{}, err
	}
	if decision.Action == lifecycle.ActCancelRun {
		decision, err = r.cancelRun(ctx, seen, decision)
	}
	if err == nil {
		err = r.carryOut(ctx, seen, decision)
	}
	switch {
	case apierrors.IsConflict(err):
		// Somebody wrote in between: decide again on what is there then.
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case errors.As(err, &t):
		return r.recordTrouble(ctx, cmp.Or(t.on, seen.Workspace), t)
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: decision.Requeue}, nil
}

// decide decides, and decides again where the first decision depends on something that is asked for only then: the commit, or
// a place for a drift plan.
func (r *Reconciler) decide(ctx context.Context, seen *observation) (lifecycle.Decision, error) {
	r.Drift.observe(seen.Snapshot)
	d := lifecycle.Decide(seen.Snapshot)
	if d.Action == lifecycle.ActResolveRevision {
		seen.Resolution = r.resolve(ctx, seen.Workspace)
		d = lifecycle.Decide(seen.Snapshot)
	}
	if d.Action == lifecycle.ActRecordRun && d.Run.Trigger == v1alpha1.TriggerDrift {
		taken, err := r.Drift.take(ctx, seen.Workspace, seen.Now)
		if err != nil {
			return d, err
		}
		if !taken {
			seen.DriftHeld = true
			d = lifecycle.Decide(seen.Snapshot)
		}
	}
	return d, nil
}

// carryOut takes the one action of this pass and records its outcome. Only the intent to apply is recorded first.
func (r *Reconciler) carryOut(ctx context.Context, seen observation, d lifecycle.Decision) error {
	w := seen.Workspace.DeepCopy()
	switch d.Action {
	case lifecycle.ActWait:
		return nil
	case lifecycle.ActAddFinalizer:
		return r.setFinalizers(ctx, w, withFinalizers(w.Finalizers))
	case lifecycle.ActRemoveFinalizer:
		return r.setFinalizers(ctx, w, slices.DeleteFunc(slices.Clone(w.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerWorkspace }))
	case lifecycle.ActRemoveApproval:
		return r.removeCommand(ctx, w, d, v1alpha1.ReasonApprovalVoid, v1alpha1.AnnotationApproved, v1alpha1.AnnotationApprovedBy)
	case lifecycle.ActRemoveCancel:
		return r.removeCommand(ctx, w, d, v1alpha1.ReasonCancelVoid, v1alpha1.AnnotationCancel)
	case lifecycle.ActStartPlan:
		outcome, err := r.startPlan(ctx, seen, d)
		if err != nil {
			return err
		}
		return r.record(ctx, seen, d, outcome)
	case lifecycle.ActRequestApply:
		return r.apply(ctx, seen, d)
	case lifecycle.ActNone, lifecycle.ActRecordRun, lifecycle.ActRecordPlanned, lifecycle.ActRecordEnd, lifecycle.ActCancelRun:
		// Nothing is done outside any more.
	case lifecycle.ActResolveRevision:
		return fmt.Errorf("deciding about %s: the revision was resolved and is asked for again", client.ObjectKeyFromObject(w))
	}
	return r.record(ctx, seen, d, lifecycle.Outcome{Kind: lifecycle.OutcomeDone})
}

// withFinalizers adds ours, and the runner's with it: it would come a moment later, when the runner is asked for the first plan, and get
// between that and its record. The runner alone removes it.
func withFinalizers(present []string) []string {
	all := slices.Clone(present)
	for _, name := range []string{v1alpha1.FinalizerWorkspace, v1alpha1.FinalizerRunner} {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func (r *Reconciler) setFinalizers(ctx context.Context, w *v1alpha1.Workspace, finalizers []string) error {
	if err := status.PatchFinalizers(ctx, r.Client, w, finalizers); err != nil {
		return err
	}
	r.written.Note(client.ObjectKeyFromObject(w), w)
	return nil
}

// removeCommand removes what a person wrote, and says why if it did nothing.
func (r *Reconciler) removeCommand(ctx context.Context, w *v1alpha1.Workspace, d lifecycle.Decision, void v1alpha1.Reason, annotations ...string) error {
	if err := status.PatchAnnotations(ctx, r.Client, w, nil, annotations); err != nil {
		return err
	}
	r.written.Note(client.ObjectKeyFromObject(w), w)
	if d.Void != "" {
		r.event(w, corev1.EventTypeWarning, void, d.Action, d.Void)
	}
	return nil
}

// apply records the intent to apply, and then asks for it. Should the runner not take it, that is recorded as well, on
// what the first record left, so that the next pass can say why there is no Job.
func (r *Reconciler) apply(ctx context.Context, seen observation, d lifecycle.Decision) error {
	recorded, err := r.recorded(ctx, seen, d, lifecycle.Outcome{Kind: lifecycle.OutcomeDone})
	if err != nil {
		return err
	}
	err = r.startApply(ctx, seen, d)
	var t *trouble
	if errors.As(err, &t) {
		t.on = recorded
	}
	return err
}

func (r *Reconciler) record(ctx context.Context, seen observation, d lifecycle.Decision, o lifecycle.Outcome) error {
	_, err := r.recorded(ctx, seen, d, o)
	return err
}

// recorded writes the status of this pass, on the object version that was decided on, and tells of what changed. It returns
// what the API server has then.
func (r *Reconciler) recorded(ctx context.Context, seen observation, d lifecycle.Decision, o lifecycle.Outcome) (*v1alpha1.Workspace, error) {
	after := seen.Workspace.DeepCopy()
	after.Status = lifecycle.Status(seen.Snapshot, d, o)
	next := *after.Status.DeepCopy()
	if err := status.PatchStatus(ctx, r.Client, seen.Workspace, after); err != nil {
		return nil, err
	}
	r.written.Note(client.ObjectKeyFromObject(after), after)
	r.announce(seen.Workspace, &next, d)
	r.Metrics.count(&seen.Workspace.Status, &next)
	if d.PlanEnded {
		r.Metrics.planEnded(next.Run.ID, r.Clock.Now())
	}
	return after, nil
}
