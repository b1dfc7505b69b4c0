package webhook

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// Every spelling that a person may have copied from the page of the repository is found by a push of its server.
func TestAPushOfEveryProviderFindsEverySpelling(t *testing.T) {
	spellings := map[string][]string{
		"github-push.json": {
			"https://github.com/acme/infra", "https://github.com/acme/infra.git", "https://GitHub.com/Acme/Infra.git/", "git@github.com:acme/infra.git",
			"ssh://git@github.com/acme/infra", "ssh://git@ssh.github.com:443/acme/infra.git", "https://token@github.com/acme/infra.git",
		},
		"gitlab-push.json": {
			"https://gitlab.example.com/platform/cloud/infra.git", "git@gitlab.example.com:platform/cloud/infra.git", "ssh://git@gitlab.example.com:2222/platform/cloud/infra",
		},
		"gitea-push.json":           {"https://git.example.com/acme/infra.git", "ssh://git@git.example.com:2222/acme/infra.git", "http://git.example.com:3000/acme/infra"},
		"bitbucket-cloud-push.json": {"https://bitbucket.org/acme/infra.git", "https://alice@bitbucket.org/acme/infra.git", "git@bitbucket.org:acme/infra.git"},
		"bitbucket-server-push.json": {
			"https://bitbucket.example.com/scm/inf/infra.git", "https://alice@bitbucket.example.com/scm/INF/infra.git", "ssh://git@bitbucket.example.com:7999/inf/infra.git",
		},
	}
	for name, s := range senders() {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			if status, text, result := r.send(s.request(t, s.keyOf(t))); status != http.StatusAccepted || result != controller.WebhookAccepted {
				t.Fatalf("answered %d %q, counted as %s", status, text, result)
			}
			places := r.places()
			for _, spelling := range spellings[s.payload] {
				url, err := refs.ParseURL(spelling)
				if err != nil {
					t.Fatal(err)
				}
				if !places[schedule.Place(url)] {
					t.Errorf("a Workspace with %s is not found; the push is at %v", spelling, places)
				}
			}
			if len(places) > 2 {
				t.Errorf("the push is at %v", places)
			}
		})
	}
}

// Nothing of what a request says counts before a key has proven it, and who does not know one is told the same in any case.
func TestNothingIsTakenWithoutProof(t *testing.T) {
	for name, s := range senders() {
		key := s.keyOf(t)
		attempts := map[string]func() *http.Request{
			"signed with a wrong key": func() *http.Request {
				if key == signingKey {
					return s.request(t, rightKey)
				}
				return s.request(t, wrongKey)
			},
			"not signed": func() *http.Request {
				r := s.request(t, key)
				for _, header := range []string{"X-Hub-Signature", "X-Hub-Signature-256", "X-Gitea-Signature", "X-Forgejo-Signature", "X-Gitlab-Token", "Webhook-Signature"} {
					r.Header.Del(header)
				}
				return r
			},
			"with empty proofs": func() *http.Request {
				r := s.request(t, key)
				for header := range r.Header {
					if strings.Contains(header, "Signature") || strings.Contains(header, "Token") {
						r.Header.Set(header, "")
					}
				}
				return r
			},
			"with the first half of the proof": func() *http.Request {
				r := s.request(t, key)
				for header, values := range r.Header {
					if strings.Contains(header, "Signature") || strings.Contains(header, "Token") {
						r.Header.Set(header, values[0][:len(values[0])/2])
					}
				}
				return r
			},
			"signed for the key of nobody": func() *http.Request { return s.request(t, "") },
		}
		if key != rightKey || s.request(t, key).Header.Get("X-Gitlab-Token") == "" {
			attempts["with the proof of another body"] = func() *http.Request {
				r, other := s.request(t, key), s
				other.payload = `{"repository": {"clone_url": "https://example.com/other.git"}}`
				forged := other.request(t, key)
				forged.Header = r.Header
				return forged
			}
		}
		for what, attempt := range attempts {
			t.Run(name+" "+what, func(t *testing.T) {
				r := newReceiver(t)
				status, text, result := r.send(attempt())
				if status != http.StatusUnauthorized || text != unauthenticated.text+"\n" || result != controller.WebhookUnauthenticated || len(r.offered) > 0 {
					t.Errorf("answered %d %q, counted as %s, offered %v", status, text, result, r.offered)
				}
			})
		}
	}
}

