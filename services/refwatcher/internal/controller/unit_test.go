package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/refwatcher/internal/schedule"
)

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

var (
	began    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	settings = schedule.Settings{MaxBackoff: 10 * time.Minute, MinGap: time.Second, PerHost: 4, Total: 8, Jitter: 0.1}
	schemes  = []string{"https", "http"}
)

// fakeRemotes answers for every URL.
type fakeRemotes struct {
	mutex    sync.Mutex
	refs     refs.Advertised
	err      error
	listings int
	wanted   []string
}

func (f *fakeRemotes) List(_ context.Context, _ refs.URL, _ *repocreds.Credential, wanted []string) (refs.Advertised, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.listings++
	f.wanted = wanted
	return f.refs, f.err
}

func newWorkspace(name, target string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{}
	w.Namespace, w.Name, w.UID = "team", name, types.UID("uid-"+name)
	w.Spec.ProjectRef.Name = "p"
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: "https://example.com/infra.git", TargetRevision: target}
	return w
}

func newTestPoller(t *testing.T, k *Knowledge, lister Lister, c clock.Clock, workspaces ...*v1alpha1.Workspace) (*Poller, chan event.TypedGenericEvent[types.NamespacedName]) {
	t.Helper()
	builder := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t))
	for _, w := range workspaces {
		builder.WithObjects(w)
	}
	reader := builder.Build()
	changed := make(chan event.TypedGenericEvent[types.NamespacedName], 1000)
	return NewPoller(PollerConfig{
		Knowledge: k, Workspaces: reader, Credentials: NewCredentials(reader, schemes), Lister: lister, Changed: changed, Clock: c,
		Metrics: NewMetrics(prometheus.NewRegistry(), k.Count), Log: slog.New(slog.DiscardHandler),
	}), changed
}

