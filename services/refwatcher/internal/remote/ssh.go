package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
)

// defaultSSHUser is whom hosting services expect where a URL names nobody.
const defaultSSHUser = "git"

// listSSH lists over ssh, without a credential where there is none: servers that let everybody in read only. No agent, no key of the pod and no ssh
// configuration is used.
func (c *Client) listSSH(ctx context.Context, url refs.URL, credential *repocreds.Credential, read reader) (refs.Advertised, error) {
	if credential != nil && credential.SSH == nil {
		return nil, refused("the credential in %s is not for this scheme", credential)
	}
	verifier, err := newHostVerifier(url, credential)
	if err != nil {
		return nil, err
	}
	client, err := c.login(ctx, url, credential, verifier)
	if err != nil {
		return nil, c.explain(ctx, url, verifier, err)
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("opening an ssh session: %w", err)
	}
	defer func() { _ = session.Close() }()
	return runUploadPack(session, url.Path, read)
}

// sshClient closes its connection as well.
type sshClient struct {
	*ssh.Client
	closeConn func()
}

func (c *sshClient) Close() error {
	err := c.Client.Close()
	c.closeConn()
	return err
}

func (c *Client) login(ctx context.Context, url refs.URL, credential *repocreds.Credential, verifier *hostVerifier) (*sshClient, error) {
	conn, closeConn, err := c.dialer.open(ctx, url.Address())
	if err != nil {
		return nil, err
	}
	user := url.User
	if user == "" {
		user = defaultSSHUser
	}
	config := &ssh.ClientConfig{User: user, HostKeyCallback: verifier.check, HostKeyAlgorithms: verifier.algorithms()}
	if credential != nil {
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(credential.SSH.Signer)}
	}
	transport, channels, requests, err := ssh.NewClientConn(conn, url.Address(), config)
	if err != nil {
		closeConn()
		if verifier.passed && ctx.Err() == nil {
			return nil, loginRefused(user, credential, err)
		}
		return nil, err
	}
	return &sshClient{Client: ssh.NewClient(transport, channels, requests), closeConn: closeConn}, nil
}

func loginRefused(user string, credential *repocreds.Credential, err error) error {
	if credential == nil {
		return refused("logging in over ssh as %s without credentials: %w", user, err)
	}
	return refused("logging in over ssh as %s with the key in %s: %w", user, credential, err)
}

func runUploadPack(session *ssh.Session, path string, read reader) (refs.Advertised, error) {
	stdin, err := session.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := &firstWords{}
	session.Stderr = said
	if err := session.Start(uploadPack + " " + shellQuote(path)); err != nil {
		return nil, fmt.Errorf("running %s: %w", uploadPack, err)
	}
	advertised, err := read(stdout)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			// The command has ended; what it said may still be on its way.
			_ = session.Wait()
		}
		if words := said.String(); words != "" {
			return nil, fmt.Errorf("%w; the server says: %s", err, words)
		}
		return nil, err
	}
	_, _ = io.WriteString(stdin, flush)
	return advertised, nil
}

// shellQuote quotes the one argument of git-upload-pack as Git does: the server's shell, or git-shell, takes the quotes off.
func shellQuote(arg string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(arg) + "'"
}

// firstWords keeps the beginning of what is written to it and swallows the rest.
type firstWords struct {
	mu   sync.Mutex
	text []byte
}

func (f *firstWords) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if room := serverWords - len(f.text); room > 0 {
		f.text = append(f.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (f *firstWords) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return excerpt(string(f.text))
}
