package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers /metrics, /healthz and /readyz over plain HTTP. It starts before everything else and stops after it, so that
// probes are answered while the service starts and drains.
type Server struct {
	listen   string
	gatherer prometheus.Gatherer
	log      *slog.Logger

	mutex  sync.Mutex
	checks map[string]func() error
}

// NewServer makes a server for the address listen, such as ":8080". Without checks it is ready.
func NewServer(listen string, gatherer prometheus.Gatherer, log *slog.Logger) *Server {
	return &Server{listen: listen, gatherer: gatherer, log: log, checks: map[string]func() error{}}
}

// AddReadyCheck makes /readyz depend on check, which must answer at once: nil, or what is missing.
func (s *Server) AddReadyCheck(name string, check func() error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.checks[name] = check
}

// Ready is nil when every check is, else it says what is missing.
func (s *Server) Ready() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var missing []string
	for name, check := range s.checks {
		if err := check(); err != nil {
			missing = append(missing, name+": "+err.Error())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New(strings.Join(missing, "\n"))
}

// Start serves until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listening for probes and metrics: %w", err)
	}
	return s.Serve(ctx, listener)
}

// Serve is Start on a listener that exists already.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() {
		// Nobody waits for a scrape at the very end.
		_ = server.Close()
	})
	defer stop()
	s.log.Info("serving probes and metrics", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving probes and metrics: %w", err)
	}
	return nil
}

// Handler has the three paths.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Ready()) })
	return mux
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, err)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
