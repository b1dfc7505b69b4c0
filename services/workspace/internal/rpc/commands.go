package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"magosproject.io/api/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/internal/status"
)

// maxRequestID is the longest request_id.
const maxRequestID = 253

// RequestReconcile asks for a fresh run.
func (s *Service) RequestReconcile(ctx context.Context, request *pb.RequestReconcileRequest) (*pb.RequestReconcileResponse, error) {
	id := request.GetRequestId()
	if id == "" || len(id) > maxRequestID {
		return nil, rpcerr.Invalid("request_id", "send a value of 1 to 253 characters that was not used before")
	}
	w, err := read(ctx, s.config.Live, request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	if w.Status.HandledRequest != id {
		if err := s.annotate(ctx, w, map[string]string{v1alpha1.AnnotationReconcileRequest: id}); err != nil {
			return nil, err
		}
	}
	return &pb.RequestReconcileResponse{}, nil
}

// ApproveRun approves the waiting plan of the run that the caller has seen, and of no other.
func (s *Service) ApproveRun(ctx context.Context, request *pb.ApproveRunRequest) (*pb.ApproveRunResponse, error) {
	if request.GetRunId() == "" {
		return nil, rpcerr.Invalid("run_id", "send the ID of the run whose plan was seen")
	}
	w, err := read(ctx, s.config.Live, request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	if approval := w.Status.Approval; approval != nil && approval.RunID == request.GetRunId() {
		return &pb.ApproveRunResponse{}, nil
	}
	awaiting := w.Status.AwaitingApproval
	run := w.Status.Run
	switch {
	case run != nil && run.ID == request.GetRunId() && run.Reason == v1alpha1.ReasonPlanUnreadable:
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.ReviewUnavailable,
			"the plan of run %s was given up, because nobody could read it: %s; it is planned again: approve that plan", run.ID, run.Unreadable).With("run_id", run.ID)
	case awaiting == nil:
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.NotAwaitingApproval, "no plan of Workspace %s/%s waits for approval", w.Namespace, w.Name)
	case awaiting.RunID != request.GetRunId():
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.NotAwaitingApproval,
			"the plan that waits is that of run %s: look at it and approve that one", awaiting.RunID).With("run_id", awaiting.RunID)
	case request.GetPlanDigest() != "" && request.GetPlanDigest() != awaiting.PlanDigest:
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.NotAwaitingApproval,
			"the plan that waits has the digest %s: look at it and approve that one", awaiting.PlanDigest).
			With("run_id", awaiting.RunID).With("plan_digest", awaiting.PlanDigest)
	}
	if w.Annotations[v1alpha1.AnnotationApproved] == request.GetRunId() {
		// Somebody was faster, and it is that one who approved.
		return &pb.ApproveRunResponse{}, nil
	}
	err = s.annotate(ctx, w, map[string]string{
		v1alpha1.AnnotationApproved: request.GetRunId(), v1alpha1.AnnotationApprovedBy: rpcserver.Caller(ctx).Username,
	})
	if err != nil {
		return nil, err
	}
	return &pb.ApproveRunResponse{}, nil
}

// CancelRun ends the live run that the caller has seen, and no other.
func (s *Service) CancelRun(ctx context.Context, request *pb.CancelRunRequest) (*pb.CancelRunResponse, error) {
	if request.GetRunId() == "" {
		return nil, rpcerr.Invalid("run_id", "send the ID of the run that is to end")
	}
	w, err := read(ctx, s.config.Live, request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	run := w.Status.Run
	switch {
	case run != nil && run.ID == request.GetRunId() && run.CancelledAt != nil:
		return &pb.CancelRunResponse{}, nil
	case run == nil || run.Phase.Terminal():
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.RunNotLive, "no run of Workspace %s/%s is live", w.Namespace, w.Name)
	case run.ID != request.GetRunId():
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.RunNotLive, "the run that is live is %s: look at it and cancel that one", run.ID).With("run_id", run.ID)
	}
	if err := s.annotate(ctx, w, map[string]string{v1alpha1.AnnotationCancel: request.GetRunId()}); err != nil {
		return nil, err
	}
	return &pb.CancelRunResponse{}, nil
}

func (s *Service) annotate(ctx context.Context, w *v1alpha1.Workspace, annotations map[string]string) error {
	namespace, workspace := w.Namespace, w.Name
	err := status.PatchAnnotations(ctx, s.config.Client, w, annotations, nil)
	switch {
	case apierrors.IsConflict(err):
		return rpcerr.New(codes.Aborted, rpcerr.Conflict, "Workspace %s/%s changed meanwhile: look at it and call again", namespace, workspace)
	case apierrors.IsNotFound(err):
		return rpcerr.New(codes.NotFound, rpcerr.WorkspaceNotFound, "Workspace %s/%s does not exist", namespace, workspace)
	}
	return err
}
