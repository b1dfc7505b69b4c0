package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/internal/telemetry"
)

// Kit is what a service builds on in its Setup.
type Kit struct {
	// Name is the service's short name.
	Name string
	// Config has the shared settings.
	Config Config
	// Manager runs controllers and everything else; its client reads from caches, except Secrets and ConfigMaps.
	Manager ctrl.Manager
	// Log is the service's logger.
	Log *slog.Logger
	// Metrics is where the service registers its own.
	Metrics prometheus.Registerer
	// Telemetry takes further readiness checks.
	Telemetry *telemetry.Server
	// TLS has the present certificates.
	TLS *certs.Bundle

	secrets  corev1client.SecretInterface
	leases   coordinationv1client.LeaseInterface
	reviewer rpcserver.Reviewer
	server   *rpcserver.Server
	identity string
}

// reviewer has the two typed clients that are needed; a whole clientset costs megabytes.
type reviewer struct {
	authentication authenticationv1client.AuthenticationV1Interface
	authorization  authorizationv1client.AuthorizationV1Interface
}

func (r reviewer) AuthenticationV1() authenticationv1client.AuthenticationV1Interface {
	return r.authentication
}

func (r reviewer) AuthorizationV1() authorizationv1client.AuthorizationV1Interface {
	return r.authorization
}

func newKit(definition Definition, config Config, restConfig *rest.Config, log *slog.Logger) (*Kit, error) {
	kit := &Kit{Name: definition.Name, Config: config, Log: log, identity: newIdentity(config.AdvertiseAddress)}
	if err := kit.addClients(restConfig); err != nil {
		return nil, fmt.Errorf("making the clients of the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, magosv1alpha1.AddToScheme, definition.AddToScheme} {
		if add == nil {
			continue
		}
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	options := managerOptions(definition, config, log)
	options.Scheme = scheme
	options.LeaderElectionResourceLockInterface = kit.lock()
	manager, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	kit.Manager = manager
	kit.TLS = certs.NewBundle(certs.BundleConfig{Secrets: kit.secrets, Log: log})
	if err := manager.Add(kit.TLS); err != nil {
		return nil, fmt.Errorf("adding the certificates: %w", err)
	}
	registry := telemetry.NewRegistry(definition.Name)
	kit.Metrics = registry
	kit.Telemetry = telemetry.NewServer(config.HTTPListen, telemetry.Gatherer(registry), log)
	return kit, nil
}

func (k *Kit) addClients(restConfig *rest.Config) error {
	core, err := corev1client.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	// One request that hangs must not cost the leader its lease.
	leaseConfig := rest.CopyConfig(restConfig)
	leaseConfig.Timeout = max(k.Config.RenewDeadline/2, time.Second)
	coordination, err := coordinationv1client.NewForConfig(leaseConfig)
	if err != nil {
		return err
	}
	authentication, err := authenticationv1client.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	authorization, err := authorizationv1client.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	k.secrets = core.Secrets(k.Config.ReleaseNamespace)
	k.leases = coordination.Leases(k.Config.ReleaseNamespace)
	k.reviewer = reviewer{authentication: authentication, authorization: authorization}
	return nil
}

// uncached are the kinds that are read from the API server each time: watching them would need the right to list them all, and hold them in memory.
func uncached() *client.CacheOptions {
	return &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
}

// Serve makes the gRPC server; register is called at once. A method without a rule, or a rule without a method, is an error.
func (k *Kit) Serve(rules map[string]rpcserver.Rule, register func(grpc.ServiceRegistrar)) error {
	if k.server != nil {
		return errors.New("making the gRPC server: there is one already")
	}
	server, err := rpcserver.New(rpcserver.Config{
		Service: k.Name, Listen: k.Config.GRPCListen, TLS: k.TLS, Kube: k.reviewer, Rules: rules, Metrics: k.Metrics, Log: k.Log,
		DrainDelay: k.Config.DrainDelay, Drain: k.Config.DrainTimeout,
	})
	if err != nil {
		return err
	}
	register(server.GRPC())
	if err := server.CheckRules(); err != nil {
		return err
	}
	k.server = server
	return nil
}

// addServer comes after Setup, so that handlers find everything they need.
func (k *Kit) addServer() error {
	if k.server == nil {
		return nil
	}
	if err := k.Manager.Add(k.server); err != nil {
		return fmt.Errorf("adding the gRPC server: %w", err)
	}
	return nil
}

// RotateCertificates makes the leader of this service keep the certificates of all services. Only the rollout service calls it.
func (k *Kit) RotateCertificates() error {
	rotator := certs.NewRotator(certs.RotatorConfig{Secrets: k.secrets, Namespace: k.Config.ReleaseNamespace, Changed: k.TLS.Changed, Log: k.Log})
	if err := k.Manager.Add(rotator); err != nil {
		return fmt.Errorf("adding the rotation of the certificates: %w", err)
	}
	return nil
}

// Dial prepares the connection to a peer, such as "runner", with the token for it in the token folder.
// The idempotent methods, by full name, are sent again when the peer was unavailable. The connection lasts as long as the process.
func (k *Kit) Dial(peer string, idempotent ...string) (*grpc.ClientConn, error) {
	target, found := k.Config.Peers[peer]
	if !found {
		target = fmt.Sprintf("dns:///%s:8443", k.serverName(peer))
	}
	return rpcclient.Dial(rpcclient.Config{
		Target: target, ServerName: k.serverName(peer), TLS: k.TLS, Log: k.Log,
		TokenFile: filepath.Join(k.Config.TokenDir, peer), Idempotent: idempotent,
	})
}

// DialReplica prepares a connection to another replica of this service, at an address as LeaderAddress gives it.
// Calls carry the token of the call that is being served, so that the other replica judges the real caller. Close it after use.
func (k *Kit) DialReplica(address string) (*grpc.ClientConn, error) {
	return rpcclient.Dial(rpcclient.Config{
		Target: "passthrough:///" + address, ServerName: k.serverName(k.Name), TLS: k.TLS, Log: k.Log, ForwardCaller: true,
	})
}

// DialReplicaAsService is DialReplica for what nobody calls for: calls carry the token that this service has for itself. Close it after use.
func (k *Kit) DialReplicaAsService(address string) (*grpc.ClientConn, error) {
	return rpcclient.Dial(rpcclient.Config{
		Target: "passthrough:///" + address, ServerName: k.serverName(k.Name), TLS: k.TLS, Log: k.Log, TokenFile: filepath.Join(k.Config.TokenDir, k.Name),
	})
}

func (k *Kit) serverName(service string) string {
	return fmt.Sprintf("magos-%s.%s.svc", service, k.Config.ReleaseNamespace)
}

// everyReplica is a runnable that does not wait for leadership.
type everyReplica func(context.Context) error

func (f everyReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection makes every replica run it.
func (f everyReplica) NeedLeaderElection() bool { return false }

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for probes and metrics: %w", err)
	}
	return listener, nil
}
