// Package gittest makes real Git repositories and serves them over loopback, with the git of the machine: http through git http-backend, git through
// git daemon's upload-pack, ssh through a server of its own. For tests only.
package gittest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// emptyTree is the tree without entries, which every Git knows.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// Repository is a bare repository in a folder of the test.
type Repository struct {
	// Dir of the repository.
	Dir     string
	t       testing.TB
	commits int
}

// NewRepository makes an empty bare repository below root, whose HEAD is refs/heads/main.
func NewRepository(t testing.TB, root, name string) *Repository {
	t.Helper()
	r := &Repository{Dir: filepath.Join(root, name), t: t}
	command := exec.Command("git", "init", "-q", "--bare", "--initial-branch=main", r.Dir)
	command.Env = environment()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("making a repository: %v: %s", err, out)
	}
	return r
}

// Git runs git in the repository and returns what it prints, trimmed.
func (r *Repository) Git(args ...string) string {
	r.t.Helper()
	command := exec.Command("git", append([]string{"--git-dir=" + r.Dir}, args...)...)
	command.Env = environment()
	out, err := command.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderrOf(err))
	}
	return strings.TrimSpace(string(out))
}

// Commit makes a commit that no other of this repository equals, and returns its SHA. No ref points to it yet.
func (r *Repository) Commit(parents ...string) string {
	r.t.Helper()
	r.commits++
	args := []string{"commit-tree", emptyTree, "-m", fmt.Sprintf("commit %d", r.commits)}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return r.Git(args...)
}

// Set points a ref (full name) to an object, also where porcelain would refuse the name.
func (r *Repository) Set(ref, object string) {
	r.t.Helper()
	r.Git("update-ref", ref, object)
}

// SetMany points many refs to one commit, as git pack-refs stores them: one file each takes git seconds. It replaces what was packed before.
func (r *Repository) SetMany(names []string, commit string) {
	r.t.Helper()
	var packed strings.Builder
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, name := range slices.Sorted(slices.Values(names)) {
		fmt.Fprintf(&packed, "%s %s\n", commit, name)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "packed-refs"), []byte(packed.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func environment() []string {
	return append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
}

func stderrOf(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}
