package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/service"
	"magosproject.io/internal/testcluster"
)

const commit = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

var apiServer *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	testcluster.Main(m, func(config *rest.Config) { apiServer = config })
}

// installation is the service as the chart installs it, two replicas of it, as processes of the test.
type installation struct {
	t         *testing.T
	admin     client.WithWatch
	namespace string
	account   *rest.Config
	bundle    *certs.Bundle
	tokens    string
	replicas  map[string]context.CancelFunc
	ended     chan error

	refwatcher string
	asked      atomic.Int64
}

func install(t *testing.T) *installation {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server; make test has one")
	}
	admin := testcluster.Client(t, apiServer)
	i := &installation{
		t: t, admin: admin, namespace: testcluster.Namespace(t, admin), bundle: certs.NewBundle(certs.BundleConfig{}), tokens: t.TempDir(),
		replicas: map[string]context.CancelFunc{}, ended: make(chan error, 2), refwatcher: testcluster.Address(t),
	}
	i.grant("magos-rollout", serviceRules(t))
	i.account = rest.CopyConfig(apiServer)
	i.account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + i.namespace + ":magos-rollout", Groups: []string{"system:authenticated"},
	}
	token := testcluster.Token(t, admin, i.namespace, "magos-rollout", "magos-refwatcher")
	if err := os.WriteFile(filepath.Join(i.tokens, "refwatcher"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

// serviceRules are rbac.yaml and what every service of Magos may do: that they suffice is a part of what is tested.
func serviceRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	content, err := os.ReadFile("rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var own struct {
		Rules    []rbacv1.PolicyRule `json:"rules"`
		OwnRules []rbacv1.PolicyRule `json:"ownRules"`
	}
	if err := yaml.UnmarshalStrict(content, &own); err != nil || len(own.Rules) == 0 || len(own.OwnRules) == 0 {
		t.Fatalf("rbac.yaml: %v", err)
	}
	return append(append(own.Rules, own.OwnRules...),
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{certs.SecretTLS}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	)
}

// grant gives a ServiceAccount of the namespace rules.
func (i *installation) grant(account string, rules []rbacv1.PolicyRule) {
	i.t.Helper()
	name := i.namespace + "-" + account
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: i.namespace, Name: account}}
	for _, obj := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
	} {
		if err := i.admin.Create(i.t.Context(), obj); err != nil {
			i.t.Fatal(err)
		}
	}
}

// start runs a replica until it is stopped, or the test ends, and returns its address.
func (i *installation) start() string {
	i.t.Helper()
	config := service.NewDefaultConfig()
	config.GRPCListen, config.HTTPListen = testcluster.Address(i.t), "127.0.0.1:0"
	config.AdvertiseAddress, config.ReleaseNamespace, config.Namespaces = config.GRPCListen, i.namespace, []string{i.namespace}
	config.TokenDir, config.Peers = i.tokens, map[string]string{"refwatcher": "passthrough:///" + i.refwatcher}
	// A replica that is stopped gives its lease back: nobody waits for the lease to run out, and a busy machine takes none away.
	config.LeaseDuration, config.RenewDeadline, config.RetryPeriod = 10*time.Minute, 5*time.Minute, 200*time.Millisecond
	config.DrainDelay, config.DrainTimeout = 0, 3*time.Minute
	own := NewDefaultConfig()
	definition := newDefinition(&own)
	skip := true
	definition.Options = func(_ service.Config, options *ctrl.Options) {
		// Two replicas in one process would have two controllers of one name.
		options.Controller.SkipNameValidation = &skip
	}
	ctx, cancel := context.WithCancel(context.Background())
	i.t.Cleanup(cancel)
	i.replicas[config.GRPCListen] = cancel
	go func() { i.ended <- service.RunWith(ctx, definition, config, i.account, slog.New(slog.DiscardHandler)) }()
	return config.GRPCListen
}

// loadCertificates waits until the leader has made them.
func (i *installation) loadCertificates() {
	i.t.Helper()
	eventually(i.t, "the certificates", func() (any, bool) {
		var secret corev1.Secret
		if err := i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: certs.SecretTLS}, &secret); err != nil {
			return err, false
		}
		err := i.bundle.Load(secret.Data[certs.KeyBundle], secret.Data[certs.KeyCertificate], secret.Data[certs.KeyPrivate])
		return err, err == nil
	})
}

type fakeRefWatcher struct {
	refwatcherpb.UnimplementedRefWatcherServiceServer
	i *installation
}

