// Command magos-runner makes the Jobs of runs, watches their Pods and keeps their results.
package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/service"
	"magosproject.io/services/runner/internal/controller"
	"magosproject.io/services/runner/internal/rpc"
	"magosproject.io/services/runner/internal/runs"
)

func main() {
	config := NewDefaultConfig()
	service.Main(definition(&config))
}

func definition(config *Config) service.Definition {
	return service.Definition{
		Name: "runner", Flags: config.BindFlags, Validate: config.Validate,
		Options: func(_ service.Config, options *ctrl.Options) { options.Cache.ByObject = controller.CacheByObject() },
		Setup:   func(ctx context.Context, kit *service.Kit) error { return setup(ctx, kit, config) },
	}
}

func setup(ctx context.Context, kit *service.Kit, config *Config) error {
	settings, err := config.Settings()
	if err != nil {
		return err
	}
	manager := kit.Manager
	metrics, err := controller.NewMetrics(kit.Metrics)
	if err != nil {
		return err
	}
	pods, err := corev1client.NewForConfigAndClient(manager.GetConfig(), manager.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the client for logs: %w", err)
	}
	if err := controller.IndexEvents(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	known := runs.New(runs.Config{
		Cache: manager.GetCache(), API: manager.GetAPIReader(), Writer: manager.GetClient(),
		Settings: settings, NodeLossGrace: config.NodeLossGrace, Now: time.Now, Log: logReader(pods),
	})
	if err := controller.Setup(manager, known, metrics, config.Workers); err != nil {
		return err
	}
	hub := rpc.NewHub()
	if err := hub.Follow(ctx, manager.GetCache()); err != nil {
		return err
	}
	server := &rpc.Server{Runs: known, Hub: hub, Pods: pods, Metrics: metrics}
	return kit.Serve(rpc.Rules(), func(registrar grpc.ServiceRegistrar) {
		runnerv1alpha1.RegisterRunnerServiceServer(registrar, server)
	})
}

// logReader reads the end of a log, as much as a message of the API server may reasonably have.
func logReader(pods corev1client.PodsGetter) func(context.Context, types.NamespacedName, string, int64) ([]byte, error) {
	return func(ctx context.Context, pod types.NamespacedName, container string, lines int64) ([]byte, error) {
		return pods.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: container, TailLines: &lines, LimitBytes: ptr.To[int64](4 << 20),
		}).DoRaw(ctx)
	}
}
