package githubapp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"magosproject.io/internal/repocreds"
)

const (
	// Username goes with a token where Git asks for a user and a password.
	Username = "x-access-token"
	// renewBefore the end of a token: what began with it shall not end without it.
	renewBefore = 5 * time.Minute
	// maxAnswer is far above what the API sends.
	maxAnswer = 1 << 20
	maxWords  = 300
)

// Tokens gets tokens and keeps each until shortly before it expires. It is safe for concurrent use.
type Tokens struct {
	client *http.Client
	now    func() time.Time

	mutex sync.Mutex
	kept  map[string]*slot
}

// slot is the token of one installation. Its mutex makes callers that want the same wait for one exchange.
type slot struct {
	mutex   sync.Mutex
	token   string
	expires time.Time
}

// NewTokens makes Tokens. Requests go through the client, which follows no redirects then: what is sent to the API is meant for nobody else.
func NewTokens(client *http.Client, now func() time.Time) *Tokens {
	strict := *client
	strict.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Tokens{client: &strict, now: now, kept: map[string]*slot{}}
}

// Token returns a token that is valid for another five minutes at least.
func (t *Tokens) Token(ctx context.Context, app *repocreds.GitHubApp) (string, error) {
	s := t.slot(app)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.token != "" && t.now().Before(s.expires.Add(-renewBefore)) {
		return s.token, nil
	}
	token, expires, err := t.exchange(ctx, app)
	if err != nil {
		return "", fmt.Errorf("getting a token for GitHub App %s, installation %s, from %s: %w", app.AppID, app.InstallationID, app.BaseURL, err)
	}
	s.token, s.expires = token, expires
	return token, nil
}

// Forget drops a token that was not accepted, so that the next one is fresh: an installation can be given other rights at any time.
func (t *Tokens) Forget(app *repocreds.GitHubApp) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.kept, key(app))
}

func (t *Tokens) slot(app *repocreds.GitHubApp) *slot {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	k := key(app)
	if s, known := t.kept[k]; known {
		return s
	}
	t.dropExpired()
	s := &slot{}
	t.kept[k] = s
	return s
}

// dropExpired keeps the map from growing with every rotation of a key; it needs the mutex.
func (t *Tokens) dropExpired() {
	for k, s := range t.kept {
		if !s.mutex.TryLock() {
			continue
		}
		if t.now().After(s.expires) {
			delete(t.kept, k)
		}
		s.mutex.Unlock()
	}
}

// key tells apart everything that a token depends on.
func key(app *repocreds.GitHubApp) string {
	sum := sha256.Sum256(x509.MarshalPKCS1PrivateKey(app.PrivateKey))
	return strings.Join([]string{app.BaseURL, app.AppID, app.InstallationID, string(sum[:])}, "\x00")
}

func (t *Tokens) exchange(ctx context.Context, app *repocreds.GitHubApp) (string, time.Time, error) {
	signed, err := sign(app, t.now())
	if err != nil {
		return "", time.Time{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, app.BaseURL+"/app/installations/"+app.InstallationID+"/access_tokens", bytes.NewReader(nil))
	if err != nil {
		return "", time.Time{}, err
	}
	request.Header.Set("Authorization", "Bearer "+signed)
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	request.Header.Set("User-Agent", "magos")
	response, err := t.client.Do(request)
	if err != nil {
		return "", time.Time{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("reading the answer: %w", err)
	}
	return read(response, body)
}

func read(response *http.Response, body []byte) (string, time.Time, error) {
	if response.StatusCode != http.StatusCreated {
		var refusal struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(body, &refusal) != nil || refusal.Message == "" {
			refusal.Message = "without a word"
		}
		return "", time.Time{}, fmt.Errorf("it answers %s: %s", response.Status, clean(refusal.Message))
	}
	var granted struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if json.Unmarshal(body, &granted) != nil || granted.Token == "" || granted.ExpiresAt.IsZero() {
		return "", time.Time{}, errors.New("its answer holds no token and expiry")
	}
	if strings.ContainsFunc(granted.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", time.Time{}, errors.New("its answer holds a token that cannot be sent")
	}
	return granted.Token, granted.ExpiresAt, nil
}

// clean makes what a server said fit for a log line and a terminal.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}
