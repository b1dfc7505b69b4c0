package githubapp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"magosproject.io/internal/githubapp/githubapptest"
	"magosproject.io/internal/repocreds"
)

// clock is moved by the test alone.
type clock struct {
	mutex sync.Mutex
	time  time.Time
}

func (c *clock) now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.time
}

func (c *clock) step(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.time = c.time.Add(d)
}

func appOf(t *testing.T, s *githubapptest.Server, change func(map[string][]byte)) *repocreds.GitHubApp {
	t.Helper()
	data := map[string][]byte{
		repocreds.KeyRepoURL: []byte("https://github.com/acme"), repocreds.KeyGitHubAppID: []byte(s.AppID), repocreds.KeyGitHubAppInstallationID: []byte(s.InstallationID),
		repocreds.KeyGitHubAppPrivateKey: []byte(s.KeyPEM), repocreds.KeyGitHubAppBaseURL: []byte(s.URL + "/"),
	}
	if change != nil {
		change(data)
	}
	c, err := repocreds.Parse(repocreds.Secret{Name: "app", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return c.GitHubApp
}

func TestATokenIsKeptUntilShortlyBeforeItExpires(t *testing.T) {
	c := &clock{time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	server := githubapptest.New(t, c.now, time.Hour)
	tokens, app := NewTokens(http.DefaultClient, c.now), appOf(t, server, nil)
	get := func() string {
		t.Helper()
		token, err := tokens.Token(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		if !server.Valid(token) {
			t.Errorf("the token is not valid")
		}
		return token
	}
	first := get()
	c.step(54 * time.Minute)
	if get() != first || server.Asked() != 1 {
		t.Errorf("asked %d times within 54 minutes", server.Asked())
	}
	c.step(2 * time.Minute)
	second := get()
	if second == first || server.Asked() != 2 {
		t.Errorf("asked %d times after 56 minutes; a token that expires in four is not handed out", server.Asked())
	}
	tokens.Forget(app)
	if get() == second {
		t.Error("a token that was forgotten is handed out")
	}
}

func TestCallersShareOneExchange(t *testing.T) {
	server := githubapptest.New(t, time.Now, time.Hour)
	tokens, app := NewTokens(http.DefaultClient, time.Now), appOf(t, server, nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := tokens.Token(t.Context(), app); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if server.Asked() != 1 {
		t.Errorf("asked %d times", server.Asked())
	}
}

func TestARefusalHasTheWordsOfTheAPI(t *testing.T) {
	server := githubapptest.New(t, time.Now, time.Hour)
	other := githubapptest.New(t, time.Now, time.Hour)
	for name, c := range map[string]struct {
		change func(map[string][]byte)
		want   string
	}{
		"another app":          {func(d map[string][]byte) { d[repocreds.KeyGitHubAppID] = []byte("99") }, "401 Unauthorized: 'Issuer' claim"},
		"another key":          {func(d map[string][]byte) { d[repocreds.KeyGitHubAppPrivateKey] = []byte(other.KeyPEM) }, "could not be decoded"},
		"another installation": {func(d map[string][]byte) { d[repocreds.KeyGitHubAppInstallationID] = []byte("99") }, "404 Not Found: Not Found"},
	} {
		_, err := NewTokens(http.DefaultClient, time.Now).Token(t.Context(), appOf(t, server, c.change))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if _, err := NewTokens(http.DefaultClient, func() time.Time { return time.Now().Add(time.Hour) }).Token(t.Context(), appOf(t, server, nil)); err == nil {
		t.Error("a token although the clock is an hour ahead")
	}
}

// The JWT goes to the API that the Secret names, and to nobody to whom that one points.
func TestNoRedirectIsFollowed(t *testing.T) {
	caught := 0
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { caught++ }))
	defer thief.Close()
	api := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer api.Close()
	server := githubapptest.New(t, time.Now, time.Hour)
	app := appOf(t, server, func(d map[string][]byte) { d[repocreds.KeyGitHubAppBaseURL] = []byte(api.URL) })
	if _, err := NewTokens(http.DefaultClient, time.Now).Token(t.Context(), app); err == nil || !strings.Contains(err.Error(), "307") || caught != 0 {
		t.Errorf("got %v, and the redirect was followed %d times", err, caught)
	}
}
