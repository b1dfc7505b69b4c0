package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/internal/testcluster"
)

var cluster *rest.Config

func TestMain(m *testing.M) {
	testcluster.Main(m, func(config *rest.Config) { cluster = config })
}

// refwatcher answers with the caller's name and, when asked for a Workspace of its own, calls its leader.
type refwatcher struct {
	refwatcherv1alpha1.UnimplementedRefWatcherServiceServer
	kit *Kit
}

func (r *refwatcher) ResolveRevision(ctx context.Context, _ *refwatcherv1alpha1.ResolveRevisionRequest) (*refwatcherv1alpha1.ResolveRevisionResponse, error) {
	return &refwatcherv1alpha1.ResolveRevisionResponse{Revision: rpcserver.Caller(ctx).Username}, nil
}

// ListRemotes asks the replica at its own address, as one that does not lead would ask the leader.
func (r *refwatcher) ListRemotes(ctx context.Context, _ *refwatcherv1alpha1.ListRemotesRequest) (*refwatcherv1alpha1.ListRemotesResponse, error) {
	address, _, err := r.kit.LeaderAddress(ctx)
	if err != nil {
		return nil, err
	}
	connection, err := r.kit.DialReplica(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	answer, err := refwatcherv1alpha1.NewRefWatcherServiceClient(connection).ResolveRevision(ctx, &refwatcherv1alpha1.ResolveRevisionRequest{})
	if err != nil {
		return nil, err
	}
	return &refwatcherv1alpha1.ListRemotesResponse{Remotes: []*refwatcherv1alpha1.Remote{{Url: answer.GetRevision()}}}, nil
}

// replica is one process of the service under test.
type replica struct {
	kit    *Kit
	config Config
	stop   context.CancelFunc
	ended  chan error
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// run starts a replica in the namespace; set adds what the test needs.
func run(t *testing.T, namespace string, set func(*Kit) error) *replica {
	t.Helper()
	config := NewDefaultConfig()
	config.ReleaseNamespace, config.TokenDir = namespace, t.TempDir()
	config.GRPCListen, config.HTTPListen = freeAddress(t), freeAddress(t)
	config.AdvertiseAddress = config.GRPCListen
	config.Peers["refwatcher"] = config.GRPCListen
	config.LeaseDuration, config.RenewDeadline, config.RetryPeriod = 4*time.Second, 2*time.Second, 200*time.Millisecond
	config.DrainDelay, config.DrainTimeout = 700*time.Millisecond, 5*time.Second
	r := &replica{config: config, ended: make(chan error, 1)}
	rules := map[string]rpcserver.Rule{
		refwatcherv1alpha1.RefWatcherService_ResolveRevision_FullMethodName: {Verb: "get", Resource: "workspaces"},
		refwatcherv1alpha1.RefWatcherService_ListRemotes_FullMethodName:     {Verb: "list", Resource: "workspaces"},
	}
	if set == nil {
		set = func(*Kit) error { return nil }
	}
	built := make(chan *Kit, 1)
	definition := Definition{Name: "refwatcher", Setup: func(_ context.Context, kit *Kit) error {
		built <- kit
		err := kit.Serve(rules, func(s grpc.ServiceRegistrar) {
			refwatcherv1alpha1.RegisterRefWatcherServiceServer(s, &refwatcher{kit: kit})
		})
		return errors.Join(err, set(kit))
	}}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.ended <- RunWith(ctx, definition, config, cluster, slog.New(slog.DiscardHandler)) }()
	r.kit = <-built
	t.Cleanup(stop)
	return r
}

func (r *replica) get(path string) (int, string, error) {
	answer, err := http.Get("http://" + r.config.HTTPListen + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// isReady is an error until /readyz answers with the code and has the text in its body.
func (r *replica) isReady(code int, text string) error {
	got, body, err := r.get("/readyz")
	if err != nil {
		return err
	}
	if got != code || !strings.Contains(body, text) {
		return fmt.Errorf("/readyz: %d %q, want %d %q", got, body, code, text)
	}
	return nil
}

func (r *replica) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the service does not end")
		return nil
	}
}

func makeCertificates(t *testing.T, namespace string) {
	t.Helper()
	core, err := corev1client.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	rotator := certs.NewRotator(certs.RotatorConfig{Secrets: core.Secrets(namespace), Namespace: namespace})
	if err := rotator.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// authorize gives every ServiceAccount of the namespace the rights on Workspaces everywhere.
func authorize(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"magosproject.io"}, Resources: []string{"workspaces"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + namespace}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLifeOfAService(t *testing.T) {
	c := testcluster.Client(t, cluster)
	namespace := testcluster.Namespace(t, c)
	authorize(t, c, namespace)
	project := &magosv1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "platform"}}
	if err := c.Create(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	r := run(t, namespace, nil)

	eventually(t, func() error {
		return r.isReady(http.StatusServiceUnavailable, "certificates: the serving certificate does not exist yet")
	})
	if code, _, err := r.get("/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("/healthz: %d %v: a service that waits is alive", code, err)
	}
	makeCertificates(t, namespace)
	eventually(t, func() error { return r.isReady(http.StatusOK, "ok") })

	t.Run("peers are called with the token of the folder, replicas with the caller's", func(t *testing.T) {
		token := testcluster.Token(t, c, namespace, "workspace", "magos-refwatcher")
		if err := os.WriteFile(filepath.Join(r.config.TokenDir, "refwatcher"), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		connection, err := r.kit.Dial("refwatcher", refwatcherv1alpha1.RefWatcherService_ResolveRevision_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		peer := refwatcherv1alpha1.NewRefWatcherServiceClient(connection)
		want := "system:serviceaccount:" + namespace + ":workspace"
		eventually(t, func() error {
			answer, err := peer.ListRemotes(t.Context(), &refwatcherv1alpha1.ListRemotesRequest{})
			if err == nil && answer.GetRemotes()[0].GetUrl() != want {
				err = fmt.Errorf("the leader saw the caller %q, want %q", answer.GetRemotes()[0].GetUrl(), want)
			}
			return err
		})
	})
	t.Run("caches hold no managed fields", func(t *testing.T) {
		cached := &magosv1alpha1.Project{}
		if err := r.kit.Manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(project), cached); err != nil {
			t.Fatal(err)
		}
		if len(cached.ManagedFields) != 0 {
			t.Error("the cache has managed fields")
		}
	})
	t.Run("a stopping replica says so, finishes, and gives its lease up", func(t *testing.T) {
		r.stop()
		if err := r.isReady(http.StatusServiceUnavailable, "the replica is stopping"); err != nil {
			t.Error(err)
		}
		if err := r.end(t); err != nil {
			t.Errorf("the end: %v", err)
		}
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "magos-refwatcher"}, lease); err != nil {
			t.Fatal(err)
		}
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
			t.Errorf("the lease is still held by %q", *holder)
		}
		_, _, err := r.kit.LeaderAddress(t.Context())
		if rpcerr.Reason(err) != rpcerr.NoLeader || rpcerr.Code(err) != codes.Unavailable {
			t.Errorf("LeaderAddress: %v, want NO_LEADER", err)
		}
	})
}

