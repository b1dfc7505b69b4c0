package gittest

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Server serves the repositories below a folder over smart HTTP on loopback, and counts.
type Server struct {
	// Root of the repositories.
	Root string
	// URL of the server, without a trailing slash.
	URL string
	// Listings counts how often the refs of a repository were listed.
	Listings atomic.Int64
	// Fetches counts how often objects were asked for.
	Fetches atomic.Int64
	// Down makes the server answer 503 while it is set.
	Down atomic.Bool
}

// NewServer starts a Server that ends with the test. Repositories are made below its Root.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{Root: t.TempDir()}
	server := httptest.NewServer(s.Handler(t))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Handler is the server without its socket, for tests that put something in front of it.
func (s *Server) Handler(t testing.TB) http.Handler {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("looking for git: %v", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  append(environment(), "GIT_PROJECT_ROOT="+s.Root, "GIT_HTTP_EXPORT_ALL=1"),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.Down.Load():
			http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
			return
		case strings.HasSuffix(r.URL.Path, "/info/refs"):
			s.Listings.Add(1)
		default:
			s.Fetches.Add(1)
		}
		backend.ServeHTTP(w, r)
	})
}
