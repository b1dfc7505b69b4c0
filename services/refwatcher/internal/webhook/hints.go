package webhook

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/schedule"
)

const (
	// pause between two deliveries: whatever comes meanwhile goes together.
	pause = 100 * time.Millisecond
	// retry is the pause after a delivery that failed.
	retry = time.Second
	// stale is how long a hint is kept that nobody takes: whoever leads then has asked every remote since.
	stale = 2 * time.Minute
)

// HintsConfig is what Hints need.
type HintsConfig struct {
	// Workspaces is the cache, with controller.IndexPlaces.
	Workspaces client.Reader
	// Pushed hands hints for a namespace to the poller of this replica; false if it does not poll.
	Pushed func(now time.Time, namespace string, urls []refs.URL) (int, bool)
	// Forward hands them to the replica that leads.
	Forward func(ctx context.Context, namespace string, urls []string) error
	// Grace is how long hints are delivered that come while the replica stops; default 0.
	Grace time.Duration
	// Clock and Log; both are needed.
	Clock clock.Clock
	Log   *slog.Logger
}

// Hints brings what webhooks tell to the replica that polls, which may be this one. Only hints on repositories that a Workspace uses are kept, one for each
// namespace and place: however many webhooks come, they take neither more memory nor more calls. Add it to a manager.
type Hints struct {
	config HintsConfig
	wake   chan struct{}

	mutex   sync.Mutex
	waiting map[hintKey]hint
}

type hintKey struct{ namespace, place string }

type hint struct {
	url refs.URL
	at  time.Time
}

// NewHints makes Hints that deliver nothing before they are started.
func NewHints(config HintsConfig) *Hints {
	return &Hints{config: config, wake: make(chan struct{}, 1), waiting: map[hintKey]hint{}}
}

// Offer keeps a hint for each namespace with a Workspace at one of the URLs, and says whether there is one.
func (h *Hints) Offer(ctx context.Context, urls []refs.URL) (known bool, err error) {
	for _, url := range urls {
		place := schedule.Place(url)
		namespaces, err := controller.NamespacesAt(ctx, h.config.Workspaces, place)
		if err != nil {
			return false, err
		}
		for namespace := range namespaces {
			known = true
			h.keep(hintKey{namespace, place}, hint{url, h.config.Clock.Now()})
		}
	}
	return known, nil
}

// keep takes a hint, unless there is a newer one.
func (h *Hints) keep(key hintKey, offered hint) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if kept, there := h.waiting[key]; !there || kept.at.Before(offered.at) {
		h.waiting[key] = offered
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection makes every replica deliver what comes to it.
func (h *Hints) NeedLeaderElection() bool { return false }

// Start delivers until ctx ends, and for the grace after it: for so long a stopping replica is still sent webhooks.
func (h *Hints) Start(ctx context.Context) error {
	h.run(ctx)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.config.Grace)
	defer cancel()
	h.run(grace)
	return nil
}

func (h *Hints) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		rest := pause
		if err := h.deliver(ctx); err != nil {
			h.config.Log.WarnContext(ctx, "hints of webhooks could not be delivered to the replica that polls; trying again", "error", err)
			rest = retry
		}
		select {
		case <-ctx.Done():
			return
		case <-h.config.Clock.After(rest):
		}
	}
}

// deliver hands over everything that waits, a namespace at a time. What nobody took waits on.
func (h *Hints) deliver(ctx context.Context) error {
	var failed error
	for namespace, hints := range h.take() {
		if err := h.hand(ctx, namespace, hints); err != nil {
			failed = err
			for key, kept := range hints {
				h.keep(key, kept)
			}
		}
	}
	return failed
}

// take empties what waits, without what has become stale.
func (h *Hints) take() map[string]map[hintKey]hint {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	taken := map[string]map[hintKey]hint{}
	for key, kept := range h.waiting {
		if h.config.Clock.Since(kept.at) > stale {
			continue
		}
		if taken[key.namespace] == nil {
			taken[key.namespace] = map[hintKey]hint{}
		}
		taken[key.namespace][key] = kept
	}
	h.waiting = map[hintKey]hint{}
	return taken
}

// hand gives one namespace's hints to this replica, and to the one that leads where this one does not poll.
func (h *Hints) hand(ctx context.Context, namespace string, hints map[hintKey]hint) error {
	urls := make([]refs.URL, 0, len(hints))
	for _, kept := range hints {
		urls = append(urls, kept.url)
	}
	if _, polls := h.config.Pushed(h.config.Clock.Now(), namespace, urls); polls {
		return nil
	}
	spellings := map[string]struct{}{}
	for _, url := range urls {
		spellings[url.String()] = struct{}{}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(spellings)), MaxURLs) {
		if err := h.config.Forward(ctx, namespace, some); err != nil {
			return err
		}
	}
	return nil
}

// MaxURLs is how many URLs a call of NotifyPush may name.
const MaxURLs = 100
