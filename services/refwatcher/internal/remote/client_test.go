package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/gittest"
)

func newTestClient(change func(*Config)) *Client {
	config := Config{Schemes: Schemes, AllowLocalAddresses: true, Timeout: time.Minute, MaxBytes: 8 << 20, Now: time.Now}
	if change != nil {
		change(&config)
	}
	return New(config)
}

func mustURL(t *testing.T, raw string) refs.URL {
	t.Helper()
	u, err := refs.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// resolve asks the real server what a name means.
func resolve(t *testing.T, c *Client, rawURL, target string) (refs.Resolution, error) {
	t.Helper()
	name, err := refs.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	advertised, err := c.List(t.Context(), mustURL(t, rawURL), nil, name.Candidates())
	if err != nil {
		return refs.Resolution{}, err
	}
	return refs.Resolve(advertised, name)
}

func wantCommit(t *testing.T, c *Client, rawURL, target, commit string) {
	t.Helper()
	got, err := resolve(t, c, rawURL, target)
	if err != nil || got.Commit != commit {
		t.Errorf("%s at %s is %q, %v; want %s", target, rawURL, got.Commit, err, commit)
	}
}

// servers lists one repository under the URL of each transport.
func servers(t *testing.T, http *gittest.Server, name string) map[string]string {
	t.Helper()
	return map[string]string{
		"http": http.URL + "/" + name,
		"git":  "git://" + gittest.ServeGit(t, http.Root) + "/" + name,
		"ssh":  "ssh://anyone@" + gittest.ServeSSH(t) + filepath.Join(http.Root, name),
	}
}

// C01: an annotated tag is its commit, also through another tag, and follows when it is moved.
func TestC01AnnotatedTags(t *testing.T) {
	server := gittest.NewServer(t)
	repo := gittest.NewRepository(t, server.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	repo.Set("refs/heads/main", b)
	repo.Git("tag", "-a", "v1", "-m", "x", a)
	repo.Git("tag", "-a", "inner", "-m", "x", a)
	repo.Git("tag", "-a", "outer", "-m", "x", "inner")
	c := newTestClient(nil)
	for transport, url := range servers(t, server, "infra.git") {
		t.Run(transport, func(t *testing.T) {
			for range 5 {
				wantCommit(t, c, url, "v1", a)
			}
			wantCommit(t, c, url, "outer", a)
			wantCommit(t, c, url, "refs/tags/outer", a)
		})
	}
	repo.Git("tag", "-f", "-a", "v1", "-m", "moved", b)
	wantCommit(t, c, server.URL+"/infra.git", "v1", b)
}

// C02: a branch and a tag of one name are refused; the full names always work, whichever moves.
func TestC02BranchAndTagOfOneName(t *testing.T) {
	server := gittest.NewServer(t)
	repo := gittest.NewRepository(t, server.Root, "infra.git")
	a := repo.Commit()
	b, c, d := repo.Commit(a), repo.Commit(a), repo.Commit(a)
	repo.Set("refs/heads/release-1.0", a)
	repo.Set("refs/tags/release-1.0", b)
	client, url := newTestClient(nil), server.URL+"/infra.git"
	check := func(branch, tag string) {
		t.Helper()
		_, err := resolve(t, client, url, "release-1.0")
		var ambiguous *refs.AmbiguousError
		if !errors.As(err, &ambiguous) || !strings.Contains(err.Error(), "refs/heads/release-1.0 or refs/tags/release-1.0") {
			t.Errorf("got %v, want an AmbiguousError with both full names", err)
		}
		wantCommit(t, client, url, "refs/heads/release-1.0", branch)
		wantCommit(t, client, url, "refs/tags/release-1.0", tag)
	}
	check(a, b)
	repo.Set("refs/heads/release-1.0", c)
	check(c, b)
	repo.Set("refs/tags/release-1.0", d)
	check(c, d)
}

// C03: names that look like something else, on every transport.
func TestC03NamesThatLookLikeSomethingElse(t *testing.T) {
	server := gittest.NewServer(t)
	repo := gittest.NewRepository(t, server.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	repo.Set("refs/heads/main", a)
	repo.Set("refs/heads/HEAD", b)
	repo.Set("refs/heads/"+a, b)
	repo.Set("refs/tags/20260817", b)
	repo.Set("refs/tags/@name/sub@v1.0.1", b)
	c := newTestClient(nil)
	for transport, url := range servers(t, server, "infra.git") {
		t.Run(transport, func(t *testing.T) {
			wantCommit(t, c, url, "HEAD", a)
			wantCommit(t, c, url, "refs/heads/HEAD", b)
			wantCommit(t, c, url, a, a)
			wantCommit(t, c, url, "refs/heads/"+a, b)
			wantCommit(t, c, url, "20260817", b)
			wantCommit(t, c, url, "@name/sub@v1.0.1", b)
		})
	}
}

// C05: a branch that is moved back is a revision like any other.
func TestC05BranchMovedBack(t *testing.T) {
	server := gittest.NewServer(t)
	repo := gittest.NewRepository(t, server.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	d := repo.Commit(a)
	c, url := newTestClient(nil), server.URL+"/infra.git"
	for _, tip := range []string{a, b, a, d} {
		repo.Set("refs/heads/main", tip)
		wantCommit(t, c, url, "main", tip)
	}
}

// C07 concerns fetching; the listing must work where the server insists on multi_ack for it. C61: no object is ever asked for.
func TestC61TenThousandRefsAndNoObjects(t *testing.T) {
	server := gittest.NewServer(t)
	repo := gittest.NewRepository(t, server.Root, "infra.git")
	a := repo.Commit()
	b := repo.Commit(a)
	names := make([]string, 0, 10_000)
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("refs/heads/team/branch-%05d", i))
	}
	repo.SetMany(names, a)
	repo.Set("refs/heads/team/branch-09999", b)
	c, url := newTestClient(nil), mustURL(t, server.URL+"/infra.git")
	got, err := c.List(t.Context(), url, nil, []string{"refs/heads/team/branch-09999", "refs/heads/team/branch-00000", "refs/heads/none"})
	if err != nil {
		t.Fatal(err)
	}
	want := refs.Advertised{"refs/heads/team/branch-09999": {Object: b}, "refs/heads/team/branch-00000": {Object: a}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v and nothing else", got, want)
	}
	if n := server.Fetches.Load(); n != 0 {
		t.Errorf("objects were asked for %d times", n)
	}
	small := newTestClient(func(c *Config) { c.MaxBytes = 64 << 10 })
	if _, err := small.List(t.Context(), url, nil, []string{"refs/heads/team/branch-00000"}); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v, want errTooLarge: a list cut short must not look like a list", err)
	}
}

func TestEmptyRepositoryHasNoRefs(t *testing.T) {
	server := gittest.NewServer(t)
	gittest.NewRepository(t, server.Root, "empty.git")
	c := newTestClient(nil)
	for transport, url := range servers(t, server, "empty.git") {
		t.Run(transport, func(t *testing.T) {
			var notFound *refs.NotFoundError
			if _, err := resolve(t, c, url, "main"); !errors.As(err, &notFound) {
				t.Errorf("got %v, want NotFoundError", err)
			}
			if _, err := resolve(t, c, url, "HEAD"); !errors.As(err, &notFound) {
				t.Errorf("HEAD: got %v, want NotFoundError", err)
			}
		})
	}
}

func TestNoSuchRepositoryIsNotAMissingRevision(t *testing.T) {
	server := gittest.NewServer(t)
	gittest.NewRepository(t, server.Root, "infra.git")
	c := newTestClient(nil)
	for transport, url := range servers(t, server, "other.git") {
		t.Run(transport, func(t *testing.T) {
			_, err := resolve(t, c, url, "main")
			var notFound *refs.NotFoundError
			if err == nil || errors.As(err, &notFound) {
				t.Fatalf("got %v, want an error of the remote", err)
			}
			if !strings.Contains(err.Error(), "repositor") {
				t.Errorf("%q does not say what is missing", err)
			}
		})
	}
}

func TestSSHPathIsOneArgument(t *testing.T) {
	root := t.TempDir()
	repo := gittest.NewRepository(t, root, "it's $(touch x); `id` a.git")
	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	u := mustURL(t, "ssh://"+gittest.ServeSSH(t)+"/x")
	u.Path = repo.Dir
	got, err := newTestClient(nil).List(t.Context(), u, nil, []string{"refs/heads/main"})
	if err != nil || got["refs/heads/main"].Object != a {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestSchemesAreAnAllowList(t *testing.T) {
	c := newTestClient(func(c *Config) { c.Schemes = []string{"https"} })
	for _, raw := range []string{"http://example.com/x", "ssh://example.com/x", "git@example.com:x", "git://example.com/x", "file://localhost/x", "ext://example.com/x"} {
		var refused *SchemeError
		if _, err := c.List(t.Context(), mustURL(t, raw), nil, nil); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want SchemeError", raw, err)
		}
	}
}

func TestLocalAddressesAreRefused(t *testing.T) {
	server := gittest.NewServer(t)
	gittest.NewRepository(t, server.Root, "infra.git")
	c := newTestClient(func(c *Config) { c.AllowLocalAddresses = false })
	urls := servers(t, server, "infra.git")
	urls["a name"] = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/infra.git"
	for transport, url := range urls {
		if _, err := resolve(t, c, url, "main"); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: got %v, want a refusal", transport, err)
		}
	}
	if n := server.Listings.Load(); n != 0 {
		t.Errorf("the server was reached %d times", n)
	}
}

func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true, "[::ffff:0.1.2.3]:80": true, "0.0.0.0:80": true, "0.1.2.3:80": true, "[::]:80": true, "169.254.169.254:80": true,
		"[fe80::1%eth0]:80": true, "[fd00:ec2::254]:80": true, "100.100.100.200:80": true, "[64:ff9b::7f00:1]:80": true, "[64:ff9b::a9fe:a9fe]:80": true, "224.0.0.1:80": true,
		"255.255.255.255:80": true, "10.0.0.1:80": false, "192.168.1.1:80": false, "140.82.121.3:443": false, "[2606:50c0::1]:443": false, "[64:ff9b::8c52:7903]:443": false,
	} {
		if err := checkAddress(address); (err != nil) != want {
			t.Errorf("checkAddress(%s) = %v, want refused: %v", address, err, want)
		}
	}
}

