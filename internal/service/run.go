package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"magosproject.io/internal/telemetry"
)

// errDraining is why a stopping replica is not ready.
var errDraining = errors.New("the replica is stopping")

// RunWith runs a service against an API server until ctx ends, or until the lease is lost, which is an error: the process must then end at once.
func RunWith(ctx context.Context, definition Definition, config Config, restConfig *rest.Config, log *slog.Logger) error {
	restConfig = rest.CopyConfig(restConfig)
	restConfig.QPS, restConfig.Burst = float32(config.QPS), config.Burst
	restConfig = rest.AddUserAgent(restConfig, "magos-"+definition.Name)

	kit, err := newKit(definition, config, restConfig, log)
	if err != nil {
		return err
	}
	stopProbes, err := kit.startProbes(ctx)
	if err != nil {
		return err
	}
	defer stopProbes()
	if definition.Setup != nil {
		if err := definition.Setup(ctx, kit); err != nil {
			return fmt.Errorf("setting up the service: %w", err)
		}
	}
	if err := kit.addServer(); err != nil {
		return err
	}
	if err := kit.Manager.Start(ctx); err != nil {
		return fmt.Errorf("running the service: %w", err)
	}
	return nil
}

// startProbes serves probes and metrics until the returned function is called, also while the manager stops.
func (k *Kit) startProbes(ctx context.Context) (func(), error) {
	var synced atomic.Bool
	if err := k.Manager.Add(everyReplica(func(ctx context.Context) error {
		// The manager starts this only after its caches have synced.
		synced.Store(true)
		<-ctx.Done()
		return nil
	})); err != nil {
		return nil, fmt.Errorf("adding the readiness of the caches: %w", err)
	}
	k.Telemetry.AddReadyCheck("caches", func() error {
		if !synced.Load() {
			return errors.New("not synced yet")
		}
		return nil
	})
	k.Telemetry.AddReadyCheck("certificates", k.TLS.Check)
	k.Telemetry.AddReadyCheck("life", func() error {
		if ctx.Err() != nil {
			return errDraining
		}
		return nil
	})

	listener, err := listen(ctx, k.Config.HTTPListen)
	if err != nil {
		return nil, err
	}
	probes, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := k.Telemetry.Serve(probes, listener); err != nil {
			k.Log.Error("probes are no longer answered", "error", err)
		}
	}()
	return func() { stop(); <-ended }, nil
}

// managerOptions keep memory and privileges low: no managed fields in caches, and Secrets and ConfigMaps are read, one by one,
// from the API server, not watched.
func managerOptions(definition Definition, config Config, log *slog.Logger) ctrl.Options {
	// Reconcilers finish what they are at while the gRPC server drains; a little is left for both.
	grace := config.DrainDelay + config.DrainTimeout + 5*time.Second
	options := ctrl.Options{
		Logger:                        telemetry.Logr(log),
		LeaderElection:                config.LeaderElect,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &config.LeaseDuration,
		RenewDeadline:                 &config.RenewDeadline,
		RetryPeriod:                   &config.RetryPeriod,
		GracefulShutdownTimeout:       &grace,
		HealthProbeBindAddress:        "0",
		Cache:                         cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	}
	options.Metrics.BindAddress = "0"
	options.Client.Cache = uncached()
	if len(config.Namespaces) > 0 {
		options.Cache.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range config.Namespaces {
			options.Cache.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	if definition.Options != nil {
		definition.Options(config, &options)
	}
	return options
}
