package rpcserver

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"magosproject.io/internal/rpcerr"
)

// errGoingAway ends a stream that has done nothing wrong.
var errGoingAway = errors.New("the stream has to end here")

// unaryDeadline gives a call a deadline if it has none, and none later than the maximum.
func (s *Server) unaryDeadline(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout(ctx, info.FullMethod))
	defer cancel()
	return handle(ctx, request)
}

// timeout is an upper bound: a client's own, earlier deadline holds beside it.
func (s *Server) timeout(ctx context.Context, method string) time.Duration {
	usual := s.config.Rules[method].Deadline
	if usual == 0 {
		usual = s.config.DefaultDeadline
	}
	if _, set := ctx.Deadline(); !set {
		return usual
	}
	return max(usual, s.config.MaxDeadline)
}

// streamLife ends a stream when the server drains or the stream is too old. The client learns that it should connect again,
// also from handlers that take the end of their context for success.
func (s *Server) streamLife(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	goAway := func() { cancel(errGoingAway) }
	defer context.AfterFunc(s.draining, goAway)()
	defer time.AfterFunc(s.config.MaxStreamAge, goAway).Stop()

	err := handle(server, &boundStream{ServerStream: stream, ctx: ctx})
	if errors.Is(context.Cause(ctx), errGoingAway) {
		return rpcerr.New(codes.Unavailable, rpcerr.ServerDraining, "the server ends this stream; connect again")
	}
	return err
}

// boundStream is a stream with a context of ours.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (b *boundStream) Context() context.Context { return b.ctx }
