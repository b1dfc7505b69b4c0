package controller

import (
	"strings"
	"testing"

	"magosproject.io/services/refwatcher/internal/gittest"
)

// What happens to branches in a repository's life: it is empty, it gets its first commit, its default branch gets another name, and the old name goes. What
// is known stays where it stops being so, and people are told, each time once.
func TestBranchesThatComeAndGo(t *testing.T) {
	h := newHarness(t)
	repo := gittest.NewRepository(t, h.git.Root, "infra.git")
	h.workspace("head", "infra.git", "HEAD")
	h.workspace("main", "infra.git", "main")
	rounds := func() string {
		h.round()
		h.round()
		return strings.Join(h.said(), "\n")
	}
	if said := rounds(); strings.Count(said, "Warning RevisionNotFound") != 2 || strings.Count(said, "\n") != 1 {
		t.Errorf("of an empty repository is said %q", said)
	}
	h.wantDetected("head", "")
	h.wantDetected("main", "")

	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	if said := rounds(); strings.Count(said, "Normal RevisionResolved") != 2 || strings.Count(said, "\n") != 1 {
		t.Errorf("of the first commit is said %q", said)
	}
	h.wantDetected("head", a)
	h.wantDetected("main", a)

	b := repo.Commit(a)
	repo.Set("refs/heads/trunk", b)
	repo.Git("symbolic-ref", "HEAD", "refs/heads/trunk")
	if said := rounds(); said != "" {
		t.Errorf("of a renamed default branch is said %q", said)
	}
	h.wantDetected("head", b)
	h.wantDetected("main", a)

	repo.Git("update-ref", "-d", "refs/heads/main")
	if said := rounds(); strings.Count(said, "Warning RevisionNotFound") != 1 || strings.Contains(said, "\n") {
		t.Errorf("of a branch that is gone is said %q", said)
	}
	h.wantDetected("head", b)
	h.wantDetected("main", a)
}
