package rpc

import (
	"context"

	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/explain"
	"magosproject.io/internal/explain/scene"
)

// Explain answers why a Rollout does not move.
func (s *Service) Explain(ctx context.Context, request *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	r, err := read(ctx, s.config.Cached, request.GetRollout())
	if err != nil {
		return nil, err
	}
	seen, err := scene.Read(ctx, s.config.Cached, r.Namespace, r.Spec.ProjectRef)
	if err != nil {
		return nil, err
	}
	seen.Rollout = r
	answer := explain.Rollout(seen)
	return &pb.ExplainResponse{Sentence: answer.Sentence, Chain: scene.Facts(answer.Chain), WayOut: answer.WayOut}, nil
}
