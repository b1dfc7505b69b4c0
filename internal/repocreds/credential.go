package repocreds

import (
	"crypto/rsa"

	"golang.org/x/crypto/ssh"

	"magosproject.io/internal/refs"
)

// Keys of a Secret.
const (
	KeyRepoURL                 = "repoURL"
	KeyUsername                = "username"
	KeyPassword                = "password"
	KeySSHPrivateKey           = "sshPrivateKey"
	KeyKnownHosts              = "knownHosts"
	KeyGitHubAppID             = "githubAppID"
	KeyGitHubAppInstallationID = "githubAppInstallationID"
	KeyGitHubAppPrivateKey     = "githubAppPrivateKey"
	KeyGitHubAppBaseURL        = "githubAppBaseURL"
)

// Secret is a labelled Secret of the namespace.
type Secret struct {
	// Name of the Secret.
	Name string
	// Data as in the Secret. It is not kept.
	Data map[string][]byte
}

// Credential is what one Secret holds. Exactly one of Basic, SSH and GitHubApp is set. It prints as the name of its Secret, whatever the verb.
type Credential struct {
	// Secret is the name of the Secret that it comes from.
	Secret string
	// Prefix is the normalised repoURL of the Secret.
	Prefix refs.URL
	// Basic is a user and a password or token.
	Basic *Basic
	// SSH is a key to log in with.
	SSH *SSH
	// GitHubApp is a key to get tokens with.
	GitHubApp *GitHubApp
}

// Basic is sent in the Authorization header.
type Basic struct {
	// Username and Password; neither is empty.
	Username, Password string
}

// SSH logs in with a key.
type SSH struct {
	// PrivateKey in PEM, ending with a newline, as ssh wants its identity files.
	PrivateKey []byte
	// Signer is the same key, parsed.
	Signer ssh.Signer
	// KnownHosts in the format of known_hosts, with at least one entry; empty if the Secret has none, and host keys are then not verified.
	KnownHosts []byte
}

// GitHubApp is an installation of a GitHub App.
type GitHubApp struct {
	// AppID and InstallationID are numbers.
	AppID, InstallationID string
	// PrivateKey signs requests for tokens.
	PrivateKey *rsa.PrivateKey
	// BaseURL of the API, without a trailing slash, such as https://api.github.com.
	BaseURL string
}

// Unverified reports that the key of the server cannot be verified, because there are no known hosts.
func (c *Credential) Unverified() bool { return c.SSH != nil && len(c.SSH.KnownHosts) == 0 }

// String is the name of the Secret. Nothing else of a Credential is fit to be printed, logged or encoded.
func (c *Credential) String() string { return "Secret " + c.Secret }

// String keeps what is secret out of messages.
func (b *Basic) String() string { return "username and password" }

// String keeps what is secret out of messages.
func (s *SSH) String() string { return "ssh key" }

// String names the app.
func (g *GitHubApp) String() string { return "GitHub App " + g.AppID }

// GoString is for %#v.
func (c *Credential) GoString() string { return c.String() }

// GoString is for %#v.
func (b *Basic) GoString() string { return b.String() }

// GoString is for %#v.
func (s *SSH) GoString() string { return s.String() }

// GoString is for %#v.
func (g *GitHubApp) GoString() string { return g.String() }

// MarshalText is for encoders, such as that of a log in JSON.
func (c *Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText is for encoders.
func (b *Basic) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// MarshalText is for encoders.
func (s *SSH) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText is for encoders.
func (g *GitHubApp) MarshalText() ([]byte, error) { return []byte(g.String()), nil }
