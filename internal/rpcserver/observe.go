package rpcserver

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"

	"magosproject.io/internal/rpcerr"
)

// observeUnary counts and logs a call. It is the outermost, so that it sees what the caller gets.
func (s *Server) observeUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	c := &call{method: info.FullMethod}
	ctx = withCall(ctx, c)
	done := s.begin(ctx, typeUnary, c)
	response, err := handle(ctx, request)
	done(err)
	return response, err
}

// observeStream does the same for streams.
func (s *Server) observeStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	c := &call{method: info.FullMethod}
	ctx := withCall(stream.Context(), c)
	done := s.begin(ctx, typeStream, c)
	err := handle(server, &boundStream{ServerStream: stream, ctx: ctx})
	done(err)
	return err
}

func (s *Server) begin(ctx context.Context, kind string, c *call) func(error) {
	started := s.config.Clock.Now()
	s.metrics.begin(kind)
	return func(err error) {
		took := s.config.Clock.Since(started)
		code := rpcerr.Code(err)
		s.metrics.end(kind, c.method, code, took)
		s.config.Log.LogAttrs(ctx, level(c.method, code), "gRPC call", c.attributes(ctx, err, took)...)
	}
}

// level keeps probes and tools out of the usual log, and makes faults of ours stand out.
func level(method string, code codes.Code) slog.Level {
	switch {
	case code == codes.Internal || code == codes.Unknown || code == codes.DataLoss:
		return slog.LevelError
	case accessOf(method) != byRule:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

// attributes has who did what to which object and how it ended: neither tokens nor requests.
func (c *call) attributes(ctx context.Context, err error, took time.Duration) []slog.Attr {
	attributes := []slog.Attr{
		slog.String("method", c.method),
		slog.String("code", rpcerr.Code(err).String()),
		slog.Duration("duration", took),
	}
	add := func(key, value string) {
		if value != "" {
			attributes = append(attributes, slog.String(key, value))
		}
	}
	if p, ok := peer.FromContext(ctx); ok {
		add("peer", p.Addr.String())
	}
	add("user", c.user.Username)
	add("namespace", c.namespace)
	add("name", c.name)
	add("reason", rpcerr.Reason(err))
	if c.cause != nil {
		add("error", c.cause.Error())
	}
	add("stack", c.panicked)
	return attributes
}
