package rpcserver

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
)

const (
	maxMessage = 4 << 20
	maxHeaders = 32 << 10
	maxStreams = 256
)

// Server is a gRPC server with everything that Magos asks of one. Register services with GRPC, then Start.
type Server struct {
	config Config
	grpc   *grpc.Server
	health *health.Server

	authenticator *authenticator
	authorizer    *authorizer
	metrics       *metrics

	// draining ends when open streams have to.
	draining context.Context
	endAll   context.CancelFunc
}

// New makes a server that does not listen yet.
func New(config Config) (*Server, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configuring the gRPC server: %w", err)
	}
	metrics, err := newMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the gRPC server: %w", err)
	}
	s := &Server{
		config:        config,
		health:        health.NewServer(),
		authenticator: newAuthenticator(config),
		authorizer:    newAuthorizer(config),
		metrics:       metrics,
	}
	s.draining, s.endAll = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(s.options()...)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

func (s *Server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(s.config.TLS.ServerConfig())),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		// Connections end now and then, so that calls spread over replicas that came later.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionAge: 30 * time.Minute}),
		grpc.ChainUnaryInterceptor(s.observeUnary, s.unaryErrors, s.unaryDeadline, s.guardUnary),
		grpc.ChainStreamInterceptor(s.observeStream, s.streamErrors, s.streamLife, s.guardStream),
	}
}

// GRPC is where services are registered, before Start.
func (s *Server) GRPC() grpc.ServiceRegistrar { return s.grpc }

// NeedLeaderElection makes every replica serve.
func (s *Server) NeedLeaderElection() bool { return false }

// Start checks the rules, listens, and serves until ctx ends; then it drains.
func (s *Server) Start(ctx context.Context) error {
	if err := s.CheckRules(); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("listening for gRPC: %w", err)
	}
	return s.Serve(ctx, listener)
}

// Serve is Start on a listener that exists already.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if err := s.CheckRules(); err != nil {
		return err
	}
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	s.config.Log.Info("serving gRPC", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- s.grpc.Serve(listener) }()
	select {
	case err := <-ended:
		s.endAll()
		return fmt.Errorf("serving gRPC: %w", err)
	case <-ctx.Done():
		s.drain()
		return nil
	}
}

// drain tells first, waits then, and cuts off only what does not end.
func (s *Server) drain() {
	s.config.Log.Info("draining the gRPC server", "delay", s.config.DrainDelay.String(), "limit", s.config.Drain.String())
	s.health.Shutdown()
	if s.config.DrainDelay > 0 {
		<-s.config.Clock.After(s.config.DrainDelay)
	}
	s.endAll()
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-s.config.Clock.After(s.config.Drain):
		s.config.Log.Warn("cutting off calls that did not end in time", "limit", s.config.Drain.String())
		s.grpc.Stop()
		<-stopped
	}
}
