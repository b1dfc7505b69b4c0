package rpcserver

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
)

// guardUnary lets a call through to its handler only when its caller is known and may make it.
func (s *Server) guardUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.identify(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	if err := s.permit(ctx, info.FullMethod, request); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// guardStream does the same; what a stream is about is known when its first message has come.
func (s *Server) guardStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := s.identify(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handle(server, &guardedStream{ServerStream: stream, server: s, method: info.FullMethod})
}

// guardedStream hands nothing out, in either direction, before the first message was judged.
type guardedStream struct {
	grpc.ServerStream
	server    *Server
	method    string
	permitted bool
}

func (g *guardedStream) RecvMsg(message any) error {
	if err := g.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if g.permitted {
		return nil
	}
	if err := g.server.permit(g.Context(), g.method, message); err != nil {
		return err
	}
	g.permitted = true
	return nil
}

func (g *guardedStream) SendMsg(message any) error {
	if !g.permitted {
		return fmt.Errorf("sending on %s before its request was read", g.method)
	}
	return g.ServerStream.SendMsg(message)
}

func (s *Server) identify(ctx context.Context, method string) error {
	if accessOf(method) == open {
		return nil
	}
	user, err := s.authenticator.authenticate(ctx)
	if err != nil {
		return err
	}
	callOf(ctx).user = user
	return nil
}

func (s *Server) permit(ctx context.Context, method string, request any) error {
	if accessOf(method) != byRule {
		return nil
	}
	rule, found := s.config.Rules[method]
	if !found {
		// CheckRules has refused this already; a gate without a rule stays shut all the same.
		return fmt.Errorf("judging a call of %s: it has no rule", method)
	}
	c := callOf(ctx)
	if rule.Object != nil {
		c.namespace, c.name = rule.Object(request)
	}
	return s.authorizer.authorize(ctx, c.user, rule, c.namespace, c.name)
}