func TestRedirects(t *testing.T) {
	server := gittest.NewServer(t)
	repo := gittest.NewRepository(t, server.Root, "infra.git")
	a := repo.Commit()
	repo.Set("refs/heads/main", a)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/moved.git": server.URL + "/infra.git/info/refs?service=git-upload-pack", "/login.git": server.URL + "/infra.git/HEAD", "/loop.git": "/loop.git/info/refs",
			"/ssh.git": "ssh://example.com/x", "/file.git": "file:///etc/passwd", "/user.git": strings.Replace(server.URL, "http://", "http://u@", 1) + "/infra.git/info/refs?service=git-upload-pack",
		}[strings.TrimSuffix(r.URL.Path, "/info/refs")]
		http.Redirect(w, r, to, http.StatusFound)
	}))
	t.Cleanup(front.Close)
	c := newTestClient(func(c *Config) { c.Schemes = []string{"http"} })
	wantCommit(t, c, front.URL+"/moved.git", "main", a)
	for path, says := range map[string]string{
		"/login.git": "no repository", "/loop.git": "redirects", "/ssh.git": "not allowed", "/file.git": "not allowed", "/user.git": "user",
	} {
		if _, err := resolve(t, c, front.URL+path, "main"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an error with %q", path, err, says)
		}
	}
	https := httptest.NewRequest(http.MethodGet, "https://example.com/x", nil)
	plain := httptest.NewRequest(http.MethodGet, "http://example.com/x", nil)
	if checkRedirect(plain, https, 1, Schemes) == nil || checkRedirect(https, plain, 1, Schemes) != nil {
		t.Error("https must not lead to http; http may lead to https")
	}
}

func TestWhatIsNoGitServerSaysSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/page"):
			_, _ = io.WriteString(w, "<html>Sign in</html>")
		case strings.HasPrefix(r.URL.Path, "/private"):
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/broken"):
			http.Error(w, "out of\x1b[31m disk", http.StatusInternalServerError)
		case strings.HasPrefix(r.URL.Path, "/junk"):
			w.Header().Set("Content-Type", advertisementType)
			_, _ = io.WriteString(w, "000fhello there")
		case strings.HasPrefix(r.URL.Path, "/cut"):
			w.Header().Set("Content-Type", advertisementType)
			_, _ = io.WriteString(w, "003daaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/heads/main\n")
		case strings.HasPrefix(r.URL.Path, "/err"):
			w.Header().Set("Content-Type", advertisementType)
			_, _ = io.WriteString(w, "0015ERR access denied")
		}
	}))
	t.Cleanup(server.Close)
	c := newTestClient(nil)
	for path, says := range map[string]string{
		"/page": "smart HTTP", "/private": "credentials", "/broken": "500 Internal Server Error: out of [31m disk", "/junk": "no list of refs", "/cut": "ends before", "/err": "the server says: access denied",
	} {
		if _, err := resolve(t, c, server.URL+path, "main"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an error with %q", path, err, says)
		}
	}
}

// A server that accepts and then says nothing, by each protocol: the caller gets its answer all the same.
func TestSilentServerTimesOut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	c := newTestClient(func(c *Config) { c.Timeout = 50 * time.Millisecond })
	for _, scheme := range []string{"http", "git", "ssh"} {
		_, err := c.List(t.Context(), mustURL(t, scheme+"://"+listener.Addr().String()+"/x"), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "no complete answer within 50ms") {
			t.Errorf("%s: got %v, want a timeout", scheme, err)
		}
	}
}

func TestCallerMayGiveUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			cancel()
			_ = conn.Close()
		}
	}()
	if _, err := newTestClient(nil).List(ctx, mustURL(t, "http://"+listener.Addr().String()+"/x"), nil, nil); err == nil {
		t.Error("a cancelled listing succeeded")
	}
}
