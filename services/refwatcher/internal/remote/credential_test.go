package remote

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"magosproject.io/internal/githubapp/githubapptest"
	"magosproject.io/internal/repocreds"
	"magosproject.io/services/refwatcher/internal/gittest"
)

// credential parses the Secret "deploy" with these pairs of keys and values.
func credential(t *testing.T, pairs ...string) *repocreds.Credential {
	t.Helper()
	data := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	c, err := repocreds.Parse(repocreds.Secret{Name: "deploy", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func basicCredential(t *testing.T, url, password string) *repocreds.Credential {
	t.Helper()
	return credential(t, repocreds.KeyRepoURL, url, repocreds.KeyUsername, "robot", repocreds.KeyPassword, password)
}

// repository serves infra.git with one commit on main behind a lock.
func repository(t *testing.T, accept func(username, password string) bool) (*gittest.Locked, string) {
	t.Helper()
	git := gittest.NewServer(t)
	repo := gittest.NewRepository(t, git.Root, "infra.git")
	commit := repo.Commit()
	repo.Set("refs/heads/main", commit)
	return &gittest.Locked{Next: git.Handler(t), Accept: accept}, commit
}

const pass = "pa:ss ß-T0KEN"

func robot(username, password string) bool { return username == "robot" && password == pass }

func wantRefused(t *testing.T, err error, words ...string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("got %v, want a RefusedError", err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "T0KEN") {
		t.Errorf("%q shows the credential", err)
	}
}

func TestBasicCredential(t *testing.T) {
	locked, commit := repository(t, robot)
	server := httptest.NewServer(locked)
	defer server.Close()
	c, url := newTestClient(nil), mustURL(t, server.URL+"/infra.git")
	got, err := c.List(t.Context(), url, basicCredential(t, server.URL, pass), []string{"refs/heads/main"})
	if err != nil || got["refs/heads/main"].Object != commit {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = c.List(t.Context(), url, nil, nil)
	wantRefused(t, err, "asks for credentials (401")
	_, err = c.List(t.Context(), url, basicCredential(t, server.URL, "wrong T0KEN"), nil)
	wantRefused(t, err, "does not accept the credential in Secret deploy (401")
	// The user of a URL is no credential.
	_, err = c.List(t.Context(), mustURL(t, strings.Replace(server.URL, "://", "://robot@", 1)+"/infra.git"), nil, nil)
	wantRefused(t, err, "asks for credentials")
	if seen := locked.Seen(); seen[len(seen)-1] != "" {
		t.Errorf("sent %q", seen[len(seen)-1])
	}
}

// A credential goes to the host that it is for. A redirect to another host, port or scheme does not take it along, not even back home; one on the same
// host does.
func TestACredentialCrossesNoRedirect(t *testing.T) {
	locked, commit := repository(t, func(string, string) bool { return true })
	home := httptest.NewServer(nil)
	defer home.Close()
	thief := httptest.NewServer(nil)
	defer thief.Close()
	var stolen []string
	thief.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.Header.Get("Authorization"))
		http.Redirect(w, r, home.URL+"/infra.git/info/refs?service=git-upload-pack", http.StatusFound)
	})
	home.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/away/"):
			http.Redirect(w, r, thief.URL+"/infra.git/info/refs?service=git-upload-pack", http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, "/renamed/"):
			http.Redirect(w, r, "/infra.git/info/refs?service=git-upload-pack", http.StatusMovedPermanently)
		default:
			locked.ServeHTTP(w, r)
		}
	})
	c := newTestClient(nil)
	got, err := c.List(t.Context(), mustURL(t, home.URL+"/renamed"), basicCredential(t, home.URL, pass), []string{"refs/heads/main"})
	if err != nil || got["refs/heads/main"].Object != commit {
		t.Errorf("renamed on the same host: %v, %v", got, err)
	}
	_, err = c.List(t.Context(), mustURL(t, home.URL+"/away"), basicCredential(t, home.URL, pass), nil)
	wantRefused(t, err, "401")
	if len(stolen) != 1 || stolen[0] != "" {
		t.Errorf("the other host got %q", stolen)
	}
	if seen := locked.Seen(); len(seen) != 2 || seen[1] != "" {
		t.Errorf("the credential came back by way of another host: %d requests", len(seen))
	}
}

