package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
	"magosproject.io/services/refwatcher/internal/gittest"
)

func TestOnePollForFiftyWorkspacesAndNoWriteWhenIdle(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	repo.Set("refs/heads/next", a)
	for i := range 50 {
		h.workspace(fmt.Sprintf("ws-%02d", i), "infra.git", []string{"main", "next"}[i%2])
	}
	h.round()
	for i := range 50 {
		h.wantDetected(fmt.Sprintf("ws-%02d", i), a)
	}
	if h.git.Listings.Load() != 1 || h.writes() != 50 {
		t.Errorf("%d listings and %d writes; want one and one per Workspace", h.git.Listings.Load(), h.writes())
	}
	for range 3 {
		h.round()
	}
	if h.git.Listings.Load() != 4 || h.writes() != 50 {
		t.Errorf("%d listings and %d writes after three idle intervals; want 4 and 50", h.git.Listings.Load(), h.writes())
	}
	b := repo.Commit(a)
	repo.Set("refs/heads/next", b)
	h.round()
	if h.git.Listings.Load() != 5 || h.writes() != 75 || h.git.Fetches.Load() != 0 {
		t.Errorf("%d listings, %d writes, %d fetches after a push to one branch; want 5, 75 and 0", h.git.Listings.Load(), h.writes(), h.git.Fetches.Load())
	}
	h.wantDetected("ws-00", a)
	h.wantDetected("ws-01", b)
}

// C01: the peeled commit, one change while the tag is still, and one more when it moves.
func TestC01DetectedRevisionOfAnnotatedTags(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	repo.Git("tag", "-a", "v1", "-m", "x", a)
	repo.Git("tag", "-a", "inner", "-m", "x", a)
	repo.Git("tag", "-a", "outer", "-m", "x", "inner")
	h.workspace("v1", "infra.git", "v1")
	h.workspace("outer", "infra.git", "outer")
	for range 5 {
		h.round()
	}
	h.wantDetected("v1", a)
	h.wantDetected("outer", a)
	if h.writes() != 2 {
		t.Errorf("%d writes in five polls, want 2: %v", h.writes(), h.process.Writes())
	}
	repo.Git("tag", "-f", "-a", "v1", "-m", "moved", b)
	h.round()
	h.round()
	h.wantDetected("v1", b)
	if h.writes() != 3 {
		t.Errorf("%d writes, want exactly one for the move", h.writes()-2)
	}
}

// C02: an ambiguous name is refused, once and for all; nothing flaps. The full names work.
func TestC02AmbiguousNameIsNeverDetected(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	b, c := repo.Commit(a), repo.Commit(a)
	repo.Set("refs/heads/release-1.0", a)
	repo.Set("refs/tags/release-1.0", b)
	h.workspace("short", "infra.git", "release-1.0")
	h.workspace("branch", "infra.git", "refs/heads/release-1.0")
	h.workspace("tag", "infra.git", "refs/tags/release-1.0")
	h.round()
	repo.Set("refs/heads/release-1.0", c)
	h.round()
	repo.Set("refs/tags/release-1.0", a)
	h.round()
	h.wantDetected("short", "")
	h.wantDetected("branch", c)
	h.wantDetected("tag", a)
	said := h.said()
	if len(said) != 1 || !strings.Contains(said[0], "Warning AmbiguousRevision") || !strings.Contains(said[0], "refs/heads/release-1.0 or refs/tags/release-1.0") {
		t.Errorf("said %q", said)
	}
	// Deleting one of the two resolves it.
	repo.Git("update-ref", "-d", "refs/tags/release-1.0")
	h.round()
	h.wantDetected("short", c)
	h.wantDetected("tag", a)
	if said := h.said(); len(said) != 2 || !strings.Contains(strings.Join(said, " "), "Normal RevisionResolved") {
		t.Errorf("said %q; want that short is resolved and that tag is not found", said)
	}
}

// C03: one Workspace per odd name.
func TestC03DetectedRevisionOfOddNames(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	repo.Set("refs/heads/main", a)
	repo.Set("refs/heads/HEAD", b)
	repo.Set("refs/heads/"+a, b)
	repo.Set("refs/tags/20260817", b)
	repo.Set("refs/tags/@name/sub@v1.0.1", b)
	targets := map[string][2]string{
		"head": {"HEAD", a}, "commit": {a, a}, "hex": {"20260817", b}, "at": {"@name/sub@v1.0.1", b}, "full-head": {"refs/heads/HEAD", b}, "full-hex": {"refs/heads/" + a, b},
	}
	for name, want := range targets {
		h.workspace(name, "infra.git", want[0])
	}
	h.round()
	for name, want := range targets {
		h.wantDetected(name, want[1])
	}
	if h.git.Listings.Load() != 1 {
		t.Errorf("%d listings", h.git.Listings.Load())
	}
}

// C05: every tip is a new revision, the older ones too.
func TestC05RewindIsANewRevision(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	c := repo.Commit(b)
	d := repo.Commit(a)
	h.workspace("ws", "infra.git", "main")
	for i, tip := range []string{c, a, d} {
		repo.Set("refs/heads/main", tip)
		h.round()
		h.round()
		h.wantDetected("ws", tip)
		if h.writes() != i+1 {
			t.Errorf("%d writes, want one per tip", h.writes())
		}
	}
}

func TestACommitNeedsNoRemote(t *testing.T) {
	h := newHarness(t)
	h.git.Down.Store(true)
	h.workspace("ws", "none.git", commitB)
	h.round()
	h.wantDetected("ws", commitB)
	if h.git.Listings.Load() != 0 || h.remotes() != 0 {
		t.Error("the remote was asked for a commit")
	}
}

