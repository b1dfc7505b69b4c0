package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/service"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/refwatcher/internal/gittest"
)

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
	keys      string
	webhooks  map[string]string
	replicas  map[string]context.CancelFunc
	ended     chan error
}

func install(t *testing.T) *installation {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server; make test has one")
	}
	admin := testcluster.Client(t, apiServer)
	i := &installation{t: t, admin: admin, namespace: testcluster.Namespace(t, admin), replicas: map[string]context.CancelFunc{}, ended: make(chan error, 2)}
	i.certificates()
	i.tokens, i.keys, i.webhooks = t.TempDir(), t.TempDir(), map[string]string{}
	token := testcluster.Token(t, admin, i.namespace, "magos-refwatcher", "magos-refwatcher")
	if err := os.WriteFile(filepath.Join(i.tokens, "refwatcher"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	i.grant("magos-refwatcher", serviceRules(t))
	i.account = rest.CopyConfig(apiServer)
	i.account.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + i.namespace + ":magos-refwatcher", Groups: []string{"system:authenticated"},
	}
	return i
}

func (i *installation) certificates() {
	i.t.Helper()
	core, err := corev1client.NewForConfig(apiServer)
	if err != nil {
		i.t.Fatal(err)
	}
	secrets := core.Secrets(i.namespace)
	rotator := certs.NewRotator(certs.RotatorConfig{Secrets: secrets, Namespace: i.namespace, Services: certs.Services()})
	if err := rotator.Rotate(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
	secret, err := secrets.Get(i.t.Context(), certs.SecretTLS, metav1.GetOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	i.bundle = certs.NewBundle(certs.BundleConfig{})
	if err := i.bundle.Load(secret.Data[certs.KeyBundle], secret.Data[certs.KeyCertificate], secret.Data[certs.KeyPrivate]); err != nil {
		i.t.Fatal(err)
	}
}

// serviceRules are rbac.yaml and what every service of Magos may do: that they suffice is a part of what is tested.
func serviceRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	content, err := os.ReadFile("rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var own struct {
		Rules []rbacv1.PolicyRule `json:"rules"`
	}
	if err := yaml.UnmarshalStrict(content, &own); err != nil || len(own.Rules) == 0 {
		t.Fatalf("rbac.yaml: %v", err)
	}
	return append(own.Rules,
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
	// A replica that is stopped gives its lease back: nobody waits for the lease to run out, and a busy machine takes none away.
	config.LeaseDuration, config.RenewDeadline, config.RetryPeriod = 10*time.Minute, 5*time.Minute, 200*time.Millisecond
	config.DrainDelay, config.DrainTimeout, config.TokenDir = 0, 3*time.Minute, i.tokens
	own := NewDefaultConfig()
	own.GitAllowLocalAddresses = true
	own.WebhookListen, own.WebhookKeyDir = testcluster.Address(i.t), i.keys
	i.webhooks[config.GRPCListen] = own.WebhookListen
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

// dial connects to a replica as a ServiceAccount of the namespace.
func (i *installation) dial(address, account string) pb.RefWatcherServiceClient {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "token")
	token := testcluster.Token(i.t, i.admin, i.namespace, account, "magos-refwatcher")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		i.t.Fatal(err)
	}
	connection, err := rpcclient.Dial(rpcclient.Config{
		Target: "passthrough:///" + address, ServerName: "magos-refwatcher." + i.namespace + ".svc", TLS: i.bundle, TokenFile: file, Timeout: time.Minute,
	})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = connection.Close() })
	return pb.NewRefWatcherServiceClient(grpc.ClientConnInterface(connection))
}

func (i *installation) workspace(name, url, target string) {
	i.workspacePolled(name, url, target, "1s")
}

func (i *installation) workspacePolled(name, url, target, interval string) {
	i.t.Helper()
	w := &v1alpha1.Workspace{}
	w.Namespace, w.Name = i.namespace, name
	w.Annotations = map[string]string{v1alpha1.AnnotationGitPollInterval: interval}
	w.Spec.ProjectRef.Name = "p"
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: url, TargetRevision: target, Path: "."}
	w.Spec.Terraform.Version = "1.12.6"
	if err := i.admin.Create(i.t.Context(), w); err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) detected(name string) string {
	w := &v1alpha1.Workspace{}
	if err := i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: name}, w); err != nil {
		return err.Error()
	}
	return w.Annotations[v1alpha1.AnnotationDetectedRevision]
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