// What the old leader was at must not go on beside the new leader: the process ends even where a runnable does not.
func TestALeaderThatLosesItsLeaseEndsAtOnce(t *testing.T) {
	c := testcluster.Client(t, cluster)
	namespace := testcluster.Namespace(t, c)
	makeCertificates(t, namespace)
	leads, forever := make(chan struct{}), make(chan struct{})
	r := run(t, namespace, func(kit *Kit) error {
		return kit.Manager.Add(stubborn(func() {
			close(leads)
			<-forever
		}))
	})
	t.Cleanup(func() { close(forever) })
	<-leads
	if _, self, err := r.kit.LeaderAddress(t.Context()); err != nil || !self {
		t.Errorf("LeaderAddress: self = %t, %v; want this process", self, err)
	}

	thief := "thief_10.9.9.9:8443_x"
	eventually(t, func() error {
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "magos-refwatcher"}, lease); err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &thief, &now
		return c.Update(t.Context(), lease)
	})
	stolen := time.Now()
	address, self, err := r.kit.LeaderAddress(t.Context())
	if err != nil || self || address != "10.9.9.9:8443" {
		t.Errorf("LeaderAddress = %q, %t, %v; want the new leader's address", address, self, err)
	}
	if err := r.end(t); err == nil {
		t.Error("the service ended without an error")
	}
	if took := time.Since(stolen); took > r.config.RenewDeadline+2*time.Second {
		t.Errorf("it took %s to end", took)
	}
	time.Sleep(r.config.LeaseDuration)
	if _, _, err := r.kit.LeaderAddress(t.Context()); rpcerr.Reason(err) != rpcerr.NoLeader {
		t.Errorf("LeaderAddress with an expired lease: %v, want NO_LEADER", err)
	}
}

// stubborn is a leader's runnable that does not look at its context.
type stubborn func()

func (s stubborn) Start(context.Context) error { s(); return nil }

func TestOnlyTheLeaderRotates(t *testing.T) {
	c := testcluster.Client(t, cluster)
	namespace := testcluster.Namespace(t, c)
	first := run(t, namespace, (*Kit).RotateCertificates)
	eventually(t, func() error { return first.isReady(http.StatusOK, "ok") })
	second := run(t, namespace, (*Kit).RotateCertificates)
	eventually(t, func() error { return second.isReady(http.StatusOK, "ok") })
	first.stop()
	if err := first.end(t); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		_, self, err := second.kit.LeaderAddress(t.Context())
		if err == nil && !self {
			err = errors.New("the second replica does not lead")
		}
		return err
	})
	second.stop()
	if err := second.end(t); err != nil {
		t.Error(err)
	}
}

func TestAMethodWithoutARuleKeepsTheServiceFromStarting(t *testing.T) {
	config := good()
	config.HTTPListen = "127.0.0.1:0"
	definition := Definition{Name: "refwatcher", Setup: func(_ context.Context, kit *Kit) error {
		return kit.Serve(nil, func(s grpc.ServiceRegistrar) {
			refwatcherv1alpha1.RegisterRefWatcherServiceServer(s, &refwatcher{})
		})
	}}
	err := RunWith(t.Context(), definition, config, cluster, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "ListRemotes has no rule") {
		t.Errorf("error = %v, want the method without a rule", err)
	}
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still failing: %v", err)
		}
	}
}
