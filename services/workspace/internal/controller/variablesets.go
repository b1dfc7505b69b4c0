package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/workspace/internal/inputs"
)

// VariableSetReconciler says of each VariableSet whether its references lead to values.
type VariableSetReconciler struct {
	// Client reads VariableSets and writes their status.
	Client client.Client
	// Objects tells of Secrets and ConfigMaps.
	Objects *Objects
	// Clock tells the time of a pass.
	Clock clock.PassiveClock
}

// Reconcile records what is known of one VariableSet.
func (r *VariableSetReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	set := &v1alpha1.VariableSet{}
	if err := r.Client.Get(ctx, request.NamespacedName, set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if set.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	objects, err := r.Objects.Look(ctx, set.Namespace, inputs.References(set.Spec.Variables))
	if err != nil {
		return ctrl.Result{}, err
	}
	after := set.DeepCopy()
	after.Status = inputs.SetStatus(set, objects, r.Clock.Now())
	err = status.PatchStatus(ctx, r.Client, set, after)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
