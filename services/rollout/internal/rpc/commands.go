package rpc

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"magosproject.io/api/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/internal/status"
)

// Pause holds a Rollout.
func (s *Service) Pause(ctx context.Context, request *pb.PauseRequest) (*pb.PauseResponse, error) {
	r, err := read(ctx, s.config.Live, request.GetRollout())
	if err != nil {
		return nil, err
	}
	if err := s.annotate(ctx, r, map[string]string{v1alpha1.AnnotationHold: "true"}, nil); err != nil {
		return nil, err
	}
	return &pb.PauseResponse{}, nil
}

// Resume lifts the hold of Pause. A pause in the spec belongs to whoever writes the spec.
func (s *Service) Resume(ctx context.Context, request *pb.ResumeRequest) (*pb.ResumeResponse, error) {
	r, err := read(ctx, s.config.Live, request.GetRollout())
	if err != nil {
		return nil, err
	}
	if r.Spec.Paused {
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.PausedInSpec,
			"spec.paused of Rollout %s/%s is true and holds it as well: set it to false", r.Namespace, r.Name)
	}
	if err := s.annotate(ctx, r, nil, []string{v1alpha1.AnnotationHold}); err != nil {
		return nil, err
	}
	return &pb.ResumeResponse{}, nil
}

// ApproveStep lets the pass that the caller has seen enter the step that it waits before, in the caller's name.
func (s *Service) ApproveStep(ctx context.Context, request *pb.ApproveStepRequest) (*pb.ApproveStepResponse, error) {
	r, err := s.commanded(ctx, request)
	if err != nil {
		return nil, err
	}
	if isApproved(r, request.GetStep()) {
		return &pb.ApproveStepResponse{}, nil
	}
	if err := checkMoving(r); err != nil {
		return nil, err
	}
	if err := checkStep(r, request.GetStep()); err != nil {
		return nil, err
	}
	if !requiresApproval(r) {
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.NotAwaitingApproval, "step %q of Rollout %s/%s requires no approval", request.GetStep(), r.Namespace, r.Name)
	}
	value := v1alpha1.PassStep(request.GetPassId(), request.GetStep())
	if r.Annotations[v1alpha1.AnnotationApprovedStep] == value {
		// Somebody was faster, and it is that one who approved.
		return &pb.ApproveStepResponse{}, nil
	}
	err = s.annotate(ctx, r, map[string]string{
		v1alpha1.AnnotationApprovedStep: value, v1alpha1.AnnotationApprovedBy: rpcserver.Caller(ctx).Username,
	}, nil)
	if err != nil {
		return nil, err
	}
	return &pb.ApproveStepResponse{}, nil
}

// RetryStep tries the failed members of the step again. Of a pass that ended without them it begins a new pass.
func (s *Service) RetryStep(ctx context.Context, request *pb.RetryStepRequest) (*pb.RetryStepResponse, error) {
	r, err := s.commanded(ctx, request)
	if err != nil {
		return nil, err
	}
	if pass := r.Status.Pass; pass.Result == v1alpha1.PassAborted || pass.Result == v1alpha1.PassIncomplete {
		err = checkAnyStep(r, request.GetStep())
	} else if err = checkMoving(r); err == nil {
		err = checkStep(r, request.GetStep())
	}
	if err != nil {
		return nil, err
	}
	value := v1alpha1.PassStep(request.GetPassId(), request.GetStep())
	if err := s.annotate(ctx, r, map[string]string{v1alpha1.AnnotationRetryStep: value}, nil); err != nil {
		return nil, err
	}
	return &pb.RetryStepResponse{}, nil
}

// Abort ends the pass that the caller has seen.
func (s *Service) Abort(ctx context.Context, request *pb.AbortRequest) (*pb.AbortResponse, error) {
	if request.GetPassId() == "" {
		return nil, noPass()
	}
	r, err := read(ctx, s.config.Live, request.GetRollout())
	if err != nil {
		return nil, err
	}
	if wasAborted(r, request.GetPassId()) {
		return &pb.AbortResponse{}, nil
	}
	if err := checkPass(r, request.GetPassId()); err != nil {
		return nil, err
	}
	if err := checkMoving(r); err != nil {
		return nil, err
	}
	if err := s.annotate(ctx, r, map[string]string{v1alpha1.AnnotationAbort: request.GetPassId()}, nil); err != nil {
		return nil, err
	}
	return &pb.AbortResponse{}, nil
}

func noPass() error {
	return rpcerr.Invalid("pass_id", "name the pass that was seen, the value of status.pass.id")
}

// stepCommand is a command about a step of a pass.
type stepCommand interface {
	rolloutRequest
	GetPassId() string
	GetStep() string
}

