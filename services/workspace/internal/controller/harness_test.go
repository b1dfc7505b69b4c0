package controller

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/testcluster"
	"magosproject.io/internal/testcluster/crash"
	"magosproject.io/services/workspace/internal/peertest"
)

var (
	apiServer *rest.Config
	began     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	testcluster.Main(m, func(config *rest.Config) { apiServer = config })
}

// harness runs the reconciler by hand against a real API server and a runner that outlives it, on a clock that only the
// test moves.
type harness struct {
	*testing.T
	admin      client.WithWatch
	namespace  string
	runner     *peertest.Runner
	refwatcher *peertest.RefWatcher
	clock      *clocktesting.FakePassiveClock
	process    *crash.Client
	workspaces *Reconciler
	sets       *VariableSetReconciler
	recorder   *events.FakeRecorder
	now        time.Time
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server; make test has one")
	}
	admin := testcluster.Client(t, apiServer)
	h := &harness{
		T: t, admin: admin, namespace: testcluster.Namespace(t, admin), now: began, clock: clocktesting.NewFakePassiveClock(began),
		runner: peertest.NewRunner(admin), refwatcher: peertest.NewRefWatcher(admin),
	}
	h.refwatcher.Set("main", commitA)
	h.restart(0, crash.Before)
	return h
}

// restart begins a new process, which remembers nothing and dies at a write (0: never).
func (h *harness) restart(at int, moment crash.Moment) {
	h.Helper()
	h.process = crash.New(h.admin, at, moment)
	runner, refwatcher := peertest.Connect(h.T, h.runner, h.refwatcher)
	objects := NewObjects(h.process, h.process)
	h.recorder = events.NewFakeRecorder(1000)
	h.workspaces = &Reconciler{Config: Config{
		Client: h.process, Live: h.process, Objects: objects, Runner: runner, RefWatcher: refwatcher,
		Events: h.recorder, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: h.clock,
		Drift: NewDriftSlots(10, ofNamespace{h}),
	}}
	h.sets = &VariableSetReconciler{Client: h.process, Objects: objects, Clock: h.clock}
}

func (h *harness) request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: h.namespace, Name: name}}
}

// pass is one pass over the Workspace vpc. It returns how long the reconciler would wait.
func (h *harness) pass() (time.Duration, error) {
	result, err := h.workspaces.Reconcile(h.Context(), h.request("vpc"))
	return result.RequeueAfter, err
}

// passes makes so many passes, none of which may fail.
func (h *harness) passes(n int) {
	h.Helper()
	for range n {
		if _, err := h.pass(); err != nil {
			h.Fatal(err)
		}
	}
}

// until passes until the Workspace is as wanted, moving the clock where the reconciler would wait and restarting where
// the process died.
func (h *harness) until(what string, reached func(*v1alpha1.Workspace) bool) *v1alpha1.Workspace {
	h.Helper()
	var last error
	for range 200 {
		w := h.workspace()
		if reached(w) {
			return w
		}
		pause, err := h.pass()
		if errors.Is(err, crash.ErrCrashed) || h.process.Crashed() {
			h.restart(0, crash.Before)
			continue
		}
		last = err
		h.advance(pause)
	}
	h.Fatalf("never %s: %+v, run %+v, last error %v, calls %v", what, h.workspace().Status, h.workspace().Status.Run, last, h.runner.Calls())
	return nil
}

func (h *harness) advance(d time.Duration) {
	h.now = h.now.Add(d)
	h.clock.SetTime(h.now)
}

func applied(w *v1alpha1.Workspace) bool {
	return w.Status.Phase == v1alpha1.PhaseApplied && w.Status.Run.Phase.Terminal() && w.Status.Wants == nil
}

func in(phase v1alpha1.RunPhase) func(*v1alpha1.Workspace) bool {
	return func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.Phase == phase }
}

func (h *harness) create(objects ...client.Object) {
	h.Helper()
	for _, o := range objects {
		o.SetNamespace(h.namespace)
		if err := h.admin.Create(h.Context(), o); err != nil {
			h.Fatal(err)
		}
	}
}

