package rpc

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Hub tells every watcher which runs may have changed. A run that changes again before a watcher has come to it is told
// once: what a watcher owes is bounded by the number of runs, however slow it is.
type Hub struct {
	mutex    sync.Mutex
	watchers map[*watcher]struct{}
}

// NewHub makes a Hub.
func NewHub() *Hub { return &Hub{watchers: map[*watcher]struct{}{}} }

// Changed says that the run whose Job has this name may have changed. It never blocks.
func (h *Hub) Changed(job types.NamespacedName) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for w := range h.watchers {
		if w.namespace == "" || w.namespace == job.Namespace {
			w.add(job)
		}
	}
}

func (h *Hub) watch(namespace string) (w *watcher, stop func()) {
	w = &watcher{namespace: namespace, due: map[types.NamespacedName]bool{}, wake: make(chan struct{}, 1)}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.watchers[w] = struct{}{}
	return w, func() {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		delete(h.watchers, w)
	}
}

// watcher is a queue in which each name is at most once.
type watcher struct {
	namespace string

	mutex sync.Mutex
	due   map[types.NamespacedName]bool
	order []types.NamespacedName
	wake  chan struct{}
}

func (w *watcher) add(job types.NamespacedName) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.due[job] {
		return
	}
	w.due[job] = true
	w.order = append(w.order, job)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next waits for the next name.
func (w *watcher) next(ctx context.Context) (types.NamespacedName, error) {
	for {
		if job, ok := w.take(); ok {
			return job, nil
		}
		select {
		case <-ctx.Done():
			return types.NamespacedName{}, ctx.Err()
		case <-w.wake:
		}
	}
}

func (w *watcher) take() (types.NamespacedName, bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if len(w.order) == 0 {
		return types.NamespacedName{}, false
	}
	job := w.order[0]
	w.order = w.order[1:]
	delete(w.due, job)
	return job, true
}