// commanded reads the Rollout that a command about a step names, if its present pass is the one that the caller has seen.
func (s *Service) commanded(ctx context.Context, request stepCommand) (*v1alpha1.Rollout, error) {
	if request.GetPassId() == "" {
		return nil, noPass()
	}
	if request.GetStep() == "" {
		return nil, rpcerr.Invalid("step", "name the step that was seen")
	}
	r, err := read(ctx, s.config.Live, request.GetRollout())
	if err != nil {
		return nil, err
	}
	return r, checkPass(r, request.GetPassId())
}

// checkPass refuses a command for a pass that is not the present one, and names that.
func checkPass(r *v1alpha1.Rollout, id string) error {
	switch pass := r.Status.Pass; {
	case pass == nil:
		return rpcerr.New(codes.FailedPrecondition, rpcerr.OtherPass, "Rollout %s/%s has had no pass yet", r.Namespace, r.Name)
	case pass.ID != id:
		return withPresent(r, rpcerr.New(codes.FailedPrecondition, rpcerr.OtherPass,
			"the present pass of Rollout %s/%s is %s: look at it and decide about that one", r.Namespace, r.Name, pass.ID))
	}
	return nil
}

// checkMoving refuses a command for a pass that has ended. There is a pass.
func checkMoving(r *v1alpha1.Rollout) error {
	if pass := r.Status.Pass; pass.FinishedAt != nil {
		return withPresent(r, rpcerr.New(codes.FailedPrecondition, rpcerr.PassOver, "pass %s of Rollout %s/%s is over: %s", pass.ID, r.Namespace, r.Name, pass.Result)).
			With("result", string(pass.Result))
	}
	return nil
}

// checkStep refuses a command for a step that is not the current one, and names that.
func checkStep(r *v1alpha1.Rollout, name string) error {
	current := presentStep(r)
	if current == name {
		return nil
	}
	return withPresent(r, rpcerr.New(codes.FailedPrecondition, rpcerr.OtherStep,
		"the current step of Rollout %s/%s is %q: look at it and decide about that one", r.Namespace, r.Name, current))
}

func checkAnyStep(r *v1alpha1.Rollout, name string) error {
	if slices.ContainsFunc(r.Status.Steps, func(s v1alpha1.RolloutStepStatus) bool { return s.Name == name }) {
		return nil
	}
	return withPresent(r, rpcerr.New(codes.FailedPrecondition, rpcerr.OtherStep, "pass %s of Rollout %s/%s has no step %q", r.Status.Pass.ID, r.Namespace, r.Name, name))
}

// withPresent adds what there is to an error about what there is not.
func withPresent(r *v1alpha1.Rollout, err *rpcerr.Error) *rpcerr.Error {
	return err.With("pass_id", r.Status.Pass.ID).With("step", presentStep(r))
}

// presentStep is the name of the current step; empty where there is none.
func presentStep(r *v1alpha1.Rollout) string {
	if i := int(r.Status.CurrentStep); i >= 0 && i < len(r.Status.Steps) {
		return r.Status.Steps[i].Name
	}
	return ""
}

// requiresApproval reports whether the current step of the pass is entered by approval only.
func requiresApproval(r *v1alpha1.Rollout) bool {
	i := int(r.Status.CurrentStep)
	if i < 0 || i >= len(r.Status.Pass.Steps) {
		return false
	}
	approval := r.Status.Pass.Steps[i].Approval
	return approval != nil && approval.Required
}

// isApproved reports whether the present pass was let into the step before.
func isApproved(r *v1alpha1.Rollout, step string) bool {
	return slices.ContainsFunc(r.Status.Steps, func(s v1alpha1.RolloutStepStatus) bool { return s.Name == step && s.Approval != nil })
}

// wasAborted reports whether the pass was aborted before, as far as history goes back.
func wasAborted(r *v1alpha1.Rollout, id string) bool {
	if pass := r.Status.Pass; pass != nil && pass.ID == id {
		return pass.Result == v1alpha1.PassAborted
	}
	return slices.ContainsFunc(r.Status.History, func(h v1alpha1.RolloutHistoryEntry) bool { return h.ID == id && h.Result == v1alpha1.PassAborted })
}

func (s *Service) annotate(ctx context.Context, r *v1alpha1.Rollout, set map[string]string, remove []string) error {
	namespace, name := r.Namespace, r.Name
	err := status.PatchAnnotations(ctx, s.config.Client, r, set, remove)
	switch {
	case apierrors.IsConflict(err):
		return rpcerr.New(codes.Aborted, rpcerr.Conflict, "Rollout %s/%s changed meanwhile: look at it and call again", namespace, name)
	case apierrors.IsNotFound(err):
		return rpcerr.New(codes.NotFound, rpcerr.RolloutNotFound, "Rollout %s/%s does not exist", namespace, name)
	}
	return err
}
