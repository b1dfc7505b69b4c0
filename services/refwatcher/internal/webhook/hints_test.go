package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/schedule"
)

func workspaceOf(namespace, name, url string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{}
	w.Namespace, w.Name = namespace, name
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: url, TargetRevision: "main"}
	return w
}

// world is a replica with its Hints, on the clock of a synctest bubble.
type world struct {
	*Hints
	book *schedule.Book
	// leads says whether this replica polls, leader whether another one can be reached that does.
	leads, leader bool
	forwarded     []string
	failures      int
}

func newWorld(t *testing.T, workspaces ...*v1alpha1.Workspace) *world {
	t.Helper()
	schemes := []string{"https", "ssh"}
	w := &world{leads: true, book: schedule.NewBook(schedule.Settings{MaxBackoff: time.Minute, MinGap: time.Second, PerHost: 4, Total: 8}, schemes)}
	builder := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t))
	if err := controller.IndexPlaces(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	for _, ws := range workspaces {
		builder.WithObjects(ws)
		w.book.Observe(time.Now(), ws, schedule.Access{})
	}
	w.polls()
	w.Hints = NewHints(HintsConfig{
		Workspaces: builder.Build(), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
		Pushed: func(now time.Time, namespace string, urls []refs.URL) (int, bool) {
			if !w.leads {
				return 0, false
			}
			return w.book.Pushed(now, namespace, urls), true
		},
		Forward: func(_ context.Context, namespace string, urls []string) error {
			if !w.leader {
				w.failures++
				return errors.New("nobody leads")
			}
			w.forwarded = append(w.forwarded, fmt.Sprint(namespace, " ", urls))
			return nil
		},
	})
	return w
}

type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(object, field, extract)
	return nil
}

// polls makes every poll that is due and returns how many there were.
func (w *world) polls() int {
	n := 0
	for {
		poll, due := w.book.Next(time.Now())
		if !due {
			return n
		}
		n++
		w.book.Finish(time.Now(), poll, schedule.Answer{Findings: map[string]schedule.Finding{}})
	}
}

func (w *world) offer(t *testing.T, urls ...string) bool {
	t.Helper()
	var parsed []refs.URL
	for _, raw := range urls {
		url, err := refs.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, url)
	}
	known, err := w.Offer(t.Context(), parsed)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// kept is how many hints wait.
func (w *world) kept() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.waiting)
}

// begin starts the delivery, which stop ends.
func (w *world) begin(t *testing.T) (stop context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return cancel
}

// later lets time pass; all that is due then has been delivered.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Ten thousand webhooks in a row, the same one replayed, are one poll a second at most, and take the memory of one.
func TestAFloodOfWebhooksIsOnePollASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workspaceOf("team", "a", "git@github.com:acme/infra.git"), workspaceOf("team", "b", "https://example.com/other.git"))
		w.begin(t)
		later(10 * time.Second)
		r := newReceiver(t)
		r.config.Offer = w.Offer
		s := senders()["GitHub"]
		began, polls := time.Now(), 0
		for i := range 10_000 {
			if status, _, _ := r.send(s.request(t, rightKey)); status != http.StatusAccepted {
				t.Fatalf("answered %d", status)
			}
			if w.kept() > 1 {
				t.Fatalf("%d hints wait", w.kept())
			}
			if i%100 == 99 {
				later(50 * time.Millisecond)
				polls += w.polls()
			}
		}
		later(10 * time.Second)
		polls += w.polls()
		if longest := int(time.Since(began)/time.Second) + 1; polls < 2 || polls > longest {
			t.Errorf("%d polls in %s", polls, time.Since(began))
		}
		if later(time.Second); w.polls() != 0 || w.kept() != 0 {
			t.Error("the flood goes on after its end")
		}
	})
}

func TestAPushIsPolledForAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workspaceOf("team", "a", "git@github.com:acme/infra.git"))
		w.begin(t)
		later(10 * time.Second)
		if w.polls() != 0 {
			t.Fatal("a poll is due before the push")
		}
		if known := w.offer(t, "https://github.com/Acme/infra"); !known {
			t.Error("the repository is not known")
		}
		synctest.Wait()
		if w.polls() != 1 {
			t.Error("no poll is due at the moment of the push")
		}
	})
}

func TestRepositoriesThatNobodyUsesAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workspaceOf("team", "a", "https://example.com/infra.git"), workspaceOf("team", "bad", "--upload-pack=x"))
		for i := range 1000 {
			if w.offer(t, fmt.Sprintf("https://example.com/%d.git", i)) {
				t.Fatal("an unknown repository is known")
			}
		}
		if w.kept() != 0 || len(w.wake) != 0 {
			t.Errorf("%d hints wait", w.kept())
		}
	})
}

// A replica that does not poll tells the one that does, once for each namespace, in one call for all that came together.
func TestAWebhookAtAReplicaThatDoesNotPollReachesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t,
			workspaceOf("team", "a", "https://example.com/infra.git"), workspaceOf("team", "b", "git@example.com:infra"),
			workspaceOf("team", "c", "https://example.com/other.git"), workspaceOf("ops", "a", "https://example.com/infra.git"),
		)
		w.leads, w.leader = false, true
		for range 100 {
			w.offer(t, "https://example.com/infra.git", "ssh://git@example.com/infra.git")
			w.offer(t, "https://example.com/other.git", "https://example.com/unknown.git")
		}
		w.begin(t)
		slices.Sort(w.forwarded)
		want := []string{"ops [https://example.com/infra.git]", "team [https://example.com/infra.git https://example.com/other.git]"}
		got := make([]string, len(w.forwarded))
		for i, text := range w.forwarded {
			// Which spelling of one place is told does not matter.
			got[i] = strings.Replace(text, "ssh://git@example.com/infra.git", "https://example.com/infra.git", 1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// While nobody leads a push is not lost: it is told as soon as somebody does, here this replica itself.
func TestAPushWhileNobodyLeadsIsToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workspaceOf("team", "a", "https://example.com/infra.git"))
		w.leads = false
		w.begin(t)
		w.offer(t, "https://example.com/infra.git")
		later(10 * time.Second)
		if w.failures < 5 || w.failures > 12 {
			t.Errorf("tried %d times in ten seconds", w.failures)
		}
		w.leads = true
		later(2 * retry)
		if w.polls() != 1 || w.kept() != 0 {
			t.Errorf("no poll is due; %d hints wait", w.kept())
		}
	})
}

// Whoever leads after so long has asked every remote since.
func TestAHintThatNobodyTakesIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workspaceOf("team", "a", "https://example.com/infra.git"))
		w.leads = false
		w.begin(t)
		w.offer(t, "https://example.com/infra.git")
		later(stale + 2*retry)
		failures := w.failures
		later(10 * retry)
		if w.kept() != 0 || w.failures != failures {
			t.Errorf("%d hints wait, tried %d times more", w.kept(), w.failures-failures)
		}
	})
}

// A stopping replica is still sent webhooks for a moment, and tells of them.
func TestAWebhookAtAStoppingReplicaIsToldToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, workspaceOf("team", "a", "https://example.com/infra.git"))
		w.leads, w.leader, w.config.Grace = false, true, 3*time.Second
		stop := w.begin(t)
		stop()
		later(2 * time.Second)
		w.offer(t, "https://example.com/infra.git")
		synctest.Wait()
		if len(w.forwarded) != 1 {
			t.Errorf("told %q", w.forwarded)
		}
		later(2 * time.Second)
		w.offer(t, "https://example.com/infra.git")
		synctest.Wait()
		if len(w.forwarded) != 1 {
			t.Errorf("told %q after its end", w.forwarded)
		}
	})
}
