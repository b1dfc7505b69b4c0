package rpcerr

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryClient turns the status of a failed call back into an *Error.
func UnaryClient() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return FromWire(invoke(ctx, method, req, reply, cc, opts...))
	}
}

// StreamClient does the same for streams, for the call and for each message.
func StreamClient() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := stream(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, FromWire(err)
		}
		return &clientStream{ClientStream: s}, nil
	}
}

type clientStream struct{ grpc.ClientStream }

func (s *clientStream) RecvMsg(m any) error { return FromWire(s.ClientStream.RecvMsg(m)) }
func (s *clientStream) SendMsg(m any) error { return FromWire(s.ClientStream.SendMsg(m)) }
