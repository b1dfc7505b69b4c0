package gitauth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"magosproject.io/internal/repocreds"
)

// key lets ssh have signatures by the key, over the protocol of ssh agents. The key itself lies in no file: a tool that
// fetches modules can read files, and puts what it reads where the module wants it.
func (a *Agent) key(c *repocreds.Credential) answer {
	if c.SSH == nil {
		return answer{}
	}
	given := answer{Secret: c.Secret}
	var err error
	if given.Agent, err = a.signer(c.SSH.PrivateKey); err == nil && !c.Unverified() {
		given.KnownHosts, err = a.keep("hosts", c.SSH.KnownHosts)
	}
	if err != nil {
		a.note(err.Error())
		return answer{Error: err.Error()}
	}
	if c.Unverified() && a.once(c.Secret) {
		a.cfg.Log.Warn("host keys are not verified: anybody on the way could pose as the server", "secret", c.Secret,
			"remedy", "add the key "+repocreds.KeyKnownHosts+" to the Secret")
	}
	return given
}

// signer returns the socket of an ssh agent that has one key.
func (a *Agent) signer(pem []byte) (string, error) {
	sum := sha256.Sum256(pem)
	name := filepath.Join(a.cfg.Memory, "key-"+hex.EncodeToString(sum[:8]))
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if _, found := a.keys[name]; found {
		return name, nil
	}
	key, err := ssh.ParseRawPrivateKey(pem)
	if err != nil {
		return "", fmt.Errorf("reading an ssh key: %w", err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return "", fmt.Errorf("reading an ssh key: %w", err)
	}
	listener, err := net.Listen("unix", name)
	if err != nil {
		return "", fmt.Errorf("starting an ssh agent: %w", err)
	}
	a.keys[name] = listener
	a.stopped.Go(func() { a.sign(listener, readOnly{ring.(agent.ExtendedAgent)}) })
	return name, nil
}

func (a *Agent) sign(listener net.Listener, ring agent.Agent) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		a.stopped.Go(func() {
			defer func() { _ = connection.Close() }()
			err := connection.SetDeadline(time.Now().Add(patience))
			if err == nil {
				err = agent.ServeAgent(ring, connection)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				a.cfg.Log.Warn("answering ssh", "error", err)
			}
		})
	}
}

// readOnly gives signatures and takes no orders.
type readOnly struct{ agent.ExtendedAgent }

var errReadOnly = errors.New("this agent has the one key that it was started with")

func (readOnly) Add(agent.AddedKey) error                 { return errReadOnly }
func (readOnly) Remove(ssh.PublicKey) error               { return errReadOnly }
func (readOnly) RemoveAll() error                         { return errReadOnly }
func (readOnly) Lock([]byte) error                        { return errReadOnly }
func (readOnly) Unlock([]byte) error                      { return errReadOnly }
func (readOnly) Extension(string, []byte) ([]byte, error) { return nil, agent.ErrExtensionUnsupported }
