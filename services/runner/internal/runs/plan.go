package runs

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// planFacts finds the plan that an apply asks for, and what is taken over from it. A plan that did not succeed with the
// very digest, or is not there, is not applied.
func (r *Runs) planFacts(ctx context.Context, ws *v1alpha1.Workspace, others []execution.Observation, req execution.Request) (execution.PlanFacts, error) {
	if req.Phase != runspec.PhaseApply {
		return execution.PlanFacts{}, nil
	}
	name := execution.JobName(req.RunID, runspec.PhasePlan)
	i := slices.IndexFunc(others, func(o execution.Observation) bool { return o.Job.Name == name })
	if i < 0 {
		return execution.PlanFacts{}, noSuchPlan(req)
	}
	plan := others[i].Job
	result, kept := execution.KeptResult(plan)
	if !kept || result.State != execution.StateSucceeded || result.Plan == nil || result.Plan.Digest != req.PlanDigest {
		return execution.PlanFacts{}, noSuchPlan(req)
	}
	if approvedByAPerson(ws) {
		key := req.Key
		key.Phase = runspec.PhasePlan
		_, why, err := r.readReview(ctx, key, result.Plan)
		if err != nil {
			return execution.PlanFacts{}, err
		}
		if why != "" {
			return execution.PlanFacts{}, rpcerr.New(codes.FailedPrecondition, rpcerr.ReviewUnavailable,
				"the plan of run %s waited for a person, and nobody can read it: %s; plan again", req.RunID, why).With("run_id", req.RunID)
		}
	}
	facts := execution.PlanFacts{Arch: result.Arch, Volume: execution.VariablesVolume(plan)}
	var err error
	if facts.Volume == nil || len(facts.Volume.Projected.Sources) == 0 {
		return facts, nil
	}
	facts.Variables, facts.Literals, err = r.variablesOf(ctx, plan)
	return facts, err
}

// approvedByAPerson reports whether the present run is one that only a person may let go on.
func approvedByAPerson(ws *v1alpha1.Workspace) bool {
	return ws.Status.Run == nil || !ws.Status.Run.AutoApply || !ws.AppliesAutomatically()
}

func noSuchPlan(req execution.Request) error {
	return rpcerr.New(codes.FailedPrecondition, rpcerr.RunNotRecorded, "run %s has no plan %s that could be applied", req.RunID, req.PlanDigest).With("run_id", req.RunID)
}

// variablesOf are the names of the plan's variables; none where its ConfigMap is gone, and its literals with it.
func (r *Runs) variablesOf(ctx context.Context, plan *batchv1.Job) (variables, literals []string, err error) {
	name := types.NamespacedName{Namespace: plan.Namespace, Name: execution.ConfigMapOf(plan)}
	config := &corev1.ConfigMap{}
	err = r.API.Get(ctx, name, config)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading configmap %s: %w", name, err)
	}
	return execution.VariablesOf(config)
}
