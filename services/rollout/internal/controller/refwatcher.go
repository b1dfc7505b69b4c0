package controller

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	corepb "magosproject.io/gen/magos/core/v1alpha1"
	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/services/rollout/internal/progression"
)

// askTimeout bounds one question; the refwatcher gives a remote 20 seconds.
const askTimeout = 25 * time.Second

// RefWatcher is Revisions over gRPC.
type RefWatcher struct {
	client refwatcherpb.RefWatcherServiceClient
}

// NewRefWatcher asks over the connection.
func NewRefWatcher(connection grpc.ClientConnInterface) *RefWatcher {
	return &RefWatcher{client: refwatcherpb.NewRefWatcherServiceClient(connection)}
}

// Resolve asks the refwatcher by the Workspace's name.
func (w *RefWatcher) Resolve(ctx context.Context, workspace types.NamespacedName) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, err := w.client.ResolveRevision(ctx, &refwatcherpb.ResolveRevisionRequest{
		Workspace: &corepb.ObjectRef{Namespace: workspace.Namespace, Name: workspace.Name},
	})
	if err != nil {
		return Answer{}, err
	}
	return Answer{
		Revision: response.GetRevision(),
		Key:      progression.Key{RepoURL: response.GetRepoUrl(), TargetRevision: response.GetTargetRevision()},
	}, nil
}