func (f *fakeRefWatcher) ResolveRevision(ctx context.Context, _ *refwatcherpb.ResolveRevisionRequest) (*refwatcherpb.ResolveRevisionResponse, error) {
	if token := metadata.ValueFromIncomingContext(ctx, "authorization"); len(token) != 1 || !strings.HasPrefix(token[0], "Bearer ") {
		return nil, rpcerr.New(codes.Unauthenticated, rpcerr.Unauthenticated, "no token")
	}
	f.i.asked.Add(1)
	return &refwatcherpb.ResolveRevisionResponse{Revision: commit, RepoUrl: "https://example.com/infra.git", TargetRevision: "main"}, nil
}

// serveRefWatcher answers where the service looks for its peer, with the certificate that the service made.
func (i *installation) serveRefWatcher() {
	i.t.Helper()
	listener, err := new(net.ListenConfig).Listen(i.t.Context(), "tcp", i.refwatcher)
	if err != nil {
		i.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(i.bundle.ServerConfig())))
	refwatcherpb.RegisterRefWatcherServiceServer(server, &fakeRefWatcher{i: i})
	go func() { _ = server.Serve(listener) }()
	i.t.Cleanup(server.Stop)
}

// dial connects to a replica as a ServiceAccount of the namespace.
func (i *installation) dial(address, account string) pb.RolloutServiceClient {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "token")
	token := testcluster.Token(i.t, i.admin, i.namespace, account, "magos-rollout")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		i.t.Fatal(err)
	}
	connection, err := rpcclient.Dial(rpcclient.Config{
		Target: "passthrough:///" + address, ServerName: "magos-rollout." + i.namespace + ".svc", TLS: i.bundle, TokenFile: file, Timeout: time.Minute,
	})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = connection.Close() })
	return pb.NewRolloutServiceClient(connection)
}

// eventually asks until the answer is as wanted; the bound is only there to end a test that fails.
func eventually(t *testing.T, what string, ask func() (any, bool)) {
	t.Helper()
	var last any
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		answer, ok := ask()
		if ok {
			return
		}
		last = answer
	}
	t.Fatalf("%s: last answer %v", what, last)
}

func (i *installation) workspace(name string) *v1alpha1.Workspace {
	i.t.Helper()
	w := &v1alpha1.Workspace{}
	if err := i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: name}, w); err != nil {
		i.t.Fatal(err)
	}
	return w
}

// setStatus writes the status of a Workspace as the workspace service would.
func (i *installation) setStatus(name string, change func(*v1alpha1.WorkspaceStatus)) {
	i.t.Helper()
	eventually(i.t, "the status of "+name, func() (any, bool) {
		w := i.workspace(name)
		w.Status.ObservedGeneration = w.Generation
		change(&w.Status)
		err := i.admin.Status().Update(i.t.Context(), w)
		return err, err == nil
	})
}

func (i *installation) wantGranted(name string) string {
	i.t.Helper()
	pass := ""
	eventually(i.t, "the grant of "+name, func() (any, bool) {
		g, ok := v1alpha1.ReadGrant(i.workspace(name), true)
		pass = g.Pass
		return g, ok && g.Revision == commit
	})
	return pass
}

// createObjects makes a Project, its Rollout, changed where a test wants that, and two Workspaces.
func (i *installation) createObjects(change func(*v1alpha1.Rollout)) {
	i.t.Helper()
	steps := []v1alpha1.RolloutStep{
		{Name: "dev", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}},
		{Name: "prod", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}},
	}
	meta := metav1.ObjectMeta{Namespace: i.namespace, Name: "pay"}
	rollout := &v1alpha1.Rollout{ObjectMeta: meta, Spec: v1alpha1.RolloutSpec{ProjectRef: "pay", Strategy: v1alpha1.RolloutStrategy{Steps: steps}}}
	if change != nil {
		change(rollout)
	}
	objects := []client.Object{&v1alpha1.Project{ObjectMeta: meta}, rollout}
	for _, env := range []string{"dev", "prod"} {
		w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: env, Labels: map[string]string{"env": env}, Finalizers: []string{v1alpha1.FinalizerWorkspace}}}
		w.Spec.ProjectRef.Name = "pay"
		w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: "https://example.com/infra.git", TargetRevision: "main"}
		w.Spec.Terraform.Version = "1.11.4"
		objects = append(objects, w)
	}
	for _, o := range objects {
		if err := i.admin.Create(i.t.Context(), o); err != nil {
			i.t.Fatal(err)
		}
	}
	for _, name := range []string{"dev", "prod"} {
		i.setStatus(name, func(s *v1alpha1.WorkspaceStatus) {
			s.Wants = &v1alpha1.Want{Trigger: v1alpha1.TriggerSpec, Since: metav1.Now()}
		})
	}
}

