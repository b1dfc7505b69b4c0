// Command refwatcher finds out which commits the branches and tags of Workspaces point to.
package main

import (
	"context"
	"fmt"
	"time"

	// A pod made FROM scratch has no certificates of its own to trust: these are used where the system has none.
	_ "golang.org/x/crypto/x509roots/fallback"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/service"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/remote"
	"magosproject.io/services/refwatcher/internal/rpc"
	"magosproject.io/services/refwatcher/internal/webhook"
)

func main() {
	config := NewDefaultConfig()
	service.Main(newDefinition(&config))
}

func newDefinition(config *Config) service.Definition {
	return service.Definition{
		Name: "refwatcher", Flags: config.BindFlags, Validate: config.Validate,
		Options: func(_ service.Config, options *ctrl.Options) {
			options.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: controller.SecretCache()}
		},
		Setup: func(ctx context.Context, kit *service.Kit) error { return setUp(ctx, config, kit) },
	}
}

func setUp(ctx context.Context, config *Config, kit *service.Kit) error {
	git := remote.New(config.remote(time.Now))
	knowledge := controller.NewKnowledge(config.schedule(), config.GitSchemes)
	credentials := controller.NewCredentials(kit.Manager.GetCache(), config.GitSchemes)
	recorder := kit.Manager.GetEventRecorder("magos-refwatcher")
	changed := make(chan event.TypedGenericEvent[types.NamespacedName])
	reconciler := &controller.Reconciler{
		Client: kit.Manager.GetClient(), Knowledge: knowledge, Credentials: credentials, Events: recorder, Clock: clock.RealClock{},
	}
	if err := reconciler.SetupWithManager(kit.Manager, changed); err != nil {
		return fmt.Errorf("adding the reconciler: %w", err)
	}
	secrets := &controller.SecretReconciler{Secrets: kit.Manager.GetCache(), Events: recorder}
	if err := secrets.SetupWithManager(kit.Manager); err != nil {
		return fmt.Errorf("adding the reconciler of repository credentials: %w", err)
	}
	metrics := controller.NewMetrics(kit.Metrics, knowledge.Count)
	poller := controller.NewPoller(controller.PollerConfig{
		Knowledge: knowledge, Workspaces: kit.Manager.GetClient(), Credentials: credentials, Lister: git, Changed: changed,
		Clock: clock.RealClock{}, Metrics: metrics, Log: kit.Log,
	})
	if err := kit.Manager.Add(poller); err != nil {
		return fmt.Errorf("adding the poller: %w", err)
	}
	handlers := rpc.New(rpc.Config{
		Workspaces: kit.Manager.GetAPIReader(), Lister: git, Credentials: credentials, Schemes: config.GitSchemes, PerHost: config.GitPollsPerHost,
		Remotes: knowledge.Remotes, Pushed: knowledge.Pushed, Leader: kit, Informers: kit.Manager.GetCache(), Clock: clock.RealClock{},
	})
	if config.WebhookListen != "" {
		if err := addWebhooks(ctx, config, kit, knowledge, metrics); err != nil {
			return err
		}
	}
	return kit.Serve(rpc.Rules(config.GitTimeout), func(r grpc.ServiceRegistrar) { pb.RegisterRefWatcherServiceServer(r, handlers) })
}

// addWebhooks makes every replica take webhooks, and bring what they tell to the one that polls.
func addWebhooks(ctx context.Context, config *Config, kit *service.Kit, knowledge *controller.Knowledge, metrics *controller.Metrics) error {
	if err := controller.IndexPlaces(ctx, kit.Manager.GetFieldIndexer()); err != nil {
		return err
	}
	hints := webhook.NewHints(webhook.HintsConfig{
		Workspaces: kit.Manager.GetCache(), Pushed: knowledge.Pushed, Forward: rpc.ForwardPush(kit), Clock: clock.RealClock{}, Log: kit.Log,
		Grace: kit.Config.DrainDelay + time.Second,
	})
	handler := webhook.NewHandler(webhook.HandlerConfig{
		Keys: webhook.Keys{Folder: config.WebhookKeyDir}, MaxBody: config.WebhookMaxBodyBytes, Offer: hints.Offer, Count: metrics.Webhook, Log: kit.Log,
	})
	for _, part := range []manager.Runnable{hints, webhook.NewServer(config.WebhookListen, handler, kit.Config.DrainDelay, kit.Log)} {
		if err := kit.Manager.Add(part); err != nil {
			return fmt.Errorf("adding webhooks: %w", err)
		}
	}
	return nil
}
