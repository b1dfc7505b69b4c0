package fetch

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"magosproject.io/services/runner/internal/executor/gittest"
)

// oldServer stands before a host and speaks the first version of the protocol only. It asks judge about every request for objects, and counts what it sends.
type oldServer struct {
	url   string
	sent  atomic.Int64
	asked atomic.Int64
}

func newOldServer(t *testing.T, repo gittest.Repo, judge func(want string) bool) *oldServer {
	t.Helper()
	target, err := url.Parse(repo.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := &oldServer{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
	proxy.ModifyResponse = func(response *http.Response) error {
		response.Body = &counted{response.Body, &s.sent}
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		if r.Method == http.MethodPost {
			s.asked.Add(1)
			body, err := io.ReadAll(r.Body)
			if err != nil || !judge(string(body)) {
				http.Error(w, "the client lacks a capability", http.StatusBadRequest)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + target.Path
	return s
}

type counted struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// C07: Azure DevOps refuses a client whose first want does not offer multi_ack. Both fetches work, the first and that of a later commit.
func TestC07AServerThatInsistsOnMultiAck(t *testing.T) {
	repo := gittest.Serve(t, `git config uploadpack.allowReachableSHA1InWant true; echo one >f; git add .; git commit -qm 1`)
	refused := 0
	server := newOldServer(t, repo, func(want string) bool {
		first, _, _ := strings.Cut(want, "\n")
		offers := strings.Contains(first, "want ") && strings.Contains(first, " multi_ack")
		if !offers {
			refused++
		}
		return offers
	})
	for _, content := range []string{"one\n", "two\n"} {
		commit := repo.Commit(map[string]string{"f": content, "n": content})
		dir, err := checkout(t, server.url, commit, "main")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != content {
			t.Errorf("f holds %q, %v; want %q", got, err, content)
		}
	}
	if server.asked.Load() < 2 || refused > 0 {
		t.Errorf("%d requests for objects, %d of them without multi_ack", server.asked.Load(), refused)
	}
}

// C61: of a repository with a long history of large files only what the commit has is fetched.
func TestC61OnlyTheCommitOfALargeRepositoryIsFetched(t *testing.T) {
	repo := gittest.Serve(t, `
		git config uploadpack.allowReachableSHA1InWant true
		for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/urandom >large; git add .; git commit -qm $i; done
		git rm -q large; mkdir wanted; head -c 4096 /dev/urandom >wanted/f; git add .; git commit -qm small
		head -c 2000000 /dev/urandom >large; git add .; git commit -qm "large again"`)
	for name, ref := range map[string]string{"with its branch": "main", "by the commit alone": ""} {
		t.Run(name, func(t *testing.T) {
			server := newOldServer(t, repo, func(string) bool { return true })
			dir, err := checkout(t, server.url, repo.Rev("main~1"), ref)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(dir, "wanted", "f")); err != nil || info.Size() != 4096 {
				t.Errorf("the wanted file: %v, %v", info, err)
			}
			if sent := server.sent.Load(); sent > 100_000 {
				t.Errorf("%d bytes were fetched for a commit of 4 KiB", sent)
			}
		})
	}
}
