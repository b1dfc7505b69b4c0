package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
)

// hostVerifier verifies the key of one ssh server against the known hosts of a Secret. Without any, every key passes.
type hostVerifier struct {
	address    string
	credential *repocreds.Credential
	// verify says that there are known hosts.
	verify bool
	lines  []hostLine
	// passed says that the server's key was accepted, failed why it was not.
	passed bool
	failed error
}

// newHostVerifier keeps the lines that are for the server.
func newHostVerifier(url refs.URL, credential *repocreds.Credential) (*hostVerifier, error) {
	v := &hostVerifier{address: url.Address(), credential: credential}
	if credential == nil || credential.Unverified() {
		// Nothing secret is sent to whoever answers, but it could say which commit to run.
		return v, nil
	}
	v.verify = true
	for rest := credential.SSH.KnownHosts; ; {
		marker, hosts, key, _, after, err := ssh.ParseKnownHosts(rest)
		if errors.Is(err, io.EOF) {
			return v, nil
		}
		if err != nil {
			return nil, refused("knownHosts in %s cannot be read: %w", credential, err)
		}
		rest = after
		if matchesHost(hosts, v.address) {
			v.lines = append(v.lines, hostLine{marker: marker, key: key})
		}
	}
}

type hostLine struct {
	marker string
	key    ssh.PublicKey
}

const (
	revoked   = "revoked"
	authority = "cert-authority"
)

// algorithms are those of the keys that are known: a server that has further ones would show another, which could not be verified. Nil means all.
func (v *hostVerifier) algorithms() []string {
	var known []string
	for _, line := range v.lines {
		switch line.marker {
		case "":
			known = append(known, algorithmsOf(line.key.Type())...)
		case authority:
			// Whatever the type of the authority's own key, that of what it signs can be any.
			return nil
		}
	}
	slices.Sort(known)
	return slices.Compact(known)
}

func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}
	}
	return []string{keyType}
}

// check is an ssh.HostKeyCallback.
func (v *hostVerifier) check(_ string, remote net.Addr, key ssh.PublicKey) error {
	v.failed = v.judge(remote, key)
	v.passed = v.failed == nil
	return v.failed
}

func (v *hostVerifier) judge(remote net.Addr, key ssh.PublicKey) error {
	if !v.verify {
		return nil
	}
	if certificate, ok := key.(*ssh.Certificate); ok {
		return v.judgeCertificate(remote, certificate)
	}
	if v.has(revoked, key) {
		return v.mismatch(key, "is marked as @revoked in")
	}
	if !v.has("", key) {
		return v.mismatch(key, "is not in")
	}
	return nil
}

func (v *hostVerifier) judgeCertificate(remote net.Addr, certificate *ssh.Certificate) error {
	checker := ssh.CertChecker{
		IsHostAuthority: func(key ssh.PublicKey, _ string) bool { return v.has(authority, key) },
		IsRevoked: func(c *ssh.Certificate) bool {
			return v.has(revoked, c.Key) || v.has(revoked, c.SignatureKey)
		},
	}
	if err := checker.CheckHostKey(v.address, remote, certificate); err != nil {
		return v.mismatch(certificate.Key, "has a certificate ("+err.Error()+") that is not good for")
	}
	return nil
}

func (v *hostVerifier) has(marker string, key ssh.PublicKey) bool {
	return slices.ContainsFunc(v.lines, func(line hostLine) bool {
		return line.marker == marker && string(line.key.Marshal()) == string(key.Marshal())
	})
}

// mismatch says everything that is needed to mend it, or to find out who is listening there.
func (v *hostVerifier) mismatch(key ssh.PublicKey, what string) *RefusedError {
	var types []string
	for _, line := range v.lines {
		if line.marker == "" {
			types = append(types, line.key.Type())
		}
	}
	known := "it has none for this host"
	if len(types) > 0 {
		known = "it has " + strings.Join(types, ", ") + " for this host"
	}
	return refused("the host key of %s, %s %s, %s knownHosts in %s (%s): if the server's key was changed on purpose, mend the Secret",
		v.address, key.Type(), ssh.FingerprintSHA256(key), what, v.credential, known)
}

// explain finds the words for a login that failed. A server that has no key of a known type does not even show one: it is asked once more for any.
func (c *Client) explain(ctx context.Context, url refs.URL, v *hostVerifier, err error) error {
	if v.failed != nil {
		return v.failed
	}
	var negotiation *ssh.AlgorithmNegotiationError
	if !errors.As(err, &negotiation) || !v.verify {
		return err
	}
	var shown error
	curious := &ssh.ClientConfig{User: defaultSSHUser, HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
		shown = v.mismatch(key, "is not in")
		return shown
	}}
	conn, closeConn, dialErr := c.dialer.open(ctx, url.Address())
	if dialErr != nil {
		return err
	}
	defer closeConn()
	transport, _, _, handshakeErr := ssh.NewClientConn(conn, url.Address(), curious)
	if handshakeErr == nil {
		_ = transport.Close()
	}
	if shown != nil {
		return shown
	}
	return err
}
