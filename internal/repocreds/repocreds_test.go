package repocreds

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"magosproject.io/internal/refs"
)

const hostKey = "git.example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKx5FqtB0vjbBVlxTXLHcP5VT6HLmrYzEXSBLhbDwhsR\n"

func sshKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func rsaKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func secret(name string, pairs ...string) Secret {
	s := Secret{Name: name, Data: map[string][]byte{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return s
}

func basic(name, url string) Secret {
	return secret(name, KeyRepoURL, url, KeyUsername, "u", KeyPassword, "p-"+name)
}

func mustURL(t *testing.T, raw string) refs.URL {
	t.Helper()
	url, err := refs.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func TestTheLongestPrefixWins(t *testing.T) {
	key := sshKey(t)
	ssh := func(name, url string) Secret { return secret(name, KeyRepoURL, url, KeySSHPrivateKey, key) }
	set := NewSet([]Secret{
		basic("host", "https://git.example.com"), basic("group", "https://git.example.com/acme/"), basic("one", "https://git.example.com/acme/infra.git"),
		basic("port", "https://git.example.com:8443/acme"), basic("plain", "http://git.example.com/acme"), basic("user", "https://someone@other.example.com/acme"),
		ssh("ssh-host", "ssh://git.example.com"), ssh("ssh-group", "git@git.example.com:acme"), ssh("ssh-deploy", "deploy@git.example.com:acme"),
		ssh("ssh-port", "ssh://git@git.example.com:2222/acme"),
	})
	for url, want := range map[string]string{
		"https://git.example.com/acme/infra":              "one",
		"https://git.example.com/acme/infra.git":          "one",
		"https://GIT.example.com:443/acme/infra.git/":     "one",
		"https://git.example.com/acme/infra/sub":          "one",
		"https://git.example.com/acme/infrastructure.git": "group",
		"https://git.example.com/acme/other":              "group",
		"https://git.example.com/acme2/other":             "host",
		"https://git.example.com/other":                   "host",
		"https://me@git.example.com/acme/other":           "group",
		"https://git.example.com:8443/acme/x":             "port",
		"https://git.example.com:8443/x":                  "",
		"http://git.example.com/acme/x":                   "plain",
		"http://git.example.com/x":                        "",
		"https://other.example.com/acme/x":                "user",
		"https://git.example.com.evil.example/acme/x":     "",
		"https://evil.example/git.example.com/acme/x":     "",
		"git://git.example.com/acme/x":                    "",
		"git@git.example.com:acme/infra.git":              "ssh-group",
		"ssh://git@git.example.com/acme/infra.git":        "ssh-group",
		"ssh://git.example.com/acme/infra":                "ssh-group",
		"deploy@git.example.com:acme/infra":               "ssh-deploy",
		"other@git.example.com:acme/infra":                "ssh-host",
		"git@git.example.com:acmeinc/infra":               "ssh-host",
		"ssh://git@git.example.com:2222/acme/infra":       "ssh-port",
	} {
		got, err := set.For(mustURL(t, url))
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		name := ""
		if got != nil {
			name = got.Secret
		}
		if name != want {
			t.Errorf("%s: Secret %q, want %q", url, name, want)
		}
	}
}

func TestTwoSecretsForOneURLAreRefusedByName(t *testing.T) {
	url := mustURL(t, "https://git.example.com/acme/infra")
	for name, second := range map[string]Secret{
		"the same spelling": basic("b", "https://git.example.com/acme"),
		"another spelling":  basic("b", "https://Git.example.com:443/acme/"),
		"a malformed one":   secret("b", KeyRepoURL, "https://git.example.com/acme"),
	} {
		_, err := NewSet([]Secret{second, basic("a", "https://git.example.com/acme")}).For(url)
		var ambiguous *AmbiguousError
		if !errors.As(err, &ambiguous) || strings.Join(ambiguous.Secrets, " ") != "a b" || !strings.Contains(err.Error(), "https://git.example.com/acme") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One that is for the repository itself ends the doubt.
	got, err := NewSet([]Secret{basic("a", "https://git.example.com/acme"), basic("b", "https://git.example.com/acme"), basic("c", url.String())}).For(url)
	if err != nil || got.Secret != "c" {
		t.Errorf("got %v, %v", got, err)
	}
}

// A Secret that cannot be used is an error for the repositories that it is for; it is neither skipped for a shorter prefix nor for none at all.
func TestAMalformedSecretNeverFallsBack(t *testing.T) {
	set := NewSet([]Secret{basic("good", "https://git.example.com"), secret("bad", KeyRepoURL, "https://git.example.com/acme", KeyUsername, "u")})
	got, err := set.For(mustURL(t, "https://git.example.com/acme/infra"))
	var malformed *MalformedError
	if !errors.As(err, &malformed) || malformed.Secret != "bad" || malformed.Key != KeyPassword || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := set.For(mustURL(t, "https://git.example.com/other")); err != nil || got.Secret != "good" {
		t.Errorf("another repository: %v, %v", got, err)
	}
	set = NewSet([]Secret{secret("lost", KeyUsername, "u", KeyPassword, "p")})
	if got, err := set.For(mustURL(t, "https://git.example.com/acme/infra")); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if unusable := set.Unusable(); len(unusable) != 1 || unusable[0].Secret != "lost" || unusable[0].Key != KeyRepoURL {
		t.Errorf("unusable: %v", unusable)
	}
}

func TestParseNamesSecretAndKey(t *testing.T) {
	key, app := sshKey(t), rsaKey(t)
	block, err := ssh.MarshalPrivateKeyWithPassphrase(ed25519.NewKeyFromSeed(make([]byte, 32)), "", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	locked := string(pem.EncodeToMemory(block))
	const https, overSSH = "https://git.example.com/acme", "git@git.example.com:acme"
	for name, c := range map[string]struct {
		secret Secret
		key    string
	}{
		"no URL":                       {secret("s", KeyUsername, "u", KeyPassword, "topsecret"), KeyRepoURL},
		"a URL with a password":        {secret("s", KeyRepoURL, "https://u:topsecret@git.example.com/x", KeyUsername, "u", KeyPassword, "topsecret"), KeyRepoURL},
		"nothing but a URL":            {secret("s", KeyRepoURL, https), KeyPassword},
		"nothing but a URL, ssh":       {secret("s", KeyRepoURL, overSSH), KeySSHPrivateKey},
		"no user":                      {secret("s", KeyRepoURL, https, KeyPassword, "topsecret"), KeyUsername},
		"an empty password":            {secret("s", KeyRepoURL, https, KeyUsername, "u", KeyPassword, ""), KeyPassword},
		"a password that is a newline": {secret("s", KeyRepoURL, https, KeyUsername, "u", KeyPassword, "\n"), KeyPassword},
		"a password of two lines":      {secret("s", KeyRepoURL, https, KeyUsername, "u", KeyPassword, "topsecret\nb"), KeyPassword},
		"a user with a colon":          {secret("s", KeyRepoURL, https, KeyUsername, "u:v", KeyPassword, "topsecret"), KeyUsername},
		"a password over ssh":          {secret("s", KeyRepoURL, overSSH, KeyUsername, "u", KeyPassword, "topsecret"), KeyPassword},
		"an ssh key over https":        {secret("s", KeyRepoURL, https, KeySSHPrivateKey, key), KeySSHPrivateKey},
		"C09: password and ssh key":    {secret("s", KeyRepoURL, https, KeyUsername, "u", KeyPassword, "topsecret", KeySSHPrivateKey, key), KeySSHPrivateKey},
		"no ssh key":                   {secret("s", KeyRepoURL, overSSH, KeySSHPrivateKey, "topsecret"), KeySSHPrivateKey},
		"a locked ssh key":             {secret("s", KeyRepoURL, overSSH, KeySSHPrivateKey, locked), KeySSHPrivateKey},
		"C09: empty knownHosts":        {secret("s", KeyRepoURL, overSSH, KeySSHPrivateKey, key, KeyKnownHosts, ""), KeyKnownHosts},
		"knownHosts of comments":       {secret("s", KeyRepoURL, overSSH, KeySSHPrivateKey, key, KeyKnownHosts, "# none\n\n"), KeyKnownHosts},
		"knownHosts of nonsense":       {secret("s", KeyRepoURL, overSSH, KeySSHPrivateKey, key, KeyKnownHosts, hostKey+"topsecret\n"), KeyKnownHosts},
		"no app ID":                    {secret("s", KeyRepoURL, https, KeyGitHubAppInstallationID, "2", KeyGitHubAppPrivateKey, app), KeyGitHubAppID},
		"an app ID in words":           {secret("s", KeyRepoURL, https, KeyGitHubAppID, "topsecret", KeyGitHubAppInstallationID, "2", KeyGitHubAppPrivateKey, app), KeyGitHubAppID},
		"a path as installation":       {secret("s", KeyRepoURL, https, KeyGitHubAppID, "1", KeyGitHubAppInstallationID, "../2", KeyGitHubAppPrivateKey, app), KeyGitHubAppInstallationID},
		"an app key of another kind":   {secret("s", KeyRepoURL, https, KeyGitHubAppID, "1", KeyGitHubAppInstallationID, "2", KeyGitHubAppPrivateKey, key), KeyGitHubAppPrivateKey},
		"an API that is no URL":        {secret("s", KeyRepoURL, https, KeyGitHubAppID, "1", KeyGitHubAppInstallationID, "2", KeyGitHubAppPrivateKey, app, KeyGitHubAppBaseURL, "file:///x"), KeyGitHubAppBaseURL},
	} {
		got, err := Parse(c.secret)
		var malformed *MalformedError
		if !errors.As(err, &malformed) || malformed.Secret != "s" || malformed.Key != c.key {
			t.Errorf("%s: got %v, %v; want key %s", name, got, err, c.key)
			continue
		}
		if strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %q repeats a value", name, err)
		}
	}
}

func TestParseReads(t *testing.T) {
	got, err := Parse(secret("s", KeyRepoURL, "https://git.example.com/acme\n", KeyUsername, "u\n", KeyPassword, "p a:ß\r\n"))
	if err != nil || got.Basic == nil || *got.Basic != (Basic{Username: "u", Password: "p a:ß"}) || got.Unverified() {
		t.Errorf("basic: %v, %v", got, err)
	}
	windows := "\n" + strings.ReplaceAll(strings.TrimSpace(sshKey(t)), "\n", "\r\n")
	got, err = Parse(secret("s", KeyRepoURL, "git@git.example.com:acme", KeySSHPrivateKey, windows, KeyKnownHosts, "# mine\r\n"+hostKey))
	if err != nil || got.SSH == nil || got.Unverified() || strings.Contains(string(got.SSH.PrivateKey), "\r") || !strings.HasSuffix(string(got.SSH.PrivateKey), "-----\n") {
		t.Errorf("ssh: %v, %v", got, err)
	}
	got, err = Parse(secret("s", KeyRepoURL, "git@git.example.com:acme", KeySSHPrivateKey, sshKey(t)))
	if err != nil || !got.Unverified() {
		t.Errorf("ssh without known hosts: %v, %v", got, err)
	}
	for url, api := range map[string]string{"https://github.com/acme": "https://api.github.com", "https://ghe.example.com:8443/acme": "https://ghe.example.com:8443/api/v3"} {
		got, err = Parse(secret("s", KeyRepoURL, url, KeyGitHubAppID, "12", KeyGitHubAppInstallationID, "34", KeyGitHubAppPrivateKey, rsaKey(t)))
		if err != nil || got.GitHubApp == nil || got.GitHubApp.AppID != "12" || got.GitHubApp.InstallationID != "34" || got.GitHubApp.BaseURL != api {
			t.Errorf("app at %s: %v, %v", url, got, err)
		}
	}
}

// Whatever prints or encodes a credential, by whichever verb, shows none of it.
func TestACredentialNeverShows(t *testing.T) {
	for _, s := range []Secret{
		basic("a", "https://git.example.com/x"),
		secret("a", KeyRepoURL, "git@git.example.com:acme", KeySSHPrivateKey, sshKey(t)),
		secret("a", KeyRepoURL, "https://github.com/acme", KeyGitHubAppID, "12", KeyGitHubAppInstallationID, "34", KeyGitHubAppPrivateKey, rsaKey(t)),
	} {
		c, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(map[string]any{"c": c, "basic": c.Basic, "ssh": c.SSH, "app": c.GitHubApp})
		if err != nil {
			t.Fatal(err)
		}
		shown := string(encoded) + fmt.Sprintf("%v %+v %#v %s %v %#v %v %#v %v %#v", c, c, c, c, c.Basic, c.Basic, c.SSH, c.SSH, c.GitHubApp, c.GitHubApp)
		for _, value := range []string{"p-a", "PRIVATE", "BEGIN", "big.Int", "0x"} {
			if strings.Contains(shown, value) {
				t.Errorf("%s shows in %s", value, shown)
			}
		}
	}
}
