package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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
	first := httptest.NewServer(handler(git, data, mirror))
	clone := filepath.Join(t.TempDir(), "clone")
	gitIn(t, ".", "clone", "--quiet", first.URL+"/demo.git", clone)
	if _, err := os.Stat(filepath.Join(clone, "env", "prod", "main.tf")); err != nil {
		t.Error(err)
	}
	// Large enough for git to send it in chunks and packed.
	if err := os.WriteFile(filepath.Join(clone, "large"), bytes.Repeat([]byte("0123456789abcdef"), 1<<17), 0o644); err != nil {
		t.Fatal(err)
	}
	gitIn(t, clone, "add", "large")
	gitIn(t, clone, "commit", "--quiet", "--message=second")
	gitIn(t, clone, "push", "--quiet", "origin", "main")
	first.Close()

	// As after a restart of the pod.
	if err := seed(t.Context(), git, data); err != nil {
		t.Fatal(err)
	}
	second := httptest.NewServer(handler(git, data, mirror))
	defer second.Close()
	head := gitIn(t, clone, "rev-parse", "HEAD")
	if listed := gitIn(t, ".", "ls-remote", second.URL+"/demo.git", "refs/heads/main"); !strings.HasPrefix(listed, head) {
		t.Errorf("the server has %q, want the pushed commit %s", listed, head)
	}
	// By protocol versions 0 and 2, and a single commit, as run pods fetch it.
	for _, version := range []string{"0", "2"} {
		again := filepath.Join(t.TempDir(), "again")
		gitIn(t, ".", "init", "--quiet", again)
		gitIn(t, again, "-c", "protocol.version="+version, "fetch", "--quiet", "--depth=1", second.URL+"/demo.git", "main")
		if got := gitIn(t, again, "rev-parse", "FETCH_HEAD"); got != head {
			t.Errorf("protocol version %s fetches %s, want %s", version, got, head)
		}
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
	server := handler("git", t.TempDir(), mirror)
	for path, want := range map[string]int{"/tools/opentofu/sums": 200, "/tools/none": 404, "/tools/..%2f..%2fsecret": 404, "/healthz": 200,
		"/none.git/info/refs?service=git-upload-pack": 404, "/demo.git/info/refs": 403, "/demo.git/info/refs?service=git-shell": 403,
	} {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		if answer.Code != want {
			t.Errorf("%s answers %d, want %d", path, answer.Code, want)
		}
	}
}