// apply says that a granted Workspace has done what it was granted.
func (i *installation) apply(name, pass string) {
	i.t.Helper()
	i.setStatus(name, func(s *v1alpha1.WorkspaceStatus) {
		s.Wants, s.ObservedRevision, s.Phase = nil, commit, v1alpha1.PhaseApplied
		s.Applied = &v1alpha1.AppliedState{Pass: pass, RunID: name, Revision: commit, At: metav1.Now()}
	})
}

// The whole service with two replicas, the rights of rbac.yaml, the certificates that it makes itself, real tokens, TLS, leader
// election, and a leader that goes in mid-pass.
func TestServiceWithTwoReplicas(t *testing.T) {
	i := install(t)
	first, second := i.start(), i.start()
	i.loadCertificates()
	i.createObjects(nil)
	key := client.ObjectKey{Namespace: i.namespace, Name: "pay"}
	eventually(t, "that the refwatcher is missed", func() (any, bool) {
		r := &v1alpha1.Rollout{}
		err := i.admin.Get(t.Context(), key, r)
		return fmt.Sprint(err, r.Status), err == nil && r.Status.Reason == v1alpha1.ReasonRefWatcherUnavailable
	})
	i.serveRefWatcher()
	pass := i.wantGranted("dev")
	if _, granted := v1alpha1.ReadGrant(i.workspace("prod"), true); granted {
		t.Error("prod is granted beside dev")
	}

	i.grant("reader", []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"rollouts"}, Verbs: []string{"get", "list", "watch"}}})
	for _, address := range []string{first, second} {
		c := i.dial(address, "reader")
		eventually(t, "GetRollout at "+address, func() (any, bool) {
			answer, err := c.GetRollout(t.Context(), &pb.GetRolloutRequest{Rollout: &corepb.ObjectRef{Namespace: i.namespace, Name: "pay"}})
			return fmt.Sprint(answer, err), err == nil && answer.GetRollout().GetPass().GetId() == pass
		})
		stream, err := c.WatchRollouts(t.Context(), &pb.WatchRolloutsRequest{Namespace: i.namespace})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Recv(); err != nil || answer.GetRollout().GetRef().GetName() != "pay" {
			t.Errorf("WatchRollouts begins with %v, %v", answer, err)
		}
		if _, err := i.dial(address, "stranger").ListRollouts(t.Context(), &pb.ListRolloutsRequest{}); rpcerr.Code(err) != codes.PermissionDenied {
			t.Errorf("got %v, want PERMISSION_DENIED", err)
		}
	}

	leader := i.leader()
	i.replicas[leader]()
	if err := <-i.ended; err != nil {
		t.Errorf("the leader ended with %v", err)
	}
	i.apply("dev", pass)
	if got := i.wantGranted("prod"); got != pass {
		t.Errorf("the next leader goes on with pass %s, want %s", got, pass)
	}
	i.apply("prod", pass)
	eventually(t, "the end of the pass", func() (any, bool) {
		r := &v1alpha1.Rollout{}
		err := i.admin.Get(t.Context(), key, r)
		return fmt.Sprint(err, r.Status), err == nil && r.Status.Phase == v1alpha1.RolloutSucceeded && len(r.Status.History) == 1
	})
	i.wantEvent("pay", v1alpha1.ReasonPassSucceeded)
}

func (i *installation) wantEvent(name string, reason v1alpha1.Reason) {
	i.t.Helper()
	eventually(i.t, "an Event "+reason, func() (any, bool) {
		var list eventsv1.EventList
		err := i.admin.List(i.t.Context(), &list, client.InNamespace(i.namespace))
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason {
				return nil, true
			}
		}
		return fmt.Sprint(err, list.Items), false
	})
}

// leader is the address in the Lease.
func (i *installation) leader() string {
	i.t.Helper()
	var lease coordinationv1.Lease
	if err := i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: "magos-rollout"}, &lease); err != nil {
		i.t.Fatal(err)
	}
	for address := range i.replicas {
		if lease.Spec.HolderIdentity != nil && strings.Contains(*lease.Spec.HolderIdentity, address) {
			return address
		}
	}
	i.t.Fatalf("nobody leads: %+v", lease.Spec)
	return ""
}
