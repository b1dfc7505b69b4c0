package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// forwarded marks a call that comes from another replica: it is not passed on again, or two replicas that each take the other for the leader
// would play with it.
const forwarded = "magos-forwarded"

// ListRemotes lists the remotes that are polled. Only the leader polls; other replicas ask it, once, as the caller.
func (s *Service) ListRemotes(ctx context.Context, request *pb.ListRemotesRequest) (*pb.ListRemotesResponse, error) {
	if remotes, polls := s.config.Remotes(request.GetNamespace()); polls {
		return render(remotes), nil
	}
	address, self, err := s.config.Leader.LeaderAddress(ctx)
	if err != nil {
		return nil, err
	}
	if self || len(metadata.ValueFromIncomingContext(ctx, forwarded)) > 0 {
		return nil, rpcerr.New(codes.Unavailable, rpcerr.NoLeader, "the leader has not begun to poll; try again").WithRetryAfter(time.Second)
	}
	return s.ask(ctx, address, request)
}

func (s *Service) ask(ctx context.Context, address string, request *pb.ListRemotesRequest) (*pb.ListRemotesResponse, error) {
	connection, err := s.config.Leader.DialReplica(address)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask the leader: %w", err)
	}
	defer func() { _ = connection.Close() }()
	ctx = metadata.AppendToOutgoingContext(ctx, forwarded, "true")
	response, err := pb.NewRefWatcherServiceClient(connection).ListRemotes(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("asking the leader: %w", err)
	}
	return response, nil
}

func render(remotes []schedule.Remote) *pb.ListRemotesResponse {
	response := &pb.ListRemotesResponse{}
	for _, r := range remotes {
		message := &pb.Remote{
			Url: r.URL, LastSuccessAt: timestamp(r.LastSuccess), LastError: r.LastError, NextPollAt: timestamp(r.NextPoll),
			CredentialSecret: r.Secret, HostKeyUnverified: r.Unverified,
		}
		for _, w := range r.Workspaces {
			message.Workspaces = append(message.Workspaces, &corepb.ObjectRef{Namespace: w.Namespace, Name: w.Name})
		}
		response.Remotes = append(response.Remotes, message)
	}
	return response
}

// timestamp is absent for what has not been or is not known.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
