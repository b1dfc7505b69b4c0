package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/schedule"
)

const (
	rightKey = "correct horse battery staple"
	otherKey = "another key of another team"
	wrongKey = "wrong horse battery staple.."
)

// signingKey is one of the kind that GitLab makes; its bytes are what is encoded in it.
var signingKey = keyPrefix + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

func mac(key, text string) []byte {
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte(text))
	return sum.Sum(nil)
}

// sender makes requests as one kind of server does.
type sender struct {
	headers map[string]string
	payload string
	form    bool
	// sign puts the proof into the headers of a request with this body; payload is what the body has inside, where it is a form.
	sign func(h http.Header, key, body, payload string)
}

func hubSignature(h http.Header, key, body, _ string) {
	h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(key, body)))
}

func giteaSignature(h http.Header, key, _, payload string) {
	h.Set("X-Gitea-Signature", hex.EncodeToString(mac(key, payload)))
}

func bitbucketSignature(h http.Header, key, body, _ string) {
	h.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac(key, body)))
}

func gitlabToken(h http.Header, key, _, _ string) { h.Set("X-Gitlab-Token", key) }

func gitlabSignature(h http.Header, key, body, _ string) {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, keyPrefix))
	if err != nil {
		decoded = []byte(key)
	}
	h.Set("Webhook-Id", "f5e5f430-f57b-4e6e-9fac-d9128cd7232f")
	h.Set("Webhook-Timestamp", "1785513600")
	sum := mac(string(decoded), "f5e5f430-f57b-4e6e-9fac-d9128cd7232f.1785513600."+body)
	h.Set("Webhook-Signature", "v2,c29tZXRoaW5n v1,"+base64.StdEncoding.EncodeToString(sum))
}

// senders are the servers that are understood, with a push of each.
func senders() map[string]sender {
	return map[string]sender{
		"GitHub":                  {headers: map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature": "sha1=00"}, payload: "github-push.json", sign: hubSignature},
		"GitHub, as a form":       {headers: map[string]string{"X-GitHub-Event": "push"}, payload: "github-push.json", form: true, sign: hubSignature},
		"GitLab with a token":     {headers: map[string]string{"X-Gitlab-Event": "Push Hook"}, payload: "gitlab-push.json", sign: gitlabToken},
		"GitLab with a signature": {headers: map[string]string{"X-Gitlab-Event": "Tag Push Hook"}, payload: "gitlab-push.json", sign: gitlabSignature},
		"GitLab for all of it":    {headers: map[string]string{"X-Gitlab-Event": "System Hook"}, payload: "gitlab-push.json", sign: gitlabToken},
		"Gitea":                   {headers: map[string]string{"X-GitHub-Event": "push", "X-Gogs-Event": "push", "X-Gitea-Event": "push"}, payload: "gitea-push.json", sign: giteaSignature},
		"Gitea, as a form":        {headers: map[string]string{"X-Gitea-Event": "push"}, payload: "gitea-push.json", form: true, sign: giteaSignature},
		"Forgejo": {headers: map[string]string{"X-Forgejo-Event": "push"}, payload: "gitea-push.json", sign: func(h http.Header, key, _, payload string) {
			h.Set("X-Forgejo-Signature", hex.EncodeToString(mac(key, payload)))
		}},
		"Forgejo, signed as GitHub": {headers: map[string]string{"X-Forgejo-Event": "push"}, payload: "gitea-push.json", sign: hubSignature},
		"Bitbucket Cloud":           {headers: map[string]string{"X-Event-Key": "repo:push"}, payload: "bitbucket-cloud-push.json", sign: bitbucketSignature},
		"Bitbucket Data Center":     {headers: map[string]string{"X-Event-Key": "repo:refs_changed"}, payload: "bitbucket-server-push.json", sign: bitbucketSignature},
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// request is one of a sender that holds the key.
func (s sender) request(t *testing.T, key string) *http.Request {
	t.Helper()
	payload := s.payload
	if strings.HasSuffix(payload, ".json") {
		payload = read(t, payload)
	}
	body, kind := payload, "application/json"
	if s.form {
		body, kind = url.Values{"payload": {payload}}.Encode(), "application/x-www-form-urlencoded; charset=utf-8"
	}
	request := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	request.Header.Set("Content-Type", kind)
	for name, value := range s.headers {
		request.Header.Set(name, value)
	}
	s.sign(request.Header, key, body, payload)
	return request
}

// keyOf is a key that a sender can use.
func (s sender) keyOf(t *testing.T) string {
	if s.request(t, rightKey).Header.Get("Webhook-Signature") != "" {
		return signingKey
	}
	return rightKey
}

// receiver is a Handler and what it did.
type receiver struct {
	*Handler
	keys    string
	offered []refs.URL
	results []string
	log     bytes.Buffer
	known   bool
	err     error
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{keys: t.TempDir(), known: true}
	r.write(t, "team-a", rightKey+"\n")
	r.write(t, "team-b", otherKey)
	r.write(t, "gitlab", signingKey)
	r.Handler = NewHandler(HandlerConfig{
		Keys: Keys{Folder: r.keys}, MaxBody: 256 << 10,
		Offer: func(_ context.Context, urls []refs.URL) (bool, error) {
			r.offered = append(r.offered, urls...)
			return r.known, r.err
		},
		Count: func(result string) { r.results = append(r.results, result) },
		Log:   slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	return r
}

func (r *receiver) write(t *testing.T, name, key string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.keys, name), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
}

// send returns the status, the text and the result that was counted.
func (r *receiver) send(request *http.Request) (int, string, string) {
	recorder := httptest.NewRecorder()
	r.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String(), r.results[len(r.results)-1]
}

// places are what was offered, as a Workspace with one of these URLs would be found by.
func (r *receiver) places() map[string]bool {
	found := map[string]bool{}
	for _, url := range r.offered {
		found[schedule.Place(url)] = true
	}
	return found
}

func sha1Of(key, body string) string {
	sum := hmac.New(sha1.New, []byte(key))
	sum.Write([]byte(body))
	return "sha1=" + hex.EncodeToString(sum.Sum(nil))
}
