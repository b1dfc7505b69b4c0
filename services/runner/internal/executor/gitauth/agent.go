package gitauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"magosproject.io/internal/githubapp"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
	"magosproject.io/services/runner/internal/executor/mask"
)

// Config of an Agent.
type Config struct {
	// Secrets is the folder of the mounted repository Secrets; it need not exist.
	Secrets string
	// Memory is an empty folder in memory that only this container has. The sockets and known hosts lie there.
	Memory string
	// Client asks the API of GitHub Apps.
	Client *http.Client
	Log    *slog.Logger
}

// Agent answers git's questions until it is closed.
type Agent struct {
	cfg      Config
	tokens   *githubapp.Tokens
	listener net.Listener
	stopped  sync.WaitGroup

	mutex  sync.Mutex
	notes  []string
	warned map[string]bool
	// keys are the sockets at which ssh gets signatures, by their names.
	keys map[string]net.Listener
	// handed are the secret values that were given out or may be, to be masked in whatever is printed.
	handed map[string]bool
}

// Start starts an Agent.
func Start(cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, tokens: githubapp.NewTokens(cfg.Client, time.Now), warned: map[string]bool{}, handed: map[string]bool{}, keys: map[string]net.Listener{}}
	if _, err := a.set(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Memory, 0o700); err != nil {
		return nil, fmt.Errorf("starting the credential agent: %w", err)
	}
	var err error
	if a.listener, err = net.Listen("unix", a.socket()); err != nil {
		return nil, fmt.Errorf("starting the credential agent: %w", err)
	}
	a.stopped.Go(a.serve)
	return a, nil
}

// Close ends the agent and removes what it laid out. Questions that are being answered are waited for.
func (a *Agent) Close() error {
	// With it no question is answered any more that could open a socket of a key.
	err := a.listener.Close()
	a.mutex.Lock()
	for _, listener := range a.keys {
		err = errors.Join(err, listener.Close())
	}
	a.mutex.Unlock()
	a.stopped.Wait()
	entries, listErr := os.ReadDir(a.cfg.Memory)
	err = errors.Join(err, listErr)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(a.cfg.Memory, entry.Name())))
	}
	if err != nil {
		return fmt.Errorf("ending the credential agent: %w", err)
	}
	return nil
}

func (a *Agent) socket() string { return filepath.Join(a.cfg.Memory, "agent.sock") }

func (a *Agent) serve() {
	for {
		connection, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.stopped.Go(func() {
			defer func() { _ = connection.Close() }()
			if err := a.answerOne(connection); err != nil {
				a.cfg.Log.Warn("answering git", "error", err)
			}
		})
	}
}

func (a *Agent) answerOne(connection net.Conn) error {
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var q question
	if err := json.NewDecoder(connection).Decode(&q); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return json.NewEncoder(connection).Encode(a.answer(ctx, q))
}

func (a *Agent) answer(ctx context.Context, q question) answer {
	if q.Op == opNote {
		a.note(q.Note)
		return answer{}
	}
	url, err := refs.ParseURL(q.URL)
	if err != nil {
		a.note(fmt.Sprintf("a credential was asked for what is no repository URL: %v", err))
		return answer{}
	}
	credential, err := a.find(url)
	if err != nil {
		a.note(err.Error())
		return answer{Error: err.Error()}
	}
	switch {
	case q.Op == opRefused:
		a.refused(url, credential)
		return answer{}
	case credential == nil:
		a.missing(url, q.Op)
		return answer{}
	case q.Op == opKey:
		return a.key(credential)
	default:
		return a.login(ctx, credential)
	}
}

func (a *Agent) find(url refs.URL) (*repocreds.Credential, error) {
	set, err := a.set()
	if err != nil {
		return nil, err
	}
	return set.For(url)
}

// set reads the Secrets as they are now.
func (a *Agent) set() (*repocreds.Set, error) {
	secrets, err := readSecrets(a.cfg.Secrets)
	if err != nil {
		return nil, err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, secret := range secrets {
		for _, key := range []string{repocreds.KeyPassword, repocreds.KeySSHPrivateKey, repocreds.KeyGitHubAppPrivateKey} {
			if value := strings.TrimRight(string(secret.Data[key]), "\r\n"); value != "" {
				a.handed[value] = true
			}
		}
	}
	return repocreds.NewSet(secrets), nil
}

func (a *Agent) login(ctx context.Context, c *repocreds.Credential) answer {
	switch {
	case c.Basic != nil:
		return answer{Username: c.Basic.Username, Password: c.Basic.Password}
	case c.GitHubApp != nil:
		token, err := a.tokens.Token(ctx, c.GitHubApp)
		if err != nil {
			err = fmt.Errorf("%s: %w", c, err)
			a.note(err.Error())
			return answer{Error: err.Error()}
		}
		a.mutex.Lock()
		a.handed[token] = true
		a.mutex.Unlock()
		return answer{Username: githubapp.Username, Password: token}
	}
	return answer{}
}

// keep writes a file that is named by its content, so that a rotation never changes one that ssh is about to read.
func (a *Agent) keep(kind string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	name := filepath.Join(a.cfg.Memory, kind+"-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	file, err := os.CreateTemp(a.cfg.Memory, ".new-")
	if err != nil {
		return "", fmt.Errorf("laying out known hosts: %w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close(), os.Rename(file.Name(), name)); err != nil {
		return "", fmt.Errorf("laying out known hosts: %w", err)
	}
	return name, nil
}

func (a *Agent) once(what string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	first := !a.warned[what]
	a.warned[what] = true
	return first
}

// Forms are all secret values that the agent knows of, to be masked in what git and the tool print.
func (a *Agent) Forms() mask.Forms {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	values := make([]string, 0, len(a.handed))
	for value := range a.handed {
		values = append(values, value)
	}
	return mask.NewForms(values)
}
