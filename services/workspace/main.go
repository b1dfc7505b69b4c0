// Command workspace brings Workspaces in line, one run at a time, and tells of VariableSets whether they are complete.
package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	runnerpb "magosproject.io/gen/magos/runner/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/service"
	"magosproject.io/services/workspace/internal/controller"
	"magosproject.io/services/workspace/internal/rpc"
)

func main() {
	service.Main(newDefinition())
}

func newDefinition() service.Definition {
	config := NewDefaultConfig()
	return service.Definition{
		Name: "workspace", Flags: config.BindFlags, Validate: config.Validate,
		Options: func(_ service.Config, options *ctrl.Options) { controller.LimitCache(&options.Cache) },
		Setup:   func(ctx context.Context, kit *service.Kit) error { return setUp(ctx, &config, kit) },
	}
}

func setUp(ctx context.Context, config *Config, kit *service.Kit) error {
	// StartRun is told apart by its content: the same request finds its Job again.
	runnerConnection, err := kit.Dial("runner", runnerpb.RunnerService_StartRun_FullMethodName,
		runnerpb.RunnerService_GetRun_FullMethodName, runnerpb.RunnerService_CancelRun_FullMethodName, runnerpb.RunnerService_GetInputs_FullMethodName)
	if err != nil {
		return err
	}
	refwatcherConnection, err := kit.Dial("refwatcher", refwatcherpb.RefWatcherService_ResolveRevision_FullMethodName)
	if err != nil {
		return err
	}
	runner := runnerpb.NewRunnerServiceClient(runnerConnection)
	mgr := kit.Manager
	if err := controller.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	objects := controller.NewObjects(mgr.GetCache(), mgr.GetAPIReader())
	workspaces := &controller.Reconciler{Config: controller.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Objects: objects, Runner: runner, RefWatcher: refwatcherpb.NewRefWatcherServiceClient(refwatcherConnection),
		Events: mgr.GetEventRecorder("magos-workspace"), Metrics: controller.NewMetrics(kit.Metrics), Clock: clock.RealClock{},
		Drift: controller.NewDriftSlots(config.MaxDriftPlans, mgr.GetClient()),
	}}
	sets := &controller.VariableSetReconciler{Client: mgr.GetClient(), Objects: objects, Clock: clock.RealClock{}}
	hints := controller.NewHints(runner, kit.Config.Namespaces, clock.RealClock{}, kit.Log)
	if err := mgr.Add(hints); err != nil {
		return fmt.Errorf("adding the hints of the runner: %w", err)
	}
	if err := controller.SetUp(mgr, workspaces, sets, hints.Channel(), config.Workers); err != nil {
		return err
	}
	handlers := rpc.New(rpc.Config{Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: mgr.GetClient(),
		Variables: controller.Variables{Reader: mgr.GetCache(), Objects: objects}})
	return kit.Serve(rpc.Rules(), func(r grpc.ServiceRegistrar) { pb.RegisterWorkspaceServiceServer(r, handlers) })
}
