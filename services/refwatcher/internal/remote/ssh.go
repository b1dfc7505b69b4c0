package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"magosproject.io/internal/refs"
)

// defaultSSHUser is whom hosting services expect where a URL names nobody.
const defaultSSHUser = "git"

// listSSH lists over ssh without credentials: servers that let everybody in read only. No agent, no key of the pod and no ssh configuration is used.
func (c *Client) listSSH(ctx context.Context, url refs.URL, read reader) (refs.Advertised, error) {
	conn, closeConn, err := c.dialer.open(ctx, url.Address())
	if err != nil {
		return nil, err
	}
	defer closeConn()
	client, err := handshake(conn, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("opening an ssh session: %w", err)
	}
	defer func() { _ = session.Close() }()
	return runUploadPack(session, url.Path, read)
}

func handshake(conn net.Conn, url refs.URL) (*ssh.Client, error) {
	user := url.User
	if user == "" {
		user = defaultSSHUser
	}
	config := &ssh.ClientConfig{
		User: user,
		// There are no known hosts to verify against yet. Nothing secret is sent, but a false host could say which commit to
		// run, and keeper, which verifies no host keys either, could fetch it there.
		HostKeyCallback: func(string, net.Addr, ssh.PublicKey) error { return nil },
	}
	transport, channels, requests, err := ssh.NewClientConn(conn, url.Address(), config)
	if err != nil {
		return nil, fmt.Errorf("logging in over ssh as %s without credentials: %w", user, err)
	}
	return ssh.NewClient(transport, channels, requests), nil
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
