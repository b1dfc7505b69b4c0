package rpc

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/runspec"
)

// ListRuns lists the runs of a Workspace.
func (s *Server) ListRuns(ctx context.Context, in *runnerv1alpha1.ListRunsRequest) (*runnerv1alpha1.ListRunsResponse, error) {
	if len(validation.IsDNS1123Label(in.GetNamespace())) > 0 {
		return nil, rpcerr.Invalid("namespace", "is no namespace name")
	}
	if len(validation.IsDNS1123Subdomain(in.GetWorkspace())) > 0 {
		return nil, rpcerr.Invalid("workspace", "is no Workspace name")
	}
	list, err := s.Runs.List(ctx, types.NamespacedName{Namespace: in.GetNamespace(), Name: in.GetWorkspace()})
	if err != nil {
		return nil, err
	}
	out := &runnerv1alpha1.ListRunsResponse{}
	for _, run := range list {
		out.Runs = append(out.Runs, message(run))
	}
	return out, nil
}

// GetPlan has what a person reads of a plan.
func (s *Server) GetPlan(ctx context.Context, in *runnerv1alpha1.GetPlanRequest) (*runnerv1alpha1.GetPlanResponse, error) {
	key, err := checkedKey(&runnerv1alpha1.RunKey{Workspace: in.GetWorkspace(), RunId: in.GetRunId(), Phase: runnerv1alpha1.Phase_PHASE_PLAN})
	if err != nil {
		return nil, err
	}
	review, err := s.Runs.Review(ctx, key)
	if err != nil {
		return nil, err
	}
	return plan(review), nil
}

func plan(review runspec.Review) *runnerv1alpha1.GetPlanResponse {
	out := &runnerv1alpha1.GetPlanResponse{Digest: review.Digest, ChangesTotal: review.Total, Text: review.Text, TextBytes: review.TextBytes}
	for _, c := range review.Changes {
		out.Changes = append(out.Changes, &runnerv1alpha1.ResourceChange{
			Address: c.Address, PreviousAddress: c.From, Actions: c.Actions, Imported: c.Imported, ActionReason: c.Reason,
		})
	}
	return out
}
