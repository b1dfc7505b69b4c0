package telemetry

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// NewLogger writes one JSON object per line. The level is one of debug, info, warn, error.
func NewLogger(w io.Writer, level, service string) (*slog.Logger, error) {
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("reading the log level %q: want debug, info, warn or error", level)
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: threshold})).With("service", service), nil
}

// Adopt makes controller-runtime and client-go log through logger too.
// Their verbose levels (V(1) and up) appear at level debug only.
func Adopt(logger *slog.Logger) {
	slog.SetDefault(logger)
	ctrllog.SetLogger(Logr(logger))
	klog.SetSlogLogger(logger)
}

// Logr is logger for libraries that want a logr.Logger.
func Logr(logger *slog.Logger) logr.Logger { return logr.FromSlogHandler(logger.Handler()) }
