package rpc

import (
	"context"

	"magosproject.io/api/v1alpha1"
	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// GetInputs has what the plan of a run was given.
func (s *Server) GetInputs(ctx context.Context, in *runnerv1alpha1.GetInputsRequest) (*runnerv1alpha1.GetInputsResponse, error) {
	key, err := checkedKey(in.GetKey())
	if err != nil {
		return nil, err
	}
	if key.Phase != runspec.PhasePlan {
		return nil, rpcerr.Invalid("key.phase", "must be PHASE_PLAN: an apply has the inputs of its plan")
	}
	request, err := s.Runs.Inputs(ctx, key)
	if err != nil {
		return nil, err
	}
	return inputsOf(request), nil
}

// inputsOf is the way back of requestOf, for what a destroy takes over.
func inputsOf(r execution.Request) *runnerv1alpha1.GetInputsResponse {
	out := &runnerv1alpha1.GetInputsResponse{
		Source: &runnerv1alpha1.Source{
			RepoUrl: r.RepoURL, Revision: r.Revision, TargetRevision: r.TargetRevision, Path: r.Path, RecurseSubmodules: r.RecurseSubmodules,
		},
		Tool:       &runnerv1alpha1.Tool{Engine: corev1alpha1.Engine_ENGINE_TERRAFORM, Version: r.ToolVersion},
		TfvarsPath: r.TfvarsPath, ServiceAccountName: r.ServiceAccount, MountServiceAccountToken: r.MountToken,
	}
	if r.Engine == v1alpha1.EngineOpenTofu {
		out.Tool.Engine = corev1alpha1.Engine_ENGINE_OPENTOFU
	}
	for _, v := range r.Variables {
		variable := &runnerv1alpha1.Variable{Name: v.Name}
		switch {
		case v.Secret != nil:
			variable.Source = &runnerv1alpha1.Variable_SecretKeyRef{SecretKeyRef: keyRefOf(v.Secret)}
		case v.ConfigMap != nil:
			variable.Source = &runnerv1alpha1.Variable_ConfigMapKeyRef{ConfigMapKeyRef: keyRefOf(v.ConfigMap)}
		case v.Value != nil:
			variable.Source = &runnerv1alpha1.Variable_Value{Value: *v.Value}
		}
		out.Variables = append(out.Variables, variable)
	}
	return out
}

func keyRefOf(r *execution.KeyRef) *runnerv1alpha1.KeyRef {
	return &runnerv1alpha1.KeyRef{Name: r.Name, Key: r.Key, Optional: r.Optional}
}
