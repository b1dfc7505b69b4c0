package rpc

import (
	"context"

	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/explain"
	"magosproject.io/internal/explain/scene"
)

// Explain answers why a Workspace does not move.
func (s *Service) Explain(ctx context.Context, request *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	w, err := read(ctx, s.config.Cache, request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	seen, err := scene.Read(ctx, s.config.Cache, w.Namespace, w.Spec.ProjectRef.Name)
	if err != nil {
		return nil, err
	}
	seen.Workspace = w
	answer := explain.Workspace(seen)
	return &pb.ExplainResponse{Sentence: answer.Sentence, Chain: scene.Facts(answer.Chain), WayOut: answer.WayOut}, nil
}
