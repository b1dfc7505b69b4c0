package controller

import (
	"errors"
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster"
	"magosproject.io/internal/testcluster/crash"
	"magosproject.io/services/refwatcher/internal/gittest"
	"magosproject.io/services/refwatcher/internal/remote"
)

var apiServer *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	testcluster.Main(m, func(config *rest.Config) { apiServer = config })
}

// harness runs the Poller and the Reconciler by hand against a real API server and a real git server, on a clock that only the test moves.
type harness struct {
	t          *testing.T
	admin      client.WithWatch
	namespace  string
	git        *gittest.Server
	clock      *clocktesting.FakeClock
	process    *crash.Client
	reconciler *Reconciler
	poller     *Poller
	changed    chan event.TypedGenericEvent[types.NamespacedName]
	recorder   *events.FakeRecorder
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server; make test has one")
	}
	admin := testcluster.Client(t, apiServer)
	h := &harness{t: t, admin: admin, namespace: testcluster.Namespace(t, admin), git: gittest.NewServer(t), clock: clocktesting.NewFakeClock(began)}
	h.restart(0, crash.Before)
	return h
}

// restart begins a new process, which remembers nothing and dies at a write (0: never).
func (h *harness) restart(at int, moment crash.Moment) {
	h.process = crash.New(h.admin, at, moment)
	scoped := client.NewNamespacedClient(h.process, h.namespace)
	knowledge := NewKnowledge(settings, schemes)
	h.changed = make(chan event.TypedGenericEvent[types.NamespacedName], 1000)
	h.recorder = events.NewFakeRecorder(1000)
	credentials := NewCredentials(scoped, schemes)
	h.reconciler = &Reconciler{Client: scoped, Knowledge: knowledge, Credentials: credentials, Events: h.recorder, Clock: h.clock}
	h.poller = NewPoller(PollerConfig{
		Knowledge: knowledge, Workspaces: scoped, Credentials: credentials, Changed: h.changed, Clock: h.clock,
		Lister:  remote.New(remote.Config{Schemes: schemes, AllowLocalAddresses: true, Timeout: time.Minute, MaxBytes: 8 << 20, Now: time.Now}),
		Metrics: NewMetrics(prometheus.NewRegistry(), knowledge.Count), Log: slog.New(slog.DiscardHandler),
	})
}

// workspace makes a Workspace of a repository of the git server.
func (h *harness) workspace(name, repository, target string) {
	h.t.Helper()
	w := &v1alpha1.Workspace{}
	w.Namespace, w.Name = h.namespace, name
	w.Spec.ProjectRef.Name = "p"
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: h.git.URL + "/" + repository, TargetRevision: target, Path: "."}
	w.Spec.Terraform.Version = "1.12.6"
	if err := h.admin.Create(h.t.Context(), w); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) get(name string) *v1alpha1.Workspace {
	h.t.Helper()
	w := &v1alpha1.Workspace{}
	if err := h.admin.Get(h.t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, w); err != nil {
		h.t.Fatal(err)
	}
	return w
}

func (h *harness) edit(name string, change func(*v1alpha1.Workspace)) {
	h.t.Helper()
	w := h.get(name)
	change(w)
	if err := h.admin.Update(h.t.Context(), w); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) wantDetected(name, commit string) {
	h.t.Helper()
	w := h.get(name)
	got := w.Annotations[v1alpha1.AnnotationDetectedRevision]
	if got != commit {
		h.t.Errorf("%s: detected-revision is %q, want %q", name, got, commit)
	}
	if commit != "" && w.Annotations[v1alpha1.AnnotationDetectedFor] != v1alpha1.GrantSubject(w) {
		h.t.Errorf("%s: detected-for is not for its present source", name)
	}
}

// reconcile is false when the process died.
func (h *harness) reconcile(key types.NamespacedName) bool {
	h.t.Helper()
	_, err := h.reconciler.Reconcile(h.t.Context(), reconcile.Request{NamespacedName: key})
	if errors.Is(err, crash.ErrCrashed) {
		return false
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return true
}

// reconcileAll is what the watch leads to after any change.
func (h *harness) reconcileAll() bool {
	h.t.Helper()
	var list v1alpha1.WorkspaceList
	if err := h.admin.List(h.t.Context(), &list, client.InNamespace(h.namespace)); err != nil {
		h.t.Fatal(err)
	}
	for i := range list.Items {
		if !h.reconcile(client.ObjectKeyFromObject(&list.Items[i])) {
			return false
		}
	}
	return true
}

// round lets an interval pass: what changed is seen, what is due is polled, what was found is written. False when the process died.
func (h *harness) round() bool {
	h.t.Helper()
	h.clock.Step(v1alpha1.DefaultGitPollInterval)
	if !h.reconcileAll() {
		return false
	}
	h.poller.startDue(h.t.Context())
	h.poller.running.Wait()
	for len(h.changed) > 0 {
		if !h.reconcile((<-h.changed).Object) {
			return false
		}
	}
	return true
}

// writes are those of the present process.
func (h *harness) writes() int { return len(h.process.Writes()) }

// said drains the Events.
func (h *harness) said() []string {
	var all []string
	for len(h.recorder.Events) > 0 {
		all = append(all, <-h.recorder.Events)
	}
	return all
}

// remotes is how many remotes are wanted.
func (h *harness) remotes() int {
	h.poller.Knowledge.setLeading(true)
	defer h.poller.Knowledge.setLeading(false)
	wanted, _ := h.poller.Knowledge.Count()
	return wanted
}
