package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// connections at a time; more wait.
	connections = 256
	// patience for a whole request: a sender that is slower is cut off.
	patience = 10 * time.Second
	// drain is how long requests may still take that are being answered when the replica stops.
	drain = 5 * time.Second
)

// Server serves a Handler over plain HTTP, on every replica. Encryption is the business of the Ingress or Gateway in front. Add it to a manager.
type Server struct {
	listen  string
	handler http.Handler
	delay   time.Duration
	log     *slog.Logger
	// patience of a request; a test shortens it.
	patience time.Duration
}

// NewServer makes a Server for an address, such as ":8090". delay is how long it still takes requests when it stops, so that nobody is sent to a closed port.
func NewServer(listen string, handler http.Handler, delay time.Duration, log *slog.Logger) *Server {
	return &Server{listen: listen, handler: handler, delay: delay, log: log, patience: patience}
}

// NeedLeaderElection makes every replica serve.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, s.handler)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: s.patience / 2, ReadTimeout: s.patience, WriteTimeout: 2 * s.patience, IdleTimeout: 3 * s.patience,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		time.Sleep(s.delay)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	})
	s.log.InfoContext(ctx, "serving webhooks", "address", listener.Addr().String())
	err := server.Serve(netutil.LimitListener(listener, connections))
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	<-ended
	return nil
}
