package certs

import (
	"context"
	"log/slog"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// RotatorConfig says what to make and how long it lasts.
type RotatorConfig struct {
	// Secrets of the release's namespace.
	Secrets corev1client.SecretInterface
	// Namespace of the release; part of the names in the certificate.
	Namespace string
	// Services are the names of the Services that the certificate is for, default Services().
	Services []string
	// CALife; default 365 days. It is replaced after two thirds.
	CALife time.Duration
	// ServingLife; default 30 days. It is replaced after two thirds.
	ServingLife time.Duration
	// Overlap is how long a new CA is trusted before it signs, and an old one after it last signed; default 24 h.
	Overlap time.Duration
	// Changed wakes the Rotator, for instance when somebody deletes the Secret: Bundle.Changed. Nil for none.
	Changed func() <-chan struct{}
	// Log gets what was made, never a key.
	Log *slog.Logger
	// Clock; default the real one.
	Clock clock.Clock
}

// Rotator keeps both Secrets as they should be. Only the leader of the rollout service runs it.
type Rotator struct{ config RotatorConfig }

// NewRotator makes a Rotator that does nothing until Start.
func NewRotator(config RotatorConfig) *Rotator {
	setDuration(&config.CALife, 365*24*time.Hour)
	setDuration(&config.ServingLife, 30*24*time.Hour)
	setDuration(&config.Overlap, 24*time.Hour)
	if config.Services == nil {
		config.Services = Services()
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Changed == nil {
		config.Changed = func() <-chan struct{} { return nil }
	}
	return &Rotator{config: config}
}

func setDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// NeedLeaderElection makes the leader alone write.
func (r *Rotator) NeedLeaderElection() bool { return true }

const (
	// longestPause also repairs what somebody else did to the CA's Secret, which is not watched.
	longestPause = 10 * time.Minute
	errorPause   = 2 * time.Second
	// shortestPause keeps a tug of war with whoever else writes the Secret from becoming a busy loop.
	shortestPause = time.Second
)

// Start keeps the Secrets until ctx ends.
func (r *Rotator) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := r.config.Changed()
		pause := longestPause
		if err := r.Rotate(ctx); err != nil {
			r.config.Log.Error("keeping the certificates", "error", err)
			// A wake-up must not turn an error into a busy loop.
			changed, pause = nil, errorPause
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-r.config.Clock.After(pause):
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.config.Clock.After(shortestPause):
		}
	}
	return nil
}
