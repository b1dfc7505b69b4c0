package gitauth

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/repocreds"
)

const planted = "planted-s3cret"

// secrets lays Secrets out as the kubelet does, with its links.
func secrets(t *testing.T, folder string, all map[string]map[string]string) {
	t.Helper()
	for secret, data := range all {
		for key, value := range data {
			name := filepath.Join(folder, "..2026", secret, key)
			must(t, os.MkdirAll(filepath.Dir(name), 0o755))
			must(t, os.WriteFile(name, []byte(value), 0o640))
		}
		if err := os.Symlink(filepath.Join("..2026", secret), filepath.Join(folder, secret)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, all map[string]map[string]string) (*Agent, Config, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	root, err := os.MkdirTemp("", "agent-")
	must(t, err)
	cfg := Config{Secrets: filepath.Join(root, "secrets"), Memory: filepath.Join(root, "memory"), Client: http.DefaultClient, Log: slog.New(slog.NewTextHandler(log, nil))}
	secrets(t, cfg.Secrets, all)
	agent, err := Start(cfg)
	must(t, err)
	t.Cleanup(func() {
		_ = agent.Close()
		_ = os.RemoveAll(root)
	})
	return agent, cfg, log
}

// asGit asks the helper as git does.
func asGit(t *testing.T, a *Agent, operation, url string) string {
	t.Helper()
	protocol, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	var stdout, stderr bytes.Buffer
	code, called := Called([]string{ArgHelper, a.socket(), operation},
		strings.NewReader(fmt.Sprintf("protocol=%s\nhost=%s\npath=%s\n\n", protocol, host, path)), &stdout, &stderr)
	if !called || code != 0 {
		t.Errorf("called %v, ended with %d: %s", called, code, &stderr)
	}
	return strings.ReplaceAll(strings.TrimSpace(stdout.String()), "\n", " ")
}

func TestEachURLGetsItsOwnCredentialAndNoOther(t *testing.T) {
	a, cfg, _ := start(t, map[string]map[string]string{
		"host": {"repoURL": "https://git.example.com", "username": "bot", "password": planted},
		"team": {"repoURL": "https://git.example.com/team", "username": "team", "password": "team-pw"},
		"port": {"repoURL": "http://git.example.com:8080/x", "username": "p", "password": "port-pw"},
		"bad":  {"repoURL": "https://bad.example.com", "username": "x"},
		"keys": {"repoURL": "ssh://git@git.example.com", "sshPrivateKey": "none"},
	})
	for url, want := range map[string]string{
		"https://git.example.com/any/repo.git":       "username=bot password=" + planted,
		"https://GIT.example.com:443/any/repo.git":   "username=bot password=" + planted,
		"https://git.example.com/team/repo":          "username=team password=team-pw",
		"https://git.example.com/teamwork/repo":      "username=bot password=" + planted,
		"http://git.example.com/any/repo":            "",
		"http://git.example.com:8080/x/y":            "username=p password=port-pw",
		"https://git.example.com:8443/any":           "",
		"https://evil.example.com/any":               "",
		"https://git.example.com.evil.org/any":       "",
		"https://bad.example.com/x":                  "quit=1",
		"https://git.example.com@evil.example.com/x": "",
		"cert://git.example.com/any":                 "",
	} {
		if got := asGit(t, a, "get", url); got != want {
			t.Errorf("%s gets %q, want %q", url, got, want)
		}
	}
	if got := asGit(t, a, "store", "https://git.example.com/any"); got != "" {
		t.Errorf("store answers %q", got)
	}
	secrets(t, cfg.Secrets, map[string]map[string]string{"host": {"password": "rotated-pw"}})
	if got := asGit(t, a, "get", "https://git.example.com/any"); got != "username=bot password=rotated-pw" {
		t.Errorf("after a rotation: %q", got)
	}
	if text := a.Forms().String("x " + planted + " rotated-pw"); text != "x (masked) (masked)" {
		t.Errorf("masked: %q", text)
	}
}

func TestWhatTheAgentFoundOutIsSaid(t *testing.T) {
	a, _, _ := start(t, map[string]map[string]string{
		"host": {"repoURL": "https://git.example.com", "username": "bot", "password": planted},
		"bad":  {"repoURL": "https://bad.example.com", "username": "x"},
		"lost": {"username": "x", "password": "y"},
	})
	plain := errors.New("git fetch: exit status 128")
	if got := a.Explain(plain); got.Error() != plain.Error() {
		t.Errorf("nothing to say: %v", got)
	}
	asGit(t, a, "get", "https://git.example.com/r")
	asGit(t, a, "erase", "https://git.example.com/r")
	asGit(t, a, "get", "https://other.example.com/r")
	asGit(t, a, "get", "https://bad.example.com/r")
	got := a.Explain(plain)
	for _, part := range []string{"git.example.com:443 did not accept the credential in Secret host", "https://other.example.com/r wants a credential",
		v1alpha1.LabelSecretType + "=" + v1alpha1.SecretTypeRepository, "Secret lost cannot be used", "Secret bad cannot be used: key password is missing", "exit status 128"} {
		if !strings.Contains(got.Error(), part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
	if !errors.Is(got, plain) || strings.Contains(got.Error(), planted) {
		t.Errorf("it says %v", got)
	}
	a.Forget()
	if got := a.Explain(plain); got.Error() != plain.Error() {
		t.Errorf("forgotten: %v", got)
	}
}

func TestNothingIsLeftInMemoryAndNothingAnswersAfterTheEnd(t *testing.T) {
	a, cfg, _ := start(t, nil)
	must(t, os.WriteFile(filepath.Join(cfg.Memory, "key-x"), []byte(planted), 0o600))
	socket := a.socket()
	must(t, a.Close())
	if left, err := os.ReadDir(cfg.Memory); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := ask(socket, question{Op: opLogin, URL: "https://h/x"}); err == nil {
		t.Error("somebody answered")
	}
}

func TestArgumentsOfSSHAreReadAsGitWritesThem(t *testing.T) {
	for line, want := range map[string]string{
		"-o SendEnv=GIT_PROTOCOL git@h|git-upload-pack 'org/repo.git'":      "ssh://git@h/org/repo.git",
		"-o SendEnv=GIT_PROTOCOL -p 2222 h|git-upload-pack '/org/repo.git'": "ssh://h:2222/org/repo.git",
		"-i /tmp/key git@h|git-upload-pack '/it'\\''s/a b'":                 "ssh://git@h/it's/a%20b",
		"-p 22 u@[::1]|git-upload-pack '/x'":                                "ssh://u@[::1]:22/x",
		"-4 git@h|git-upload-pack '~/x'":                                    "ssh://git@h/~/x",
	} {
		options, command, _ := strings.Cut(line, "|")
		got, err := parseSSH(append(strings.Fields(options), command))
		if err != nil || got.url() != want {
			t.Errorf("%s: %q, %v; want %q", line, got.url(), err, want)
		}
	}
	for _, args := range [][]string{{}, {"h"}, {"-p", "22"}, {"-oProxyCommand=x"}, {"--", "-oProxyCommand=x", "cmd"}} {
		if got, err := parseSSH(args); err == nil {
			t.Errorf("%q became %+v", args, got)
		}
	}
}

// A tool that fetches modules can read files. ssh can do without the key: it gets signatures. The words for the label are those of the API.
func TestAnSSHKeyLiesInNoFile(t *testing.T) {
	if labelKey != v1alpha1.LabelSecretType || labelValue != v1alpha1.SecretTypeRepository {
		t.Errorf("the label is %s=%s", v1alpha1.LabelSecretType, v1alpha1.SecretTypeRepository)
	}
	a, cfg, log := start(t, nil)
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	must(t, err)
	key := pem.EncodeToMemory(block)
	given := a.key(&repocreds.Credential{Secret: "s", SSH: &repocreds.SSH{PrivateKey: key}})
	if filepath.Dir(given.Agent) != cfg.Memory || given.KnownHosts != "" || given.Error != "" {
		t.Fatalf("%+v", given)
	}
	connection, err := net.Dial("unix", given.Agent)
	must(t, err)
	client := agent.NewClient(connection)
	want, err := ssh.NewPublicKey(public)
	must(t, err)
	signature, err := client.Sign(want, []byte("data"))
	if err != nil || want.Verify([]byte("data"), signature) != nil {
		t.Errorf("signed %v, %v", signature, err)
	}
	if err := client.RemoveAll(); err == nil {
		t.Error("the key can be taken away")
	}
	must(t, connection.Close())
	entries, err := os.ReadDir(cfg.Memory)
	must(t, err)
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			t.Errorf("the file %s was laid out", entry.Name())
		}
	}
	a.key(&repocreds.Credential{Secret: "s", SSH: &repocreds.SSH{PrivateKey: key}})
	if n := strings.Count(log.String(), "host keys are not verified"); n != 1 {
		t.Errorf("warned %d times: %s", n, log)
	}
	given = a.key(&repocreds.Credential{Secret: "s", SSH: &repocreds.SSH{PrivateKey: key, KnownHosts: []byte("h ssh-ed25519 x\n")}})
	if data, err := os.ReadFile(given.KnownHosts); err != nil || string(data) != "h ssh-ed25519 x\n" {
		t.Errorf("known hosts: %q, %v", data, err)
	}
}
