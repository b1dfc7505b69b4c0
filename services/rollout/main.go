// Command rollout decides which Workspaces may run.
package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"magosproject.io/api/v1alpha1"
	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/service"
	"magosproject.io/services/rollout/internal/controller"
	"magosproject.io/services/rollout/internal/rpc"
)

func main() {
	config := NewDefaultConfig()
	service.Main(newDefinition(&config))
}

func newDefinition(config *Config) service.Definition {
	return service.Definition{
		Name: "rollout", Flags: config.BindFlags, Validate: config.Validate,
		Setup: func(ctx context.Context, kit *service.Kit) error { return setUp(ctx, config, kit) },
	}
}

func setUp(ctx context.Context, config *Config, kit *service.Kit) error {
	if err := kit.RotateCertificates(); err != nil {
		return err
	}
	refwatcher, err := kit.Dial("refwatcher", refwatcherpb.RefWatcherService_ResolveRevision_FullMethodName)
	if err != nil {
		return fmt.Errorf("preparing to ask the refwatcher: %w", err)
	}
	cached := kit.Manager.GetClient()
	reconciler := controller.New(controller.Config{
		Client: cached, Live: kit.Manager.GetAPIReader(), Revisions: controller.NewRefWatcher(refwatcher),
		Events: kit.Manager.GetEventRecorder("magos-rollout"), Metrics: controller.NewMetrics(kit.Metrics),
		StatusInterval: config.StatusInterval, Workers: config.Workers,
	})
	if err := reconciler.SetupWithManager(ctx, kit.Manager); err != nil {
		return fmt.Errorf("adding the reconciler: %w", err)
	}
	list := func() ([]v1alpha1.Rollout, error) {
		var rollouts v1alpha1.RolloutList
		err := cached.List(ctx, &rollouts)
		return rollouts.Items, err
	}
	if err := kit.Metrics.Register(controller.NewCollector(list, clock.RealClock{})); err != nil {
		return fmt.Errorf("registering the metrics of Rollouts: %w", err)
	}
	informer, err := kit.Manager.GetCache().GetInformer(ctx, &v1alpha1.Rollout{})
	if err != nil {
		return fmt.Errorf("following Rollouts: %w", err)
	}
	handlers := rpc.New(rpc.Config{Cached: cached, Informer: informer, Live: kit.Manager.GetAPIReader(), Client: cached})
	return kit.Serve(rpc.Rules(), func(r grpc.ServiceRegistrar) { pb.RegisterRolloutServiceServer(r, handlers) })
}
