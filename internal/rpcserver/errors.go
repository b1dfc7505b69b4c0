package rpcserver

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"

	"magosproject.io/internal/rpcerr"
)

// unaryErrors turns whatever a handler returns, a panic included, into the vocabulary.
func (s *Server) unaryErrors(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	err = s.translate(ctx, func() (err error) {
		response, err = handle(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// streamErrors does the same for streams.
func (s *Server) streamErrors(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return s.translate(stream.Context(), func() error { return handle(server, stream) })
}

func (s *Server) translate(ctx context.Context, do func() error) error {
	c := callOf(ctx)
	err := recovered(c, do)
	if err == nil {
		return nil
	}
	sent := rpcerr.Classify(err, s.config.domain())
	c.cause = err
	return sent
}

// recovered calls do and turns a panic into an error: one bad request must not end the process for everybody.
func recovered(c *call, do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			c.panicked = string(debug.Stack())
			err = fmt.Errorf("handling the call: panic: %v", r)
		}
	}()
	return do()
}
