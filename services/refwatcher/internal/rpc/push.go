package rpc

import (
	"context"
	"math"

	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/refwatcher/internal/webhook"
)

// NotifyPush makes the remotes due that may be meant. Only the leader polls; other replicas pass the call on to it, once, as the caller.
func (s *Service) NotifyPush(ctx context.Context, request *pb.NotifyPushRequest) (*pb.NotifyPushResponse, error) {
	switch n := len(request.GetRepoUrls()); {
	case n == 0:
		return nil, rpcerr.Invalid("repo_urls", "name the repository that was pushed to")
	case n > webhook.MaxURLs:
		return nil, rpcerr.Invalid("repo_urls", "name fewer repositories in one call")
	}
	var urls []refs.URL
	for _, raw := range request.GetRepoUrls() {
		if url, err := refs.ParseURL(raw); err == nil {
			urls = append(urls, url)
		}
	}
	if n, polls := s.config.Pushed(s.config.Clock.Now(), request.GetNamespace(), urls); polls {
		return &pb.NotifyPushResponse{Remotes: int32(min(n, math.MaxInt32))}, nil
	}
	var response *pb.NotifyPushResponse
	err := s.askLeader(ctx, func(ctx context.Context, leader pb.RefWatcherServiceClient) (err error) {
		response, err = leader.NotifyPush(ctx, request)
		return err
	})
	return response, err
}

// ForwardPush calls NotifyPush of the leader in this service's own name, for hints that came without a caller.
func ForwardPush(l Leader) func(ctx context.Context, namespace string, urls []string) error {
	return func(ctx context.Context, namespace string, urls []string) error {
		return askLeader(ctx, l, l.DialReplicaAsService, func(ctx context.Context, leader pb.RefWatcherServiceClient) error {
			_, err := leader.NotifyPush(ctx, &pb.NotifyPushRequest{Namespace: namespace, RepoUrls: urls})
			return err
		})
	}
}