func TestTheSHA1ThatIsSentBesideIsNoProof(t *testing.T) {
	r := newReceiver(t)
	for header, event := range map[string]string{"X-GitHub-Event": "push", "X-Event-Key": "repo:push"} {
		body := read(t, "github-push.json")
		request := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
		request.Header.Set(header, event)
		for _, name := range []string{"X-Hub-Signature", "X-Hub-Signature-256"} {
			request.Header.Set(name, sha1Of(rightKey, body))
		}
		if status, _, _ := r.send(request); status != http.StatusUnauthorized || len(r.offered) > 0 {
			t.Errorf("%s: answered %d", header, status)
		}
	}
}

// unread fails the test when it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestTheBodyOfWhoOffersNoProofIsNotRead(t *testing.T) {
	r := newReceiver(t)
	for header, value := range map[string]string{"X-GitHub-Event": "", "X-Gitlab-Event": "X-Gitlab-Token", "X-Event-Key": ""} {
		request := httptest.NewRequest(http.MethodPost, Path, unread{t})
		request.Header.Set(header, "push")
		if value != "" {
			request.Header.Set(value, wrongKey)
		}
		if status, _, _ := r.send(request); status != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", header, status)
		}
	}
}

// Even who knows a key is not told which repositories are used: a team's webhook may be sent from any repository.
func TestTheAnswerDoesNotTellWhichRepositoriesAreUsed(t *testing.T) {
	s := senders()["GitHub"]
	r := newReceiver(t)
	status, text, _ := r.send(s.request(t, rightKey))
	r.known = false
	otherStatus, otherText, result := r.send(s.request(t, otherKey))
	if status != otherStatus || text != otherText || result != controller.WebhookUnknown {
		t.Errorf("answered %d %q and %d %q, counted as %s", status, text, otherStatus, otherText, result)
	}
}

func TestWhatIsNoPush(t *testing.T) {
	github := func(event, payload string) sender {
		return sender{headers: map[string]string{"X-GitHub-Event": event}, payload: payload, sign: hubSignature}
	}
	bitbucket := func(event, payload string) sender {
		return sender{headers: map[string]string{"X-Event-Key": event}, payload: payload, sign: bitbucketSignature}
	}
	for name, test := range map[string]struct {
		sender sender
		want   answer
	}{
		"GitHub tries the address":           {github("ping", `{"zen": "Design for failure.", "hook_id": 1}`), ignored},
		"an issue":                           {github("issues", "github-push.json"), ignored},
		"Bitbucket tries the address":        {bitbucket("diagnostics:ping", `{"test": true}`), ignored},
		"a comment on a pull request":        {bitbucket("pr:comment:added", "bitbucket-server-push.json"), ignored},
		"GitLab has a new user":              {sender{headers: map[string]string{"X-Gitlab-Event": "System Hook"}, payload: "gitlab-user.json", sign: gitlabToken}, ignored},
		"no JSON":                            {github("push", "payload"), noPayload},
		"JSON of another shape":              {github("push", `{"repository": "infra"}`), noPayload},
		"nothing":                            {github("push", ""), noPayload},
		"a repository without URLs":          {github("push", `{"repository": {"name": "infra"}}`), noRepository},
		"a URL that could be an option":      {github("push", `{"repository": {"clone_url": "--upload-pack=x"}}`), noRepository},
		"a server that sends no clone links": {bitbucket("repo:refs_changed", `{"repository": {"slug": "infra", "project": {"key": "INF"}}}`), noRepository},
		"a sender that is not known":         {sender{headers: map[string]string{"X-Other-Event": "push"}, payload: "{}", sign: hubSignature}, noProvider},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			status, text, result := r.send(test.sender.request(t, rightKey))
			if got := (answer{status, result, strings.TrimSuffix(text, "\n")}); got != test.want || len(r.offered) > 0 {
				t.Errorf("answered %+v, want %+v; offered %v", got, test.want, r.offered)
			}
		})
	}
}

