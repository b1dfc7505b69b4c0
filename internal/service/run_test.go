package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/internal/testcluster"
)

// A lease that no stall of a busy machine outlasts, and how long its leader tries to keep it.
const longLease, patientLeader = 10 * time.Minute, 5 * time.Minute

var cluster *rest.Config

func TestMain(m *testing.M) {
	testcluster.Main(m, func(config *rest.Config) { cluster = config })
}

// refwatcher answers with the caller's name and, when asked for a Workspace of its own, calls its leader.
type refwatcher struct {
	refwatcherv1alpha1.UnimplementedRefWatcherServiceServer
	kit *Kit
	// hold keeps a call for the Workspace named slow until it is closed; held is told when one has come.
	hold, held chan struct{}
}

func (r *refwatcher) ResolveRevision(ctx context.Context, request *refwatcherv1alpha1.ResolveRevisionRequest) (*refwatcherv1alpha1.ResolveRevisionResponse, error) {
	if request.GetWorkspace().GetName() == "slow" {
		close(r.held)
		<-r.hold
	}
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
	kit      *Kit
	config   Config
	handlers *refwatcher
	stop     context.CancelFunc
	ended    chan error
}

// run starts a replica in the namespace; set adds what the test needs.
func run(t *testing.T, namespace string, renewDeadline time.Duration, set func(*Kit) error) *replica {
	t.Helper()
	config := NewDefaultConfig()
	config.ReleaseNamespace, config.TokenDir = namespace, t.TempDir()
	config.GRPCListen, config.HTTPListen = testcluster.Address(t), testcluster.Address(t)
	config.AdvertiseAddress = config.GRPCListen
	config.Peers["refwatcher"] = config.GRPCListen
	config.LeaseDuration, config.RenewDeadline, config.RetryPeriod = longLease, renewDeadline, 200*time.Millisecond
	// A service that waited for its limit to end would not end in time for any test.
	config.DrainDelay, config.DrainTimeout = 0, 10*time.Minute
	r := &replica{config: config, ended: make(chan error, 1), handlers: &refwatcher{hold: make(chan struct{}), held: make(chan struct{})}}
	rules := map[string]rpcserver.Rule{
		refwatcherv1alpha1.RefWatcherService_ResolveRevision_FullMethodName: {Verb: "get", Resource: "workspaces"},
		refwatcherv1alpha1.RefWatcherService_ListRemotes_FullMethodName:     {Verb: "list", Resource: "workspaces"},
		refwatcherv1alpha1.RefWatcherService_NotifyPush_FullMethodName:      {Verb: "list", Resource: "workspaces"},
		refwatcherv1alpha1.RefWatcherService_WatchRevisions_FullMethodName:  {Verb: "watch", Resource: "workspaces"},
	}
	if set == nil {
		set = func(*Kit) error { return nil }
	}
	built := make(chan *Kit, 1)
	definition := Definition{Name: "refwatcher", Setup: func(_ context.Context, kit *Kit) error {
		r.handlers.kit = kit
		built <- kit
		err := kit.Serve(rules, func(s grpc.ServiceRegistrar) {
			refwatcherv1alpha1.RegisterRefWatcherServiceServer(s, r.handlers)
		})
		return errors.Join(err, set(kit))
	}}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		err := RunWith(ctx, definition, config, cluster, slog.New(slog.DiscardHandler))
		if err != nil && ctx.Err() == nil {
			// Whoever waits for something of it would wait in vain, and not know why.
			t.Logf("the service ended by itself: %v", err)
		}
		r.ended <- err
	}()
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
	case <-time.After(3 * time.Minute):
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

// peer calls the replica as the workspace service would.
func (r *replica) peer(t *testing.T, c client.Client, namespace string) refwatcherv1alpha1.RefWatcherServiceClient {
	t.Helper()
	token := testcluster.Token(t, c, namespace, "workspace", "magos-refwatcher")
	if err := os.WriteFile(filepath.Join(r.config.TokenDir, "refwatcher"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	connection, err := r.kit.Dial("refwatcher", refwatcherv1alpha1.RefWatcherService_ResolveRevision_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return refwatcherv1alpha1.NewRefWatcherServiceClient(connection)
}

func TestLifeOfAService(t *testing.T) {
	c := testcluster.Client(t, cluster)
	namespace := testcluster.Namespace(t, c)
	authorize(t, c, namespace)
	project := &magosv1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "platform"}}
	if err := c.Create(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	r := run(t, namespace, patientLeader, nil)

	eventually(t, func() error {
		return r.isReady(http.StatusServiceUnavailable, "certificates: the serving certificate does not exist yet")
	})
	if code, _, err := r.get("/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("/healthz: %d %v: a service that waits is alive", code, err)
	}
	makeCertificates(t, namespace)
	eventually(t, func() error { return r.isReady(http.StatusOK, "ok") })

	peer := r.peer(t, c, namespace)
	t.Run("peers are called with the token of the folder, replicas with the caller's", func(t *testing.T) {
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
		called := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			slow := &refwatcherv1alpha1.ResolveRevisionRequest{Workspace: &corev1alpha1.ObjectRef{Namespace: namespace, Name: "slow"}}
			_, err := peer.ResolveRevision(ctx, slow)
			called <- err
		}()
		<-r.handlers.held
		r.stop()
		// It cannot end before the call has: there is time to ask.
		eventually(t, func() error { return r.isReady(http.StatusServiceUnavailable, "the replica is stopping") })
		close(r.handlers.hold)
		if err := <-called; err != nil {
			t.Errorf("the call in flight: %v", err)
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
	r := run(t, namespace, 5*time.Second, func(kit *Kit) error {
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

	steal := func(renewed time.Time) error {
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "magos-refwatcher"}, lease); err != nil {
			return err
		}
		thief, at := "thief_10.9.9.9:8443_x", metav1.NewMicroTime(renewed)
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &thief, &at
		return c.Update(t.Context(), lease)
	}
	eventually(t, func() error { return steal(time.Now()) })
	address, self, err := r.kit.LeaderAddress(t.Context())
	if err != nil || self || address != "10.9.9.9:8443" {
		t.Errorf("LeaderAddress = %q, %t, %v; want the new leader's address", address, self, err)
	}
	if err := r.end(t); err == nil {
		t.Error("the service ended without an error")
	}
	eventually(t, func() error { return steal(time.Now().Add(-2 * longLease)) })
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
	first := run(t, namespace, patientLeader, (*Kit).RotateCertificates)
	eventually(t, func() error { return first.isReady(http.StatusOK, "ok") })
	second := run(t, namespace, patientLeader, (*Kit).RotateCertificates)
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

// eventually repeats what only needs time; the bound ends a test that has failed.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still failing: %v", err)
		}
	}
}
