package runs

import (
	"sync"
	"time"
)

// recent remembers answers of the API server for a while, where an old one does no harm. It is safe for concurrent use.
type recent[V any] struct {
	lasts time.Duration

	mutex sync.Mutex
	known map[string]sighting[V]
}

type sighting[V any] struct {
	value V
	until time.Time
}

// maxRecent bounds the memory. A cluster with more than this asks more often.
const maxRecent = 4096

func newRecent[V any](lasts time.Duration) *recent[V] {
	return &recent[V]{lasts: lasts, known: map[string]sighting[V]{}}
}

func (r *recent[V]) get(key string, now time.Time) (value V, ok bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	seen, ok := r.known[key]
	if !ok || !now.Before(seen.until) {
		return value, false
	}
	return seen.value, true
}

func (r *recent[V]) put(key string, value V, now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.known) >= maxRecent {
		clear(r.known)
	}
	r.known[key] = sighting[V]{value, now.Add(r.lasts)}
}