func TestABodyThatIsTooLongIsRefused(t *testing.T) {
	r := newReceiver(t)
	s := senders()["GitHub"]
	s.payload = `{"x": "` + strings.Repeat("x", 256<<10) + `"}`
	announced := s.request(t, rightKey)
	streamed := s.request(t, rightKey)
	streamed.ContentLength = -1
	for name, request := range map[string]*http.Request{"announced": announced, "streamed": streamed} {
		if status, _, result := r.send(request); status != http.StatusRequestEntityTooLarge || result != controller.WebhookTooLarge {
			t.Errorf("%s: answered %d, counted as %s", name, status, result)
		}
	}
	if free := r.room.free.Load(); free != allBodies {
		t.Errorf("%d bytes of room are not given back", allBodies-free)
	}
	s.payload = `{"repository": {"clone_url": "https://example.com/infra.git", "x": "` + strings.Repeat("x", 200<<10) + `"}}`
	if status, _, _ := r.send(s.request(t, rightKey)); status != http.StatusAccepted {
		t.Errorf("a long one that is short enough: %d", status)
	}
}

// All bodies together take no more memory than there is for them, whoever sends them.
func TestBodiesTogetherAreBounded(t *testing.T) {
	r := newReceiver(t)
	s := senders()["GitHub"]
	r.room = newRoom(chunk / 2)
	if status, _, result := r.send(s.request(t, rightKey)); status != http.StatusServiceUnavailable || result != controller.WebhookUnavailable {
		t.Errorf("answered %d, counted as %s", status, result)
	}
	r.room = newRoom(chunk)
	for range 3 {
		if status, _, _ := r.send(s.request(t, rightKey)); status != http.StatusAccepted {
			t.Errorf("answered %d though there is room", status)
		}
	}
}

func TestABodyThatBreaksOff(t *testing.T) {
	r := newReceiver(t)
	request := httptest.NewRequest(http.MethodPost, Path, io.MultiReader(strings.NewReader("{"), brokenReader{}))
	request.Header.Set("X-GitHub-Event", "push")
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(rightKey, "{")))
	if status, _, _ := r.send(request); status != http.StatusRequestTimeout || r.room.free.Load() != allBodies {
		t.Errorf("answered %d, %d bytes free", status, r.room.free.Load())
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestAWebhookThatCannotBeTakenIsSentAgain(t *testing.T) {
	r := newReceiver(t)
	r.err = errors.New("the cache is not there")
	status, text, _ := r.send(senders()["GitHub"].request(t, rightKey))
	if status != http.StatusServiceUnavailable || strings.Contains(text, "cache") || !strings.Contains(r.log.String(), "the cache is not there") {
		t.Errorf("answered %d %q, logged %s", status, text, &r.log)
	}
}

// A Secret that changes is used with the next request; without a key nothing is taken, and the log says which and why, once, without the key.
func TestKeysRotate(t *testing.T) {
	r := newReceiver(t)
	s := senders()["GitHub"]
	want := func(what, key string, status int) {
		t.Helper()
		if got, text, _ := r.send(s.request(t, key)); got != status {
			t.Errorf("%s: answered %d %q, want %d", what, got, text, status)
		}
	}
	want("the old key", rightKey, http.StatusAccepted)
	r.write(t, "team-a", wrongKey)
	want("the old key after the change", rightKey, http.StatusUnauthorized)
	want("the new key", wrongKey, http.StatusAccepted)
	want("the key of another team", otherKey, http.StatusAccepted)
	r.write(t, "team-a", "short")
	want("a key that can be guessed", "short", http.StatusUnauthorized)
	for _, name := range []string{"team-b", "gitlab"} {
		if err := os.Remove(filepath.Join(r.keys, name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		want("no key", otherKey, http.StatusServiceUnavailable)
	}
	if got := r.log.String(); strings.Count(got, "the key team-a of webhooks is not used: it has 5 bytes") != 2 || strings.Count(got, "there is no key for webhooks") != 1 || strings.Contains(got, "=short") {
		t.Errorf("logged\n%s", got)
	}
	if err := os.RemoveAll(r.keys); err != nil {
		t.Fatal(err)
	}
	want("no folder", otherKey, http.StatusServiceUnavailable)
}
