package repocreds

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"magosproject.io/internal/refs"
)

// kinds of credentials, by the key that tells each from the others.
var kinds = []struct {
	key     string
	schemes []string
	fill    func(fields, *Credential) error
}{
	{KeyPassword, []string{"https", "http"}, fillBasic},
	{KeySSHPrivateKey, []string{"ssh"}, fillSSH},
	{KeyGitHubAppPrivateKey, []string{"https", "http"}, fillGitHubApp},
}

// Parse reads one Secret. Every error is a MalformedError.
func Parse(secret Secret) (*Credential, error) {
	prefix, err := parsePrefix(secret)
	if err != nil {
		return nil, err
	}
	f := fields{secret}
	c := &Credential{Secret: secret.Name, Prefix: prefix}
	found := ""
	for _, kind := range kinds {
		if len(secret.Data[kind.key]) == 0 {
			continue
		}
		if found != "" {
			return nil, f.wrong(kind.key, "is there beside %s: a Secret holds one kind of credential", found)
		}
		found = kind.key
		if !slices.Contains(kind.schemes, prefix.Scheme) {
			return nil, f.wrong(kind.key, "cannot be used with the scheme %s of %s: it is for %s", prefix.Scheme, KeyRepoURL, strings.Join(kind.schemes, " and "))
		}
		if err := kind.fill(f, c); err != nil {
			return nil, err
		}
	}
	if found == "" {
		return nil, f.wrong(missingKey(prefix), "is missing")
	}
	return c, nil
}

// missingKey is what a Secret without any credential most likely lacks.
func missingKey(prefix refs.URL) string {
	if prefix.Scheme == "ssh" {
		return KeySSHPrivateKey
	}
	return KeyPassword
}

func parsePrefix(secret Secret) (refs.URL, error) {
	f := fields{secret}
	raw, err := f.line(KeyRepoURL)
	if err != nil {
		return refs.URL{}, err
	}
	prefix, err := refs.ParsePrefix(raw)
	var invalid *refs.InvalidError
	if errors.As(err, &invalid) {
		return refs.URL{}, f.wrong(KeyRepoURL, "is refused: %s", invalid.Why)
	}
	return prefix, err
}

func fillBasic(f fields, c *Credential) error {
	username, err := f.line(KeyUsername)
	if err != nil {
		return err
	}
	if strings.Contains(username, ":") {
		return f.wrong(KeyUsername, "holds a colon, which http does not allow")
	}
	password, err := f.line(KeyPassword)
	if err != nil {
		return err
	}
	c.Basic = &Basic{Username: username, Password: password}
	return nil
}

func fillSSH(f fields, c *Credential) error {
	pem := f.text(KeySSHPrivateKey)
	signer, err := ssh.ParsePrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return f.wrong(KeySSHPrivateKey, "is protected by a passphrase: store it without one")
	case err != nil:
		// The library's error says no more, and could repeat what it read.
		return f.wrong(KeySSHPrivateKey, "is no private key in PEM or OpenSSH format")
	}
	c.SSH = &SSH{PrivateKey: pem, Signer: signer}
	if _, given := f.secret.Data[KeyKnownHosts]; !given {
		return nil
	}
	c.SSH.KnownHosts = f.text(KeyKnownHosts)
	return checkKnownHosts(f, c.SSH.KnownHosts)
}

// checkKnownHosts refuses a list that would verify nothing: whoever wrote it meant to have keys verified.
func checkKnownHosts(f fields, content []byte) error {
	entries, number := 0, 0
	for line := range bytes.Lines(content) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		// Line by line, for what has no blanks in it is skipped without a word.
		if _, _, _, _, _, err := ssh.ParseKnownHosts(line); err != nil {
			return f.wrong(KeyKnownHosts, "is wrong in line %d: write what ssh-keyscan prints", number)
		}
		entries++
	}
	if entries == 0 {
		return f.wrong(KeyKnownHosts, "holds no host key: write what ssh-keyscan prints, or leave the key out to verify nothing")
	}
	return nil
}

func fillGitHubApp(f fields, c *Credential) error {
	app := &GitHubApp{}
	var err error
	if app.AppID, err = f.number(KeyGitHubAppID); err != nil {
		return err
	}
	if app.InstallationID, err = f.number(KeyGitHubAppInstallationID); err != nil {
		return err
	}
	raw, err := ssh.ParseRawPrivateKey(f.text(KeyGitHubAppPrivateKey))
	key, isRSA := asRSA(raw)
	if err != nil || !isRSA {
		return f.wrong(KeyGitHubAppPrivateKey, "is no RSA private key in PEM, as GitHub hands it out")
	}
	app.PrivateKey = key
	app.BaseURL, err = f.baseURL(c.Prefix)
	if err != nil {
		return err
	}
	c.GitHubApp = app
	return nil
}

// fields reads values of a Secret and says what is wrong with them.
type fields struct{ secret Secret }

func (f fields) wrong(key, format string, args ...any) *MalformedError {
	return &MalformedError{Secret: f.secret.Name, Key: key, Why: fmt.Sprintf(format, args...)}
}

// line is a value of one line; the newline that editors and echo leave at its end does not count.
func (f fields) line(key string) (string, error) {
	value := strings.TrimRight(string(f.secret.Data[key]), "\r\n")
	if value == "" {
		return "", f.wrong(key, "is missing")
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return "", f.wrong(key, "has more than one line, or control characters")
	}
	return value, nil
}

func (f fields) number(key string) (string, error) {
	value, err := f.line(key)
	if err != nil {
		return "", err
	}
	if len(value) > 20 || strings.ContainsFunc(value, func(r rune) bool { return r < '0' || r > '9' }) {
		return "", f.wrong(key, "is no number")
	}
	return value, nil
}

// text is a value of several lines, each of which ends with a plain newline.
func (f fields) text(key string) []byte {
	value := bytes.TrimSpace(bytes.ReplaceAll(f.secret.Data[key], []byte("\r\n"), []byte("\n")))
	return append(bytes.Clone(value), '\n')
}

// baseURL of GitHub's API: given, or that of github.com or of a GitHub Enterprise Server on the same host.
func (f fields) baseURL(prefix refs.URL) (string, error) {
	if _, given := f.secret.Data[KeyGitHubAppBaseURL]; !given {
		if prefix.Host == "github.com" {
			return "https://api.github.com", nil
		}
		server := prefix
		server.User, server.Path = "", "/api/v3"
		return server.String(), nil
	}
	raw, err := f.line(KeyGitHubAppBaseURL)
	if err != nil {
		return "", err
	}
	parsed, err := url.Parse(raw)
	if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", f.wrong(KeyGitHubAppBaseURL, "is no URL of an API: write one such as https://github.example.com/api/v3")
	}
	return strings.TrimRight(raw, "/"), nil
}

func asRSA(key any) (*rsa.PrivateKey, bool) {
	private, ok := key.(*rsa.PrivateKey)
	return private, ok && private.Validate() == nil
}
