package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// waiterMemory is how long a drift plan that was held keeps its place in the order. It asks again more often than that.
const waiterMemory = 4 * time.Minute

// DriftSlots bounds how many drift plans run at a time, so that what nobody waits for never takes what a person's run needs. The most overdue begins
// first. Nothing of it is durable: a new process counts the drift plans that it finds recorded.
type DriftSlots struct {
	limit  int
	reader client.Reader

	mutex   sync.Mutex
	counted bool
	// held are the Workspaces whose drift plan has not ended, with the version of the object that this was last seen on.
	held map[types.NamespacedName]string
	// urgent are the Workspaces whose pod has not started although a person waits for it.
	urgent map[types.NamespacedName]bool
	queue  map[types.NamespacedName]waiter
}

type waiter struct{ due, asked time.Time }

// NewDriftSlots allows limit drift plans at a time. The reader lists the Workspaces of all namespaces that the service works in, once.
func NewDriftSlots(limit int, reader client.Reader) *DriftSlots {
	return &DriftSlots{
		limit: limit, reader: reader,
		held: map[types.NamespacedName]string{}, urgent: map[types.NamespacedName]bool{}, queue: map[types.NamespacedName]waiter{},
	}
}

// observe takes note of a Workspace as this pass sees it.
func (s *DriftSlots) observe(seen lifecycle.Snapshot) {
	w := seen.Workspace
	key := client.ObjectKeyFromObject(w)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	version, isHeld := s.held[key]
	switch {
	case lifecycle.IsDriftPlan(w):
		s.held[key] = w.ResourceVersion
		delete(s.queue, key)
	case isHeld && version != w.ResourceVersion:
		// On the same version, the cache has yet to see the run that was recorded.
		delete(s.held, key)
	}
	run := w.Status.Run
	if run != nil && run.Trigger != v1alpha1.TriggerDrift && seen.Run != nil && seen.Run.State == lifecycle.RunPending {
		s.urgent[key] = true
	} else {
		delete(s.urgent, key)
	}
}

// forget drops a Workspace that is gone.
func (s *DriftSlots) forget(key types.NamespacedName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.held, key)
	delete(s.urgent, key)
	delete(s.queue, key)
}

// take reports whether the drift plan of w may begin now, and then holds a place for it. One that may not keeps its turn
// while it goes on asking.
func (s *DriftSlots) take(ctx context.Context, w *v1alpha1.Workspace, now time.Time) (bool, error) {
	if err := s.count(ctx); err != nil {
		return false, err
	}
	key := client.ObjectKeyFromObject(w)
	due, _ := lifecycle.DriftDue(w)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, isHeld := s.held[key]; isHeld {
		return true, nil
	}
	if s.isUrgent(w.Namespace) || s.ahead(key, due, now) >= s.limit-len(s.held) {
		s.queue[key] = waiter{due: due, asked: now}
		return false, nil
	}
	s.held[key] = w.ResourceVersion
	delete(s.queue, key)
	return true, nil
}

// isUrgent reports whether a person's run waits for its pod in the namespace: what a quota or the nodes have left is for that one.
func (s *DriftSlots) isUrgent(namespace string) bool {
	for key := range s.urgent {
		if key.Namespace == namespace {
			return true
		}
	}
	return false
}

// ahead counts those that were held before and are more overdue.
func (s *DriftSlots) ahead(key types.NamespacedName, due, now time.Time) int {
	count := 0
	for other, w := range s.queue {
		switch {
		case now.Sub(w.asked) > waiterMemory:
			delete(s.queue, other)
		case other != key && !s.isUrgent(other.Namespace) && w.due.Before(due):
			count++
		}
	}
	return count
}

// count finds, once, the drift plans that an earlier process has begun.
func (s *DriftSlots) count(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.counted {
		return nil
	}
	var all v1alpha1.WorkspaceList
	if err := s.reader.List(ctx, &all); err != nil {
		return fmt.Errorf("counting the drift plans that run: %w", err)
	}
	for i := range all.Items {
		if w := &all.Items[i]; lifecycle.IsDriftPlan(w) {
			s.held[client.ObjectKeyFromObject(w)] = w.ResourceVersion
		}
	}
	s.counted = true
	return nil
}
