package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const backend = "/usr/lib/git-core/git-http-backend"

func gitIn(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t.invalid", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t.invalid")
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", arguments, err, said)
	}
	return strings.TrimSpace(string(said))
}

func TestTheRepositoryIsServedAndOutlivesTheServer(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	data, mirror := t.TempDir(), t.TempDir()
	if err := seed(t.Context(), git, data); err != nil {
		t.Fatal(err)
	}
	first := httptest.NewServer(handler(data, mirror, backend))
	clone := filepath.Join(t.TempDir(), "clone")
	gitIn(t, ".", "clone", "--quiet", first.URL+"/demo.git", clone)
	if _, err := os.Stat(filepath.Join(clone, "env", "prod", "main.tf")); err != nil {
		t.Error(err)
	}
	gitIn(t, clone, "commit", "--quiet", "--allow-empty", "--message=second")
	gitIn(t, clone, "push", "--quiet", "origin", "main")
	first.Close()

	// As after a restart of the pod.
	if err := seed(t.Context(), git, data); err != nil {
		t.Fatal(err)
	}
	second := httptest.NewServer(handler(data, mirror, backend))
	defer second.Close()
	head := gitIn(t, clone, "rev-parse", "HEAD")
	if listed := gitIn(t, ".", "ls-remote", second.URL+"/demo.git", "refs/heads/main"); !strings.HasPrefix(listed, head) {
		t.Errorf("the server has %q, want the pushed commit %s", listed, head)
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 1 {
		t.Errorf("the data folder holds %v (%v), want the repository alone", entries, err)
	}
}

func TestTheMirrorServesFilesAndNothingBesideThem(t *testing.T) {
	parent := t.TempDir()
	mirror := filepath.Join(parent, "mirror")
	if err := os.MkdirAll(filepath.Join(mirror, "tools", "opentofu"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"mirror/tools/opentofu/sums": "abc", "secret": "x"} {
		if err := os.WriteFile(filepath.Join(parent, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := handler(t.TempDir(), mirror, backend)
	for path, want := range map[string]int{"/tools/opentofu/sums": 200, "/tools/none": 404, "/tools/..%2f..%2fsecret": 404, "/healthz": 200} {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		if answer.Code != want {
			t.Errorf("%s answers %d, want %d", path, answer.Code, want)
		}
	}
}
