package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/workspace/internal/inputs"
)

// forbiddenPause is how often a reference is looked at again that Magos may not read: a right that is given announces
// itself to nobody.
const forbiddenPause = 30 * time.Second

// Variables finds out where the variables of Workspaces come from.
type Variables struct {
	// Reader reads VariableSets.
	Reader client.Reader
	// Objects tells of Secrets and ConfigMaps.
	Objects *Objects
}

// Of composes the variables of w, and tells of the objects that the winners refer to. project may be nil.
func (v Variables) Of(
	ctx context.Context, project *v1alpha1.Project, w *v1alpha1.Workspace,
) (inputs.Composition, map[inputs.Reference]inputs.Object, error) {
	sets := map[string]*v1alpha1.VariableSet{}
	for _, name := range inputs.SetNames(project, w) {
		set := &v1alpha1.VariableSet{}
		key := types.NamespacedName{Namespace: w.Namespace, Name: name}
		if err := v.Reader.Get(ctx, key, set); err == nil {
			sets[name] = set
		} else if !apierrors.IsNotFound(err) {
			return inputs.Composition{}, nil, fmt.Errorf("reading VariableSet %s: %w", key, err)
		}
	}
	composition := inputs.Compose(project, w, sets)
	objects, err := v.Objects.Look(ctx, w.Namespace, inputs.References(composition.Variables()))
	return composition, objects, err
}

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
	if err == nil && hasForbidden(after.Status.UnresolvedReferences) {
		return ctrl.Result{RequeueAfter: forbiddenPause}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func hasForbidden(unresolved []v1alpha1.UnresolvedReference) bool {
	return slices.ContainsFunc(unresolved, func(u v1alpha1.UnresolvedReference) bool { return u.Reason == v1alpha1.UnresolvedForbidden })
}
