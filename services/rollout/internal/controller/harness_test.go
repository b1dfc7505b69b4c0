package controller

import (
	"context"
	"flag"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"magosproject.io/api/v1alpha1"
	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster"
	"magosproject.io/internal/testcluster/crash"
)

var apiServer *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	testcluster.Main(m, func(config *rest.Config) { apiServer = config })
}

const (
	repo    = "https://example.com/infra.git"
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// fakeRefWatcher answers over gRPC as the refwatcher would: by Workspace, from one head per target revision.
type fakeRefWatcher struct {
	refwatcherpb.UnimplementedRefWatcherServiceServer
	admin client.Client

	mutex sync.Mutex
	heads map[string]string
	err   error
	asked int
}

func (f *fakeRefWatcher) ResolveRevision(ctx context.Context, request *refwatcherpb.ResolveRevisionRequest) (*refwatcherpb.ResolveRevisionResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.asked++
	if f.err != nil {
		return nil, f.err
	}
	var w v1alpha1.Workspace
	if err := f.admin.Get(ctx, types.NamespacedName{Namespace: request.GetWorkspace().GetNamespace(), Name: request.GetWorkspace().GetName()}, &w); err != nil {
		return nil, err
	}
	source := w.Spec.Source
	return &refwatcherpb.ResolveRevisionResponse{Revision: f.heads[source.TargetRevision], RepoUrl: source.RepoURL, TargetRevision: source.TargetRevision}, nil
}

func (f *fakeRefWatcher) set(change func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change()
}

func (f *fakeRefWatcher) questions() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.asked
}

// serve returns a client of the fake over a real connection, so that errors cross the wire.
func (f *fakeRefWatcher) serve(t *testing.T) *RefWatcher {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	refwatcherpb.RegisterRefWatcherServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(rpcerr.UnaryClient()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return NewRefWatcher(connection)
}

// harness runs the Reconciler by hand against a real API server, on a clock that only the test moves.
type harness struct {
	t          *testing.T
	admin      client.WithWatch
	namespace  string
	clock      *clocktesting.FakeClock
	git        *fakeRefWatcher
	revisions  *RefWatcher
	process    *crash.Client
	reconciler *Reconciler
	recorder   *events.FakeRecorder
	sim        *simulation
}

// whole second, as the API keeps times.
var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newHarness(t *testing.T) *harness {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server; make test has one")
	}
	admin := testcluster.Client(t, apiServer)
	h := &harness{t: t, admin: admin, namespace: testcluster.Namespace(t, admin), clock: clocktesting.NewFakeClock(began)}
	h.git = &fakeRefWatcher{admin: admin, heads: map[string]string{"main": commitA}}
	h.revisions = h.git.serve(t)
	h.sim = newSimulation(t, admin, h.namespace, h.clock)
	h.restart(0, crash.Before)
	return h
}

// restart begins a new process, which remembers nothing and dies at a write (0: never).
func (h *harness) restart(at int, moment crash.Moment) {
	h.process = crash.New(byProject(h.admin), at, moment)
	h.recorder = events.NewFakeRecorder(1000)
	h.reconciler = New(Config{
		Client: h.process, Live: h.process, Revisions: h.revisions, Events: h.recorder, Clock: h.clock, StatusInterval: time.Nanosecond,
	})
}

// byProject lists without the cache's index, which the API server does not have.
func byProject(inner client.WithWatch) client.WithWatch {
	return interceptor.NewClient(inner, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(options)
			project, indexed := "", false
			if o.FieldSelector != nil {
				project, indexed = o.FieldSelector.RequiresExactMatch(projectIndex)
			}
			if err := c.List(ctx, list, client.InNamespace(o.Namespace)); err != nil || !indexed {
				return err
			}
			workspaces := list.(*v1alpha1.WorkspaceList)
			workspaces.Items = slices.DeleteFunc(workspaces.Items, func(w v1alpha1.Workspace) bool { return w.Spec.ProjectRef.Name != project })
			return nil
		},
	})
}