func (h *harness) workspace() *v1alpha1.Workspace {
	h.Helper()
	w := &v1alpha1.Workspace{}
	if err := h.admin.Get(h.Context(), h.request("vpc").NamespacedName, w); err != nil {
		h.Fatal(err)
	}
	return w
}

// wantLetGo asserts that the deleted Workspace waits for nobody but the runner, which removes what it has left.
func (h *harness) wantLetGo() {
	h.Helper()
	w := h.workspace()
	if w.DeletionTimestamp == nil || !slices.Equal(w.Finalizers, []string{v1alpha1.FinalizerRunner}) {
		h.Errorf("the Workspace is held by %v: %+v", w.Finalizers, w.Status)
	}
}

// edit changes the Workspace as a person or another service would.
func (h *harness) edit(change func(*v1alpha1.Workspace)) {
	h.Helper()
	w := h.workspace()
	before := w.DeepCopy()
	change(w)
	if err := h.admin.Patch(h.Context(), w, client.MergeFrom(before)); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) annotate(name, value string) {
	h.Helper()
	h.edit(func(w *v1alpha1.Workspace) { w.Annotations[name] = value })
}

func project() *v1alpha1.Project {
	p := &v1alpha1.Project{}
	p.Name = "net"
	return p
}

// standing is a Workspace with the grant that holds while nothing orders its Project.
func standing() *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{}
	w.Name = "vpc"
	w.Spec = v1alpha1.WorkspaceSpec{
		ProjectRef: v1alpha1.ProjectReference{Name: "net"},
		Source:     v1alpha1.WorkspaceSource{RepoURL: "https://git.example.com/net.git", TargetRevision: "main"},
		Terraform:  v1alpha1.TerraformSpec{Version: "1.14.8"},
	}
	w.Annotations = v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass, For: v1alpha1.GrantSubject(w)}.Annotations()
	w.Annotations[v1alpha1.AnnotationReconcileInterval] = "2h"
	w.Annotations[v1alpha1.AnnotationDetectedRevision] = commitA
	w.Annotations[v1alpha1.AnnotationDetectedFor] = v1alpha1.GrantSubject(w)
	return w
}

func (h *harness) waitsForApproval() string {
	h.Helper()
	off := false
	w := standing()
	w.Spec.AutoApply = &off
	h.create(project(), w)
	h.runner.Auto = true
	return h.until("awaiting approval", func(w *v1alpha1.Workspace) bool { return w.Status.AwaitingApproval != nil }).Status.Run.ID
}

// heard reports whether an Event with the reason was sent since the last restart, and empties the list.
func (h *harness) heard(reason string) (texts []string) {
	for {
		select {
		case text := <-h.recorder.Events:
			if strings.Contains(text, " "+reason+" ") {
				texts = append(texts, text)
			}
		default:
			return texts
		}
	}
}

// checkRuns asserts the laws that no crash may break: one plan and one apply Job per run at most, applied once.
func (h *harness) checkRuns(wantApplies int) {
	h.Helper()
	started := h.runner.Started()
	seen := map[string]bool{}
	applies := 0
	for _, job := range started {
		if seen[job] {
			h.Errorf("%s was started twice", job)
		}
		seen[job] = true
		if strings.HasPrefix(job, "apply ") {
			applies++
		}
	}
	if applies != wantApplies {
		h.Errorf("%d applies, want %d: %v", applies, wantApplies, started)
	}
	asked := map[string]int{}
	for _, call := range h.runner.Calls() {
		if strings.HasPrefix(call, "StartRun apply ") {
			asked[call]++
		}
	}
	for call, n := range asked {
		if n > 1 {
			h.Errorf("%s was called %d times: an apply is asked for once", call, n)
		}
	}
}

func (h *harness) started(half string) []string {
	return slices.DeleteFunc(h.runner.Started(), func(name string) bool { return !strings.HasPrefix(name, half+" ") })
}

func fail(reason string) func(*runnerv1alpha1.Run) {
	return func(run *runnerv1alpha1.Run) {
		run.State, run.Reason, run.Message = runnerv1alpha1.RunState_RUN_STATE_FAILED, reason, "Error: no credentials"
		run.StartedAt = timestamppb.New(began)
	}
}
