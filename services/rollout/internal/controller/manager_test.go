package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster"
)

// requests counts what a process asks of the API server.
type requests struct {
	mutex   sync.Mutex
	of      map[string]int
	refused int
}

func (r *requests) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
		what := path[len(path)-1]
		if i := len(path); i >= 2 && what != "status" && what != "events" {
			what = path[i-2]
		}
		if what == "status" {
			what = path[len(path)-3] + "/status"
		}
		verb := request.Method
		if request.Method == http.MethodGet && request.URL.Query().Has("resourceVersion") {
			verb = "LISTWATCH"
		}
		response, err := next.RoundTrip(request)
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.of[verb+" "+what]++
		if err == nil && response.StatusCode == http.StatusConflict {
			r.refused++
		}
		return response, err
	})
}

// conflicts counts the writes that came too late.
func (r *requests) conflicts() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.refused
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// sum counts all but the cache's own lists and watches, and discovery.
func (r *requests) sum() (n int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for what, count := range r.of {
		if strings.HasPrefix(what, "LISTWATCH") || strings.Contains(what, "apis") || strings.Contains(what, "magosproject.io") {
			continue
		}
		n += count
	}
	return n
}

// managed runs the reconciler as the service does: with a manager, caches and watches.
func managed(t *testing.T) (*harness, *requests) {
	h := newHarness(t)
	counted := &requests{of: map[string]int{}}
	config := rest.CopyConfig(apiServer)
	config.Wrap(counted.transport)
	skip := true
	options := ctrl.Options{Scheme: testcluster.Scheme(t), Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{h.namespace: {}}}}
	options.Metrics.BindAddress = "0"
	options.Controller.SkipNameValidation = &skip
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		t.Fatal(err)
	}
	h.sim.clock = clock.RealClock{}
	reconciler := New(Config{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Revisions: h.revisions, Events: manager.GetEventRecorder("magos-rollout"),
		// Counts in status are written now and then: how often must not depend on how long a busy machine takes.
		StatusInterval: time.Hour,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := reconciler.SetupWithManager(ctx, manager); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- manager.Start(ctx) }()
	return h, counted
}