func TestRemoteThatFailsIsAnnouncedOnceAndRecovers(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	h.workspace("ws", "infra.git", "main")
	h.round()
	h.git.Down.Store(true)
	for range 5 {
		h.round()
	}
	h.wantDetected("ws", a)
	if said := h.said(); len(said) != 1 || !strings.Contains(said[0], "Warning RemoteUnavailable") || !strings.Contains(said[0], "503") {
		t.Errorf("said %q", said)
	}
	b := repo.Commit(a)
	repo.Set("refs/heads/main", b)
	h.git.Down.Store(false)
	h.clock.Step(settings.MaxBackoff)
	h.round()
	h.wantDetected("ws", b)
	if said := h.said(); len(said) != 1 || !strings.Contains(said[0], "Normal RevisionResolved") {
		t.Errorf("said %q", said)
	}
}

func TestEditedSourceTakesTheOldCommitAway(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	repo.Set("refs/heads/main", a)
	repo.Set("refs/heads/next", b)
	h.workspace("ws", "infra.git", "main")
	h.round()
	h.wantDetected("ws", a)
	h.edit("ws", func(w *v1alpha1.Workspace) { w.Spec.Source.TargetRevision = "missing" })
	h.reconcileAll()
	h.wantDetected("ws", "")
	// An arrival is due at once; only the gap since the last poll is kept.
	h.clock.Step(time.Second)
	h.poller.startDue(t.Context())
	h.poller.running.Wait()
	h.round()
	if said := strings.Join(h.said(), " "); !strings.Contains(said, "Warning RevisionNotFound") {
		t.Errorf("said %q", said)
	}
	h.edit("ws", func(w *v1alpha1.Workspace) { w.Spec.Source.TargetRevision = "next" })
	h.round()
	h.wantDetected("ws", b)
}

func TestBadIntervalIsAnnouncedOnce(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	h.workspace("ws", "infra.git", "main")
	h.edit("ws", func(w *v1alpha1.Workspace) {
		w.Annotations = map[string]string{v1alpha1.AnnotationGitPollInterval: "often"}
	})
	for range 3 {
		h.round()
	}
	h.wantDetected("ws", a)
	if said := h.said(); len(said) != 1 || !strings.Contains(said[0], "Warning InvalidAnnotation") {
		t.Errorf("said %q", said)
	}
	if h.git.Listings.Load() != 3 {
		t.Errorf("%d listings in three default intervals", h.git.Listings.Load())
	}
}

// What was decided on an older version of a Workspace, or on its predecessor, is not written.
func TestAStaleVersionIsNotWrittenOn(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	h.workspace("ws", "infra.git", "main")
	h.round()
	stale := h.get("ws")
	h.edit("ws", func(w *v1alpha1.Workspace) { w.Labels = map[string]string{"env": "dev"} })
	b := repo.Commit(a)
	repo.Set("refs/heads/main", b)

	fresh := h.reconciler.Client
	h.reconciler.Client = interceptor.NewClient(h.process, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			stale.DeepCopyInto(obj.(*v1alpha1.Workspace))
			return nil
		},
	})
	h.round()
	h.wantDetected("ws", a)
	if h.writes() < 2 {
		t.Fatal("the stale write was not even tried")
	}
	if err := h.admin.Delete(t.Context(), h.get("ws")); err != nil {
		t.Fatal(err)
	}
	// Deleted: the write must not create it again.
	h.reconcile(client.ObjectKeyFromObject(stale))
	if err := h.admin.Get(t.Context(), client.ObjectKeyFromObject(stale), &v1alpha1.Workspace{}); !apierrors.IsNotFound(err) {
		t.Fatalf("got %v, want not found", err)
	}
	h.workspace("ws", "infra.git", "main")
	h.reconcile(client.ObjectKeyFromObject(stale))
	h.wantDetected("ws", "")
	h.reconciler.Client = fresh
	h.round()
	h.wantDetected("ws", b)
}

// The process dies at each of its writes, before or after it lands, and is started again: the end is the same, and nothing is written twice.
func TestCrashAtEveryWrite(t *testing.T) {
	const writes = 6
	for _, moment := range []crash.Moment{crash.Before, crash.After} {
		for at := range writes + 1 {
			t.Run(fmt.Sprintf("moment %d write %d", moment, at), func(t *testing.T) {
				h := newHarness(t)
				repo := gittest.NewRepository(t, h.git.Root, "infra.git")
				a := repo.Commit()
				b := repo.Commit(a)
				repo.Set("refs/heads/main", a)
				repo.Git("tag", "-a", "v1", "-m", "x", a)
				for name, target := range map[string]string{"main-1": "main", "main-2": "main", "v1": "v1", "pinned": b} {
					h.workspace(name, "infra.git", target)
				}
				h.restart(at, moment)
				died, total := 0, 0
				live := func() {
					if !h.round() {
						died++
						total += h.writes()
						h.restart(0, moment)
						h.round()
					}
				}
				live()
				repo.Set("refs/heads/main", b)
				live()
				total += h.writes()
				h.wantDetected("main-1", b)
				h.wantDetected("main-2", b)
				h.wantDetected("v1", a)
				h.wantDetected("pinned", b)
				if want := map[bool]int{true: 0, false: 1}[at == 0]; died != want {
					t.Errorf("died %d times, want %d", died, want)
				}
				if lost := map[bool]int{true: 1}[moment == crash.Before && at > 0]; total != writes+lost {
					t.Errorf("%d writes were tried, want %d", total, writes+lost)
				}
			})
		}
	}
}
