package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"sync"

	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/controller"
)

// Path is where webhooks are sent to.
const Path = "/webhook"

// HandlerConfig is what a Handler needs.
type HandlerConfig struct {
	// Keys that senders must know one of.
	Keys Keys
	// MaxBody of one request, in bytes.
	MaxBody int64
	// Offer takes the URLs of a repository that was pushed to, and says whether a Workspace has one. It does not wait for the poll.
	Offer func(context.Context, []refs.URL) (known bool, err error)
	// Count counts the requests by result, one of the constants of the package controller.
	Count func(result string)
	// Log is told what is wrong with the keys, once, and what cannot be read.
	Log *slog.Logger
}

// Handler answers webhooks. Whoever does not know a key learns nothing but that: nothing of the request is looked at before it was proven. Whoever does is
// told the same whether or not a Workspace uses the repository.
type Handler struct {
	config HandlerConfig
	room   *room

	mutex sync.Mutex
	// complaint is what was last said to be wrong with the keys.
	complaint string
}

// NewHandler makes a Handler.
func NewHandler(config HandlerConfig) *Handler {
	return &Handler{config: config, room: newRoom(allBodies)}
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	a := h.answer(request)
	h.config.Count(a.result)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if a.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
	}
	w.WriteHeader(a.status)
	_, _ = fmt.Fprintln(w, a.text)
}

type answer struct {
	status int
	result string
	text   string
}

var (
	accepted        = answer{http.StatusAccepted, controller.WebhookAccepted, "accepted: where a Workspace uses this repository it is asked now"}
	unknown         = answer{http.StatusAccepted, controller.WebhookUnknown, accepted.text}
	ignored         = answer{http.StatusOK, controller.WebhookIgnored, "ignored: this event tells of no change to a branch or tag"}
	unauthenticated = answer{http.StatusUnauthorized, controller.WebhookUnauthenticated, "the signature or token is missing or wrong"}
	tooLarge        = answer{http.StatusRequestEntityTooLarge, controller.WebhookTooLarge, "the body is too large"}
	slow            = answer{http.StatusRequestTimeout, controller.WebhookInvalid, "the body did not arrive"}
	busy            = answer{http.StatusServiceUnavailable, controller.WebhookUnavailable, "too many webhooks at a time"}
	noKeys          = answer{http.StatusServiceUnavailable, controller.WebhookUnavailable, "webhooks have no key here: see the log of the refwatcher"}
	notNow          = answer{http.StatusServiceUnavailable, controller.WebhookUnavailable, "webhooks cannot be taken now"}
	noProvider      = answer{
		http.StatusBadRequest, controller.WebhookInvalid, "no header says who sends: want X-GitHub-Event, X-Gitlab-Event, X-Gitea-Event, X-Forgejo-Event or X-Event-Key",
	}
	noPayload    = answer{http.StatusBadRequest, controller.WebhookInvalid, "the payload is not the JSON that this event has"}
	noRepository = answer{http.StatusBadRequest, controller.WebhookInvalid, "the payload names no URL of the repository"}
)

func (h *Handler) answer(request *http.Request) answer {
	sender, event := providerOf(request.Header)
	if sender == nil {
		return noProvider
	}
	keys := h.keys(request.Context())
	if len(keys) == 0 {
		return noKeys
	}
	claim := sender.prove(request.Header)
	proven := claim.hasToken(keys)
	if !proven && len(claim.macs) == 0 {
		return unauthenticated
	}
	body, give, err := h.room.read(request, h.config.MaxBody)
	defer give()
	switch {
	case errors.Is(err, errTooLarge):
		return tooLarge
	case errors.Is(err, errNoRoom):
		return busy
	case err != nil:
		return slow
	}
	content := jsonOf(request.Header.Get("Content-Type"), body)
	// GitHub signs what it sends, Gitea what it would send were it not a form.
	if !proven && !claim.signed(keys, body, content) {
		return unauthenticated
	}
	return h.take(request.Context(), sender, event, content)
}

// take is for requests that were proven.
func (h *Handler) take(ctx context.Context, sender *provider, event string, content []byte) answer {
	if !sender.isHint(event) {
		return ignored
	}
	urls, err := urlsOf(content)
	switch {
	case err != nil:
		return noPayload
	case len(urls) == 0 && event == systemHook:
		// These tell of users and keys too.
		return ignored
	case len(urls) == 0:
		return noRepository
	}
	known, err := h.config.Offer(ctx, urls)
	switch {
	case err != nil:
		h.config.Log.ErrorContext(ctx, "a webhook could not be taken", "error", err)
		return notNow
	case !known:
		return unknown
	}
	return accepted
}

// keys logs what is wrong with them when that changes.
func (h *Handler) keys(ctx context.Context) [][]byte {
	keys, err := h.config.Keys.Read()
	complaint := ""
	if err != nil {
		complaint = err.Error()
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if complaint != h.complaint && complaint != "" {
		h.config.Log.WarnContext(ctx, "keys of webhooks cannot be used", "error", complaint)
	}
	h.complaint = complaint
	return keys
}

// jsonOf takes the payload out of a form, as GitHub and Gitea can be told to send it.
func jsonOf(contentType string, body []byte) []byte {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return body
	}
	form, err := url.ParseQuery(string(bytes.TrimSpace(body)))
	if err != nil {
		return body
	}
	return []byte(form.Get("payload"))
}