func TestFiftyWorkspacesAreOnePoll(t *testing.T) {
	var workspaces []*v1alpha1.Workspace
	for i := range 50 {
		w := newWorkspace(fmt.Sprintf("ws-%02d", i), []string{"main", "v1"}[i%2])
		// Spellings of one remote.
		w.Spec.Source.RepoURL = []string{"https://example.com/infra.git", "https://EXAMPLE.com:443/infra.git/"}[i%2]
		workspaces = append(workspaces, w)
	}
	k := NewKnowledge(settings, schemes)
	lister := &fakeRemotes{refs: refs.Advertised{"refs/heads/main": {Object: commitA}, "refs/tags/v1": {Object: commitA, Peeled: commitB}}}
	clock := clocktesting.NewFakeClock(began)
	p, changed := newTestPoller(t, k, lister, clock, workspaces...)
	if err := p.seed(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.startDue(t.Context())
	p.running.Wait()
	p.startDue(t.Context())
	p.running.Wait()
	if lister.listings != 1 || len(lister.wanted) != 4 {
		t.Errorf("%d listings, the last for %v; want one for the four refs that two names can mean", lister.listings, lister.wanted)
	}
	if len(changed) != 50 {
		t.Errorf("%d Workspaces were told, want 50", len(changed))
	}
	for i, w := range workspaces {
		if found, _ := k.Observe(began, w, schedule.Access{}); found.Commit != []string{commitA, commitB}[i%2] {
			t.Errorf("%s: found %+v", w.Name, found)
		}
	}
	if polls := testutil.ToFloat64(p.Metrics.polls.WithLabelValues(resultSuccess)); polls != 1 {
		t.Errorf("counted %v polls", polls)
	}

	// Nothing new: nobody is told.
	for range 50 {
		<-changed
	}
	clock.Step(time.Minute)
	p.startDue(t.Context())
	p.running.Wait()
	if lister.listings != 2 || len(changed) != 0 {
		t.Errorf("%d listings, %d told; want 2 and none", lister.listings, len(changed))
	}
}

func TestARemoteThatFailsKeepsWhatIsKnown(t *testing.T) {
	k := NewKnowledge(settings, schemes)
	lister := &fakeRemotes{refs: refs.Advertised{"refs/heads/main": {Object: commitA}}}
	clock := clocktesting.NewFakeClock(began)
	w := newWorkspace("a", "main")
	p, changed := newTestPoller(t, k, lister, clock, w)
	k.setLeading(true)
	if err := p.seed(t.Context()); err != nil {
		t.Fatal(err)
	}
	poll := func() {
		p.startDue(t.Context())
		p.running.Wait()
	}
	poll()
	lister.err = errors.New("no route to host")
	clock.Step(time.Minute)
	poll()
	found, _ := k.Observe(clock.Now(), w, schedule.Access{})
	if found.Commit != commitA || found.Trouble == nil || found.Trouble.Reason != v1alpha1.ReasonRemoteUnavailable {
		t.Errorf("found %+v", found)
	}
	remotes, _ := k.Remotes("")
	if len(remotes) != 1 || remotes[0].LastError != "no route to host" || !remotes[0].LastSuccess.Equal(began) {
		t.Errorf("remotes %+v", remotes)
	}
	if len(changed) != 2 {
		t.Errorf("told %d times, want twice: found, then failing", len(changed))
	}
	lister.err = nil
	clock.Step(time.Hour)
	poll()
	if found, _ := k.Observe(clock.Now(), w, schedule.Access{}); found.Trouble != nil || found.Commit != commitA {
		t.Errorf("found %+v", found)
	}
}

func TestKnowledgeForgetsWithTheLastWorkspace(t *testing.T) {
	k := NewKnowledge(settings, schemes)
	k.setLeading(true)
	a, b := newWorkspace("a", "main"), newWorkspace("b", "main")
	k.Observe(began, a, schedule.Access{})
	k.Observe(began, b, schedule.Access{})
	if n, _ := k.Count(); n != 1 {
		t.Fatalf("%d remotes", n)
	}
	moved := b.DeepCopy()
	moved.Spec.Source.RepoURL = "https://example.com/other.git"
	k.Observe(began, moved, schedule.Access{})
	if remotes, _ := k.Remotes(""); len(remotes) != 2 {
		t.Fatalf("remotes %+v", remotes)
	}
	pinned := b.DeepCopy()
	pinned.Spec.Source.TargetRevision = commitB
	if found, _ := k.Observe(began, pinned, schedule.Access{}); found.Commit != commitB {
		t.Errorf("found %+v for a commit", found)
	}
	k.Forget(types.NamespacedName{Namespace: "team", Name: "a"})
	k.Forget(types.NamespacedName{Namespace: "team", Name: "never"})
	if remotes, _ := k.Remotes(""); len(remotes) != 0 {
		t.Errorf("left %+v", remotes)
	}
}

func TestASuccessorOfTheSameNameWasToldNothing(t *testing.T) {
	k := NewKnowledge(settings, schemes)
	w := newWorkspace("a", "main")
	k.Observe(began, w, schedule.Access{})
	k.Tell(w, schedule.Told{Reason: v1alpha1.ReasonRemoteUnavailable}, nil)
	successor := w.DeepCopy()
	successor.UID = "another"
	if _, told := k.Observe(began, successor, schedule.Access{}); told != (schedule.Told{}) {
		t.Errorf("told %+v", told)
	}
}

func TestRemotesAreThoseOfTheNamespace(t *testing.T) {
	k := NewKnowledge(settings, schemes)
	if _, polls := k.Remotes(""); polls {
		t.Error("a replica that does not lead answers")
	}
	k.setLeading(true)
	k.Observe(began, newWorkspace("a", "main"), schedule.Access{})
	other := newWorkspace("b", "main")
	other.Namespace = "other"
	k.Observe(began, other, schedule.Access{})
	k.Observe(began, newWorkspace("pinned", commitA), schedule.Access{})
	for namespace, want := range map[string]int{"": 2, "team": 1, "other": 1} {
		remotes, polls := k.Remotes(namespace)
		if !polls || len(remotes) != 1 || len(remotes[0].Workspaces) != want {
			t.Errorf("%q: %+v, want one remote with %d Workspaces", namespace, remotes, want)
		}
	}
	if remotes, _ := k.Remotes("nobody"); len(remotes) != 0 {
		t.Errorf("got %+v", remotes)
	}
}

// The loop itself: it polls what is there, wakes for what arrives, and waits for its polls when it is told to stop.
func TestPollerFollowsArrivalsAndStops(t *testing.T) {
	k := NewKnowledge(settings, schemes)
	lister := &fakeRemotes{refs: refs.Advertised{"refs/heads/main": {Object: commitA}}}
	p, changed := newTestPoller(t, k, lister, clock.RealClock{}, newWorkspace("a", "main"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Start(ctx) }()
	if got := <-changed; got.Object.Name != "a" {
		t.Errorf("told %v", got)
	}
	arrival := newWorkspace("b", "main")
	arrival.Spec.Source.RepoURL = "https://example.org/other.git"
	k.Observe(time.Now(), arrival, schedule.Access{})
	if got := <-changed; got.Object.Name != "b" {
		t.Errorf("told %v", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, polls := k.Remotes(""); polls {
		t.Error("it still leads")
	}
}