func (h *harness) key() types.NamespacedName {
	return types.NamespacedName{Namespace: h.namespace, Name: "pay"}
}

// reconcile decides once.
func (h *harness) reconcile() (ctrl.Result, error) {
	h.t.Helper()
	return h.reconciler.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: h.key()})
}

// mustReconcile decides once, and fails the test on an error.
func (h *harness) mustReconcile() ctrl.Result {
	h.t.Helper()
	result, err := h.reconcile()
	if err != nil {
		h.t.Fatal(err)
	}
	return result
}

// settle lets the service and the simulated Workspaces do what they do until nothing changes any more.
func (h *harness) settle() {
	h.t.Helper()
	for range 200 {
		h.clock.Step(time.Second)
		before := len(h.process.Writes())
		h.mustReconcile()
		if moved := h.sim.tick(); !moved && len(h.process.Writes()) == before {
			h.clock.Step(time.Minute)
			h.mustReconcile()
			if len(h.process.Writes()) == before && !h.sim.tick() {
				return
			}
		}
	}
	h.t.Fatal("nothing comes to rest")
}

func (h *harness) create(objects ...client.Object) {
	h.t.Helper()
	for _, o := range objects {
		o.SetNamespace(h.namespace)
		if err := h.admin.Create(h.t.Context(), o); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) rollout() *v1alpha1.Rollout {
	h.t.Helper()
	r := &v1alpha1.Rollout{}
	if err := h.admin.Get(h.t.Context(), h.key(), r); err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *harness) project() *v1alpha1.Project {
	h.t.Helper()
	p := &v1alpha1.Project{}
	if err := h.admin.Get(h.t.Context(), h.key(), p); err != nil {
		h.t.Fatal(err)
	}
	return p
}

func (h *harness) workspace(name string) *v1alpha1.Workspace {
	h.t.Helper()
	w := &v1alpha1.Workspace{}
	if err := h.admin.Get(h.t.Context(), types.NamespacedName{Namespace: h.namespace, Name: name}, w); err != nil {
		h.t.Fatal(err)
	}
	return w
}

// push makes a commit the head of main and lets the watcher see it.
func (h *harness) push(commit string) {
	h.t.Helper()
	h.git.set(func() { h.git.heads["main"] = commit })
	h.sim.detect(commit)
}

// wantStatus checks phase, reason and step of the Rollout.
func (h *harness) wantStatus(phase v1alpha1.RolloutPhase, reason string, step int32) {
	h.t.Helper()
	s := h.rollout().Status
	if s.Phase != phase || s.Reason != reason || s.CurrentStep != step {
		h.t.Fatalf("the Rollout is %s/%s at step %d, want %s/%s at %d: %s", s.Phase, s.Reason, s.CurrentStep, phase, reason, step, s.Message)
	}
}

func newProject(orchestration v1alpha1.Orchestration) *v1alpha1.Project {
	return &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: "pay"}, Spec: v1alpha1.ProjectSpec{Orchestration: orchestration}}
}

func newRollout(steps ...string) *v1alpha1.Rollout {
	r := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "pay"}, Spec: v1alpha1.RolloutSpec{ProjectRef: "pay"}}
	r.Spec.Strategy.Steps = stepsOf(steps...)
	return r
}

func stepsOf(names ...string) []v1alpha1.RolloutStep {
	var steps []v1alpha1.RolloutStep
	for _, name := range names {
		steps = append(steps, v1alpha1.RolloutStep{Name: name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": name}}})
	}
	return steps
}

func newWorkspace(name, env string) *v1alpha1.Workspace {
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": env}, Finalizers: []string{v1alpha1.FinalizerWorkspace}},
		Spec: v1alpha1.WorkspaceSpec{
			ProjectRef: v1alpha1.ProjectReference{Name: "pay"},
			Source:     v1alpha1.WorkspaceSource{RepoURL: repo, TargetRevision: "main"},
			Terraform:  v1alpha1.TerraformSpec{Version: "1.11.4"},
		},
	}
}