func TestGitHubAppCredential(t *testing.T) {
	api := githubapptest.New(t, time.Now, time.Hour)
	locked, commit := repository(t, func(username, password string) bool { return username == "x-access-token" && api.Valid(password) })
	server := httptest.NewServer(locked)
	defer server.Close()
	c, url := newTestClient(nil), mustURL(t, server.URL+"/infra.git")
	app := func(id string) *repocreds.Credential {
		return credential(t, repocreds.KeyRepoURL, server.URL, repocreds.KeyGitHubAppID, id, repocreds.KeyGitHubAppInstallationID, api.InstallationID,
			repocreds.KeyGitHubAppPrivateKey, api.KeyPEM, repocreds.KeyGitHubAppBaseURL, api.URL)
	}
	for range 3 {
		got, err := c.List(t.Context(), url, app(api.AppID), []string{"refs/heads/main"})
		if err != nil || got["refs/heads/main"].Object != commit {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if api.Asked() != 1 {
		t.Errorf("%d tokens for three listings", api.Asked())
	}
	// A token that is not accepted any more is replaced at once.
	api.Revoke()
	if _, err := c.List(t.Context(), url, app(api.AppID), nil); err != nil || api.Asked() != 2 {
		t.Errorf("after a revocation: %v, %d tokens", err, api.Asked())
	}
	_, err := c.List(t.Context(), url, app("99"), nil)
	if err == nil || !strings.Contains(err.Error(), "Secret deploy") || !strings.Contains(err.Error(), "GitHub App 99") || strings.Contains(err.Error(), "ghs_") {
		t.Errorf("got %v", err)
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header string
		busy   bool
		want   time.Duration
	}{
		"too many requests": {http.StatusTooManyRequests, "120", false, 2 * time.Minute}, "GitHub's way to say it": {http.StatusForbidden, "60", false, time.Minute},
		"down": {http.StatusServiceUnavailable, "7", true, 7 * time.Second}, "down without a word": {http.StatusBadGateway, "", true, 0}, "nonsense": {http.StatusServiceUnavailable, "soon", true, 0},
		"a date": {http.StatusServiceUnavailable, "Thu, 01 Jan 2026 00:01:30 GMT", true, 90 * time.Second}, "a date that has passed": {http.StatusServiceUnavailable, "Thu, 01 Jan 2025 00:00:00 GMT", true, 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", test.header)
			if test.header == "" {
				w.Header().Del("Retry-After")
			}
			w.WriteHeader(test.status)
		}))
		c := newTestClient(func(config *Config) {
			config.Now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
		})
		_, err := c.List(t.Context(), mustURL(t, server.URL+"/x"), nil, nil)
		server.Close()
		var refused *RefusedError
		var busy *BusyError
		switch {
		case errors.As(err, &busy) && test.busy && busy.RetryAfter == test.want:
		case errors.As(err, &refused) && !test.busy && refused.RetryAfter == test.want:
		default:
			t.Errorf("%s: %v", name, err)
		}
		// People see it too.
		if says := strings.Contains(fmt.Sprint(err), "it asks to be left alone for "+test.want.String()); says != (test.want > 0) {
			t.Errorf("%s: says %v", name, err)
		}
	}
}

func sshURL(t *testing.T, address, path string) string {
	t.Helper()
	return "ssh://git@" + address + path
}

// sshRepository has one commit on main, at its path on the disk.
func sshRepository(t *testing.T) (path, commit string) {
	t.Helper()
	repo := gittest.NewRepository(t, t.TempDir(), "infra.git")
	commit = repo.Commit()
	repo.Set("refs/heads/main", commit)
	return repo.Dir, commit
}

