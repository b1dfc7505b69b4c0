// Package gittest serves git repositories to tests as git hosts do: smart HTTP, commits only by what names point to.
package gittest

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server is a git host that lives until its test ends.
type Server struct {
	// URL of the host; a repository lies at URL/<name>/.git.
	URL string
	// Root is the folder with the work trees.
	Root string

	t       testing.TB
	mutex   sync.Mutex
	private map[string]string
	moved   map[string]string
	seen    []string
}

// Repo is a repository that is served until its test ends.
type Repo struct {
	// URL to fetch from.
	URL string
	// Dir is the work tree behind it.
	Dir string
	t   testing.TB
}

// NewServer starts a host without repositories.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, Root: t.TempDir(), private: map[string]string{}, moved: map[string]string{}}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: s.Root,
		Env: []string{"GIT_PROJECT_ROOT=" + s.Root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, backend) }))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, backend http.Handler) {
	s.mutex.Lock()
	if given := r.Header.Get("Authorization"); given != "" {
		s.seen = append(s.seen, given)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	want, private := s.private[name]
	to, moved := s.moved[name]
	s.mutex.Unlock()
	user, password, _ := r.BasicAuth()
	switch {
	case private && user+":"+password != want:
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(http.StatusUnauthorized)
	case moved:
		http.Redirect(w, r, to+strings.TrimPrefix(r.URL.Path, "/"+name+"/.git")+"?"+r.URL.RawQuery, http.StatusFound)
	default:
		backend.ServeHTTP(w, r)
	}
}

// Repo makes a repository with the branch main by a shell script, which runs in its work tree, and serves it.
func (s *Server) Repo(name, script string) Repo {
	s.t.Helper()
	r := Repo{Dir: filepath.Join(s.Root, name), URL: s.URL + "/" + name + "/.git", t: s.t}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	r.Run("git init -q -b main\n" + script)
	return r
}

// Protect asks for a user and a password for the repository from now on.
func (s *Server) Protect(name, user, password string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.private[name] = user + ":" + password
}

// Move redirects what is asked of the repository to the URL of another one. A credential is asked for first where it is protected.
func (s *Server) Move(name, to string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.moved[name] = to
}

// Authorizations are the headers of this name that the host was sent.
func (s *Server) Authorizations() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.seen...)
}

// Serve makes a repository on a host of its own.
func Serve(t testing.TB, script string) Repo {
	t.Helper()
	return NewServer(t).Repo("repo", script)
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