// The whole service with two replicas, the rights of rbac.yaml, real tokens, TLS and leader election.
func TestServiceWithTwoReplicas(t *testing.T) {
	i := install(t)
	git := gittest.NewServer(t)
	repo := gittest.NewRepository(t, git.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	c := repo.Commit(b)
	repo.Set("refs/heads/main", a)
	url := git.URL + "/infra.git"
	i.workspace("one", url, "main")
	i.workspace("two", url+"/", "main")
	i.workspace("lost", url, "missing")
	first, second := i.start(), i.start()

	i.grant("reader", []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"workspaces"}, Verbs: []string{"get", "list"}}})
	clients := map[string]pb.RefWatcherServiceClient{first: i.dial(first, "reader"), second: i.dial(second, "reader")}
	ref := &corepb.ObjectRef{Namespace: i.namespace, Name: "one"}
	for address, c := range clients {
		eventually(t, "ResolveRevision at "+address, func() (any, bool) {
			answer, err := c.ResolveRevision(t.Context(), &pb.ResolveRevisionRequest{Workspace: ref})
			return err, err == nil && answer.GetRevision() == a && answer.GetRef() == "refs/heads/main"
		})
		eventually(t, "ListRemotes at "+address, func() (any, bool) {
			answer, err := c.ListRemotes(t.Context(), &pb.ListRemotesRequest{Namespace: i.namespace})
			return fmt.Sprint(answer, err), err == nil && len(answer.GetRemotes()) == 1 && len(answer.GetRemotes()[0].GetWorkspaces()) == 3 && answer.GetRemotes()[0].GetLastSuccessAt() != nil
		})
		_, err := c.ResolveRevision(t.Context(), &pb.ResolveRevisionRequest{Workspace: &corepb.ObjectRef{Namespace: i.namespace, Name: "lost"}})
		if rpcerr.Code(err) != codes.NotFound || rpcerr.Reason(err) != rpcerr.RevisionNotFound {
			t.Errorf("got %v, want REVISION_NOT_FOUND", err)
		}
		stranger := i.dial(address, "stranger")
		if _, err := stranger.ListRemotes(t.Context(), &pb.ListRemotesRequest{}); rpcerr.Code(err) != codes.PermissionDenied {
			t.Errorf("got %v, want PERMISSION_DENIED", err)
		}
	}
	i.wantDetected(a, "one", "two")
	i.wantEvent("lost", v1alpha1.ReasonRevisionNotFound)
	repo.Set("refs/heads/main", b)
	i.wantDetected(b, "one", "two")

	leader := i.leader()
	i.replicas[leader]()
	if err := <-i.ended; err != nil {
		t.Errorf("the leader ended with %v", err)
	}
	repo.Set("refs/heads/main", c)
	i.wantDetected(c, "one", "two")
	delete(i.replicas, leader)
	for address, stop := range i.replicas {
		if got := i.leader(); got != address {
			t.Errorf("%s leads, want %s", got, address)
		}
		stop()
		if err := <-i.ended; err != nil {
			t.Errorf("a replica ended with %v", err)
		}
	}
}

func (i *installation) wantDetected(commit string, names ...string) {
	i.t.Helper()
	for _, name := range names {
		eventually(i.t, "detected-revision of "+name, func() (any, bool) { got := i.detected(name); return got, got == commit })
	}
}

func (i *installation) wantEvent(name string, reason v1alpha1.Reason) {
	i.t.Helper()
	eventually(i.t, "an Event "+reason, func() (any, bool) {
		var list eventsv1.EventList
		err := i.admin.List(i.t.Context(), &list, client.InNamespace(i.namespace))
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason && e.Type == "Warning" {
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
	if err := i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: "magos-refwatcher"}, &lease); err != nil {
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