// follow lets the simulated Workspaces run beside the service until the pass number n has succeeded.
func (h *harness) follow(name string, n int, look func()) {
	h.t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for time.Now().Before(deadline) {
		h.sim.tick()
		look()
		r := &v1alpha1.Rollout{}
		key := h.key()
		key.Name = name
		if err := h.admin.Get(h.t.Context(), key, r); err != nil {
			h.t.Fatal(err)
		}
		if r.Status.Phase == v1alpha1.RolloutSucceeded && len(r.Status.History) == n {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	h.t.Fatal("the pass does not end")
}

// The manifest is that of the user's documentation.
func TestDocumentedRolloutTakesDevThenStagingThenProd(t *testing.T) {
	h, _ := managed(t)
	content, err := os.ReadFile("testdata/rollout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rollout := &v1alpha1.Rollout{}
	if err := yaml.UnmarshalStrict(content, rollout); err != nil {
		t.Fatal(err)
	}
	project := newProject(v1alpha1.OrchestrationRollout)
	project.Name = rollout.Name
	// prod first: with RolloutMissing nobody runs before the Rollout is there.
	h.create(project)
	for _, env := range []string{"prod", "staging", "dev"} {
		w := newWorkspace(env, env)
		w.Spec.ProjectRef.Name = rollout.Name
		h.create(w)
	}
	h.sim.detect(commitA)
	for range 10 {
		h.sim.tick()
		time.Sleep(20 * time.Millisecond)
	}
	if got := h.sim.began(); got != "" {
		t.Fatalf("ran without a Rollout: %s", got)
	}
	h.create(rollout)
	order := []string{"dev", "staging", "prod"}
	inOrder := func(commit string) func() {
		return func() {
			// A grant is read before what must have been true when it was given.
			for i := len(order) - 1; i > 0; i-- {
				w := h.workspace(order[i])
				if grant, granted := v1alpha1.ReadGrant(w, true); !granted || grant.Revision != commit {
					continue
				}
				for _, earlier := range order[:i] {
					if got := h.workspace(earlier).Status.ObservedRevision; got != commit {
						t.Fatalf("%s is granted while %s is at %q", order[i], earlier, got)
					}
				}
			}
		}
	}
	h.follow(rollout.Name, 1, inOrder(commitA))
	if got := h.sim.began(); got != "dev Spec a, staging Spec a, prod Spec a" {
		t.Errorf("runs began as %q", got)
	}
	h.push(commitB)
	h.follow(rollout.Name, 2, inOrder(commitB))
	if got := h.sim.began(); got != "dev Revision b, staging Revision b, prod Revision b" {
		t.Errorf("runs of the second commit began as %q", got)
	}
}

// A grant and its end are two requests per Workspace; everything else is shared.
func TestRequestsPerWorkspaceAndPass(t *testing.T) {
	h, counted := managed(t)
	const perStep = 30
	for i := range perStep {
		h.create(newWorkspace(fmt.Sprintf("d%02d", i), "dev"), newWorkspace(fmt.Sprintf("p%02d", i), "prod"))
	}
	h.sim.detect(commitA)
	h.sim.tick()
	h.create(newProject(v1alpha1.OrchestrationRollout), newRollout("dev", "prod"))
	before := counted.sum()
	h.follow("pay", 1, func() {})
	counted.rest(t)
	// A conflict with the test's own writes is tried again; how many there are is a matter of chance.
	each := float64(counted.sum()-before-2*counted.conflicts()) / (2 * perStep)
	t.Logf("%.2f requests per Workspace and pass, %d conflicts: %v", each, counted.conflicts(), counted.of)
	if each > 3 {
		t.Errorf("%.2f requests per Workspace and pass, want 3 at most", each)
	}
}

// rest waits until nothing is asked for some seconds, and fails when that never comes: everything is applied, and whatever comes
// late ends.
func (r *requests) rest(t *testing.T) {
	t.Helper()
	last, since := r.sum(), time.Now()
	for end := time.Now().Add(3 * time.Minute); time.Since(since) < 4*time.Second; time.Sleep(50 * time.Millisecond) {
		if n := r.sum(); n != last {
			last, since = n, time.Now()
		}
		if time.Now().After(end) {
			t.Fatalf("still asking while nothing changes: %v", r.of)
		}
	}
}

// Members come, go and change steps while commits arrive: the order of steps holds, and in the end all are applied.
// The seeds are fixed: whoever sends a change is not to meet another one by chance. MAGOS_TEST_SEED=N tries one more.
func TestRandomChangesOfMembers(t *testing.T) {
	seeds := []uint64{1, 2}
	if text := os.Getenv("MAGOS_TEST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { changeMembers(t, seed) })
	}
}

func changeMembers(t *testing.T, seed uint64) {
	h := newHarness(t)
	envs := []string{"dev", "staging", "prod"}
	h.create(newProject(v1alpha1.OrchestrationAuto), newRollout(envs...))
	for i, env := range envs {
		h.create(newWorkspace(fmt.Sprintf("w%d", i), env))
	}
	random := rand.New(rand.NewPCG(seed, 1))
	head, next := commitA, 3
	h.push(head)
	for range 120 {
		h.clock.Step(time.Second)
		switch env := envs[random.IntN(3)]; random.IntN(12) {
		case 0:
			h.create(newWorkspace(fmt.Sprintf("w%d", next), env))
			next++
			h.sim.detect(head)
		case 1:
			if w := h.anyWorkspace(random); w != nil && w.Name > "w2" {
				if err := h.admin.Delete(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
		case 2:
			if w := h.anyWorkspace(random); w != nil && w.Name > "w2" {
				w.Labels["env"] = env
				if err := h.admin.Update(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
		case 3:
			head = strings.Repeat(string("abcdef"[random.IntN(6)]), 40)
			h.push(head)
		}
		h.mustReconcile()
		h.checkOrder()
		h.sim.tick()
	}
	h.settle()
	h.checkOrder()
	var list v1alpha1.WorkspaceList
	if err := h.admin.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if w := &list.Items[i]; w.Namespace == h.namespace && w.Status.ObservedRevision != head {
			t.Errorf("%s is at %q, want %s", w.Name, w.Status.ObservedRevision, head)
		}
	}
}

func (h *harness) anyWorkspace(random *rand.Rand) *v1alpha1.Workspace {
	h.t.Helper()
	var list v1alpha1.WorkspaceList
	if err := byProject(h.admin).List(h.t.Context(), &list, client.InNamespace(h.namespace)); err != nil {
		h.t.Fatal(err)
	}
	return &list.Items[random.IntN(len(list.Items))]
}

// checkOrder holds that only members of the current step may run something new.
func (h *harness) checkOrder() {
	h.t.Helper()
	r := h.rollout()
	var list v1alpha1.WorkspaceList
	if err := h.admin.List(h.t.Context(), &list, client.InNamespace(h.namespace)); err != nil {
		h.t.Fatal(err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		g, granted := v1alpha1.ReadGrant(w, true)
		if !granted || g.Scope != v1alpha1.ScopeRun {
			continue
		}
		pass := r.Status.Pass
		if pass == nil || pass.FinishedAt != nil || g.Pass != pass.ID {
			h.t.Fatalf("%s may run in pass %s outside of it: %+v", w.Name, g.Pass, pass)
		}
		if env := pass.Steps[r.Status.CurrentStep].Name; w.Labels["env"] != env {
			h.t.Fatalf("%s of %s may run in step %s", w.Name, w.Labels["env"], env)
		}
	}
}
