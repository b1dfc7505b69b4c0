package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// forwarded marks a call that comes from another replica: it is not passed on again, or two replicas that each take the other for the leader
// would play with it.
const forwarded = "magos-forwarded"

// askLeader passes a call on to the replica that polls, once, as the caller. It is for replicas that do not poll.
func (s *Service) askLeader(ctx context.Context, call func(context.Context, pb.RefWatcherServiceClient) error) error {
	if len(metadata.ValueFromIncomingContext(ctx, forwarded)) > 0 {
		return notPolling()
	}
	return askLeader(ctx, s.config.Leader, s.config.Leader.DialReplica, call)
}

func askLeader(ctx context.Context, l Leader, dial func(string) (*grpc.ClientConn, error), call func(context.Context, pb.RefWatcherServiceClient) error) error {
	address, self, err := l.LeaderAddress(ctx)
	if err != nil {
		return err
	}
	if self {
		return notPolling()
	}
	connection, err := dial(address)
	if err != nil {
		return fmt.Errorf("preparing to ask the leader: %w", err)
	}
	defer func() { _ = connection.Close() }()
	if err := call(metadata.AppendToOutgoingContext(ctx, forwarded, "true"), pb.NewRefWatcherServiceClient(connection)); err != nil {
		return fmt.Errorf("asking the leader: %w", err)
	}
	return nil
}

func notPolling() error {
	return rpcerr.New(codes.Unavailable, rpcerr.NoLeader, "the leader has not begun to poll; try again").WithRetryAfter(time.Second)
}