func TestSSHCredential(t *testing.T) {
	path, commit := sshRepository(t)
	host, _ := gittest.Ed25519Key(t)
	user, key := gittest.Ed25519Key(t)
	_, stranger := gittest.RSAKey(t)
	server := gittest.NewSSHServer(t, []ssh.Signer{host}, func() []ssh.PublicKey { return []ssh.PublicKey{user.PublicKey()} })
	raw := sshURL(t, server.Address, path)
	known := knownhosts.Line([]string{server.Address}, host.PublicKey())
	c, url := newTestClient(nil), mustURL(t, raw)
	for name, hosts := range map[string]string{
		"plain": known, "hashed": knownhosts.Line([]string{knownhosts.HashHostname(knownhosts.Normalize(server.Address))}, host.PublicKey()),
		"a pattern": "[127.0.0.*]:* " + strings.SplitN(known, " ", 2)[1], "among others": "# mine\nother.example.com " + strings.SplitN(known, " ", 2)[1] + "\n" + known,
	} {
		got, err := c.List(t.Context(), url, credential(t, repocreds.KeyRepoURL, raw, repocreds.KeySSHPrivateKey, key, repocreds.KeyKnownHosts, hosts), []string{"refs/heads/main"})
		if err != nil || got["refs/heads/main"].Object != commit {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	got, err := c.List(t.Context(), url, credential(t, repocreds.KeyRepoURL, raw, repocreds.KeySSHPrivateKey, key), []string{"refs/heads/main"})
	if err != nil || got["refs/heads/main"].Object != commit {
		t.Errorf("without known hosts: %v, %v", got, err)
	}
	_, err = c.List(t.Context(), url, credential(t, repocreds.KeyRepoURL, raw, repocreds.KeySSHPrivateKey, stranger, repocreds.KeyKnownHosts, known), nil)
	wantRefused(t, err, "as git with the key in Secret deploy")
}

// C09: a host key that is not the known one is named, with its type, its fingerprint and the Secret to mend, also where the server has no key of a known
// type at all. Only known types are asked for, so that a further key of the server is no mismatch.
func TestC09HostKeys(t *testing.T) {
	path, commit := sshRepository(t)
	rsaHost, _ := gittest.RSAKey(t)
	edHost, _ := gittest.Ed25519Key(t)
	newHost, _ := gittest.Ed25519Key(t)
	user, key := gittest.Ed25519Key(t)
	authorized := func() []ssh.PublicKey { return []ssh.PublicKey{user.PublicKey()} }
	both := gittest.NewSSHServer(t, []ssh.Signer{rsaHost, edHost}, authorized)
	only := gittest.NewSSHServer(t, []ssh.Signer{newHost}, authorized)
	line := func(address string, key ssh.Signer) string {
		return knownhosts.Line([]string{address}, key.PublicKey()) + "\n"
	}
	fingerprint := ssh.FingerprintSHA256(newHost.PublicKey())
	for name, test := range map[string]struct {
		address, hosts string
		words          []string
	}{
		"a server with more keys than are known": {address: both.Address, hosts: line(both.Address, rsaHost)},
		"the other one of its keys":              {address: both.Address, hosts: line(both.Address, edHost)},
		"a key that was rotated":                 {only.Address, line(only.Address, edHost), []string{only.Address, "ssh-ed25519", fingerprint, "Secret deploy", "it has ssh-ed25519"}},
		"a key of another type":                  {only.Address, line(only.Address, rsaHost), []string{only.Address, "ssh-ed25519", fingerprint, "Secret deploy", "it has ssh-rsa"}},
		"a host that is not listed":              {only.Address, line("other.example.com", newHost), []string{only.Address, "ssh-ed25519", fingerprint, "Secret deploy", "none for this host"}},
		"a host that is excluded":                {only.Address, "[127.0.0.1]:*,!" + line(only.Address, newHost), []string{fingerprint, "none for this host"}},
		"a key that is revoked":                  {only.Address, line(only.Address, newHost) + "@revoked " + line(only.Address, newHost), []string{fingerprint, "@revoked", "Secret deploy"}},
	} {
		raw := sshURL(t, test.address, path)
		got, err := newTestClient(nil).List(t.Context(), mustURL(t, raw),
			credential(t, repocreds.KeyRepoURL, raw, repocreds.KeySSHPrivateKey, key, repocreds.KeyKnownHosts, test.hosts), []string{"refs/heads/main"})
		if test.words != nil {
			if err == nil {
				t.Errorf("%s: it is trusted", name)
				continue
			}
			wantRefused(t, err, test.words...)
		} else if err != nil || got["refs/heads/main"].Object != commit {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestHostCertificates(t *testing.T) {
	path, commit := sshRepository(t)
	authorityKey, _ := gittest.Ed25519Key(t)
	host, _ := gittest.Ed25519Key(t)
	user, key := gittest.Ed25519Key(t)
	certify := func(principal string) ssh.Signer {
		certificate := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{principal}, ValidBefore: ssh.CertTimeInfinity}
		if err := certificate.SignCert(strings.NewReader(strings.Repeat("x", 4096)), authorityKey); err != nil {
			t.Fatal(err)
		}
		s, err := ssh.NewCertSigner(certificate, host)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for principal, good := range map[string]bool{"127.0.0.1": true, "other.example.com": false} {
		server := gittest.NewSSHServer(t, []ssh.Signer{certify(principal)}, func() []ssh.PublicKey { return []ssh.PublicKey{user.PublicKey()} })
		raw := sshURL(t, server.Address, path)
		hosts := "@cert-authority " + knownhosts.Line([]string{server.Address}, authorityKey.PublicKey())
		got, err := newTestClient(nil).List(t.Context(), mustURL(t, raw), credential(t, repocreds.KeyRepoURL, raw, repocreds.KeySSHPrivateKey, key, repocreds.KeyKnownHosts, hosts), []string{"refs/heads/main"})
		if good != (err == nil && got["refs/heads/main"].Object == commit) {
			t.Errorf("a certificate for %s: %v, %v", principal, got, err)
		}
	}
}
