// Package gittest serves git repositories to tests as git hosts do: smart HTTP, commits only by what names point to.
package gittest

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repo is a repository that is served until its test ends.
type Repo struct {
	// URL to fetch from.
	URL string
	// Dir is the work tree behind it.
	Dir string
	t   testing.TB
}

// Serve makes a repository with the branch main by a shell script, which runs in its work tree, and serves it.
func Serve(t testing.TB, script string) Repo {
	t.Helper()
	root := t.TempDir()
	r := Repo{Dir: filepath.Join(root, "repo"), t: t}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Run("git init -q -b main\n" + script)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	t.Cleanup(server.Close)
	r.URL = server.URL + "/repo/.git"
	return r
}

// Run runs a shell script in the work tree and returns what it printed.
func (r Repo) Run(script string) string {
	r.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Commit writes files, by their names in the repository, commits everything and returns the commit.
func (r Repo) Commit(files map[string]string) string {
	r.t.Helper()
	for name, content := range files {
		name = filepath.Join(r.Dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.Run("git add -A -f >&2; git commit -q --allow-empty -m change >&2; git rev-parse HEAD")
}

// Rev returns the commit that a name points to.
func (r Repo) Rev(name string) string {
	r.t.Helper()
	return r.Run("git rev-parse '" + name + "^{commit}'")
}
