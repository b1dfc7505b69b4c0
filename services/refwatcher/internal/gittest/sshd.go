package gittest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"
)

// SSHServer serves the repositories at their absolute paths over ssh on loopback, to who has an authorized key.
type SSHServer struct {
	// Address is host:port.
	Address string
}

// NewSSHServer starts an SSHServer with the host keys; who logs in needs one of the authorized keys.
func NewSSHServer(t testing.TB, hostKeys []ssh.Signer, authorized func() []ssh.PublicKey) *SSHServer {
	t.Helper()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if slices.ContainsFunc(authorized(), func(a ssh.PublicKey) bool { return string(a.Marshal()) == string(key.Marshal()) }) {
			return &ssh.Permissions{}, nil
		}
		return nil, errors.New("not authorized")
	}}
	for _, key := range hostKeys {
		config.AddHostKey(key)
	}
	return &SSHServer{Address: serve(t, func(conn net.Conn) { serveSSHConn(conn, config) })}
}

// Ed25519Key makes a key and returns it for use and as the PEM text of a Secret.
func Ed25519Key(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key)
}

// RSAKey is Ed25519Key for RSA.
func RSAKey(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key)
}

func signer(t testing.TB, key any) (ssh.Signer, string) {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return s, string(pem.EncodeToMemory(block))
}
