package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/workspace/internal/inputs"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// definitionName is the name of the CustomResourceDefinition of Workspaces.
const definitionName = "workspaces." + v1alpha1.GroupName

// observeDestroy sees what a destroy depends on: whether anything can be started at all, and what was applied last. Project,
// VariableSets and spec do not count any more; Secrets and ConfigMaps have their present values.
func (r *Reconciler) observeDestroy(ctx context.Context, w *v1alpha1.Workspace, seen *observation) error {
	last, _ := lifecycle.LastApply(w)
	seen.Inputs = lifecycle.Inputs{Fingerprint: lifecycle.ParseFingerprint(last.Fingerprint), Sets: w.Status.Variables.Sets}
	seen.Destroy = &lifecycle.Destruction{}
	if err := r.observeTermination(ctx, w, seen.Destroy); err != nil || seen.Destroy.Reason != "" {
		return err
	}
	kept, err := r.Runner.GetInputs(ctx, &runnerv1alpha1.GetInputsRequest{Key: keyOf(w, last.RunID, lifecycle.Plan)})
	if rpcerr.Reason(err) == rpcerr.RunNotFound {
		seen.Destroy.Reason = v1alpha1.ReasonInputsLost
		seen.Destroy.Message = fmt.Sprintf("what run %s was given, which was applied last, is kept no more, so that nobody knows what to destroy with: destroy by hand what is to go", last.RunID)
		return nil
	}
	if err != nil {
		return runnerTrouble(runnerv1alpha1.RunnerService_GetInputs_FullMethodName, err)
	}
	seen.kept = kept
	for _, v := range kept.GetVariables() {
		seen.composition.Winners = append(seen.composition.Winners, inputs.Winner{Source: inputs.Source{Variable: variableOf(v)}})
	}
	objects, err := r.Objects.Look(ctx, w.Namespace, inputs.References(seen.composition.Variables()))
	if err != nil {
		return err
	}
	seen.Inputs.Unresolved = seen.composition.Inputs(w, objects).Unresolved
	return nil
}

// observeTermination looks whether the namespace or the definition of Workspaces is being deleted. Nothing can be created in such
// a namespace, and who removes a definition does not mean to destroy what every Workspace has applied.
func (r *Reconciler) observeTermination(ctx context.Context, w *v1alpha1.Workspace, destroy *lifecycle.Destruction) error {
	const byHand = ", so that no destroy is started: destroy by hand what is to go"
	namespace := metadataOf("Namespace")
	if err := r.Live.Get(ctx, types.NamespacedName{Name: w.Namespace}, namespace); err != nil {
		return fmt.Errorf("looking whether namespace %s is being deleted: %w", w.Namespace, err)
	}
	if namespace.DeletionTimestamp != nil {
		destroy.Reason, destroy.Message = v1alpha1.ReasonNamespaceTerminating, "namespace "+w.Namespace+" is being deleted"+byHand
		return nil
	}
	definition := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
	err := r.Live.Get(ctx, types.NamespacedName{Name: definitionName}, definition)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking whether CustomResourceDefinition %s is being deleted: %w", definitionName, err)
	}
	if err != nil || definition.DeletionTimestamp != nil {
		destroy.Reason, destroy.Message = v1alpha1.ReasonDefinitionTerminating, "CustomResourceDefinition "+definitionName+" is being deleted"+byHand
	}
	return nil
}

// variableOf is the variable of a VariableSet that v was made of.
func variableOf(v *runnerv1alpha1.Variable) v1alpha1.Variable {
	variable := v1alpha1.Variable{Name: v.GetName()}
	keyOf := func(ref *runnerv1alpha1.KeyRef) *v1alpha1.KeyReference {
		return &v1alpha1.KeyReference{Name: ref.GetName(), Key: ref.GetKey(), Optional: ref.GetOptional()}
	}
	switch source := v.GetSource().(type) {
	case *runnerv1alpha1.Variable_SecretKeyRef:
		variable.ValueFrom = &v1alpha1.ValueSource{SecretKeyRef: keyOf(source.SecretKeyRef)}
	case *runnerv1alpha1.Variable_ConfigMapKeyRef:
		variable.ValueFrom = &v1alpha1.ValueSource{ConfigMapKeyRef: keyOf(source.ConfigMapKeyRef)}
	case *runnerv1alpha1.Variable_Value:
		variable.Value = &source.Value
	}
	return variable
}

// asApplied gives a request for a run of a destroy what the run that was applied last was given, instead of what the spec has.
func asApplied(request *runnerv1alpha1.StartRunRequest, kept *runnerv1alpha1.GetInputsResponse) {
	request.Destroy = true
	request.Source, request.Tool = kept.GetSource(), kept.GetTool()
	request.ServiceAccountName, request.MountServiceAccountToken = kept.GetServiceAccountName(), kept.GetMountServiceAccountToken()
}
