package rpc

import (
	"context"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// ListRemotes lists the remotes that are polled. Only the leader polls; other replicas ask it, once, as the caller.
func (s *Service) ListRemotes(ctx context.Context, request *pb.ListRemotesRequest) (*pb.ListRemotesResponse, error) {
	if remotes, polls := s.config.Remotes(request.GetNamespace()); polls {
		return render(remotes), nil
	}
	var response *pb.ListRemotesResponse
	err := s.askLeader(ctx, func(ctx context.Context, leader pb.RefWatcherServiceClient) (err error) {
		response, err = leader.ListRemotes(ctx, request)
		return err
	})
	return response, err
}

func render(remotes []schedule.Remote) *pb.ListRemotesResponse {
	response := &pb.ListRemotesResponse{}
	for _, r := range remotes {
		message := &pb.Remote{
			Url: r.URL, LastSuccessAt: timestamp(r.LastSuccess), LastError: r.LastError, NextPollAt: timestamp(r.NextPoll),
			CredentialSecret: r.Secret, HostKeyUnverified: r.Unverified, FailedPolls: int32(min(r.FailedPolls, math.MaxInt32)),
			LeftAloneUntil: timestamp(r.LeftAloneUntil), Interval: durationpb.New(r.Interval), LastPushAt: timestamp(r.LastPush),
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
