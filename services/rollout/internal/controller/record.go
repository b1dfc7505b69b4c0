package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/rollout/internal/progression"
)

// recorded says which statuses were written, on the version that was decided on.
type recorded struct {
	rollout, project bool
	// delay is when to write what was held back, 0 for nothing.
	delay time.Duration
}

// record writes the statuses that have changed, and then announces the transitions.
func (r *Reconciler) record(ctx context.Context, o *observed, d progression.Decision, now time.Time) (recorded, error) {
	var done recorded
	if d.Rollout != nil && !equality.Semantic.DeepEqual(&o.Rollout.Status, d.Rollout) {
		after := o.Rollout.DeepCopy()
		after.Status = *d.Rollout
		urgent := !equality.Semantic.DeepEqual(essence(o.Rollout.Status), essence(*d.Rollout))
		wrote, delay, err := r.write(ctx, o, "rollout", o.Rollout, after, urgent, now)
		if err != nil {
			return done, fmt.Errorf("recording the status of the Rollout: %w", err)
		}
		done.rollout, done.delay = wrote, delay
		if wrote {
			r.config.Metrics.ended(o.Rollout.Status.History, d.Rollout.History)
			o.Rollout = after
		}
	}
	if d.Project != nil && !equality.Semantic.DeepEqual(&o.Project.Status, d.Project) {
		after := o.Project.DeepCopy()
		after.Status = *d.Project
		urgent := o.Project.Status.Reason != d.Project.Reason || o.Project.Status.ObservedGeneration != d.Project.ObservedGeneration
		wrote, delay, err := r.write(ctx, o, "project", o.Project, after, urgent, now)
		if err != nil {
			return done, fmt.Errorf("recording the status of the Project: %w", err)
		}
		done.project, done.delay = wrote, soonest(done.delay, delay)
	}
	if err := r.consume(ctx, o, d.Consumed); err != nil {
		return done, err
	}
	r.announce(o, d.Events)
	return done, nil
}

// consume removes the commands of people from the Rollout, after what they ask for is recorded: a process that dies in between finds them again,
// and that they are obeyed.
func (r *Reconciler) consume(ctx context.Context, o *observed, annotations []string) error {
	if len(annotations) == 0 {
		return nil
	}
	after := o.Rollout.DeepCopy()
	if err := status.PatchAnnotations(ctx, r.config.Client, after, nil, annotations); err != nil {
		return fmt.Errorf("removing obeyed commands: %w", err)
	}
	r.written.Note(o.key, after)
	o.Rollout = after
	return nil
}

// write patches one status, unless it can wait and the last one was written a moment ago.
func (r *Reconciler) write(ctx context.Context, o *observed, kind string, before, after client.Object, urgent bool, now time.Time) (bool, time.Duration, error) {
	if !urgent {
		if wait := r.lazy.wait(o.key, kind, now); wait > 0 {
			return false, wait, nil
		}
	}
	if err := status.PatchStatus(ctx, r.config.Client, before, after); err != nil {
		return false, 0, err
	}
	r.lazy.wrote(o.key, kind, now)
	r.written.Note(o.key, after)
	return true, 0, nil
}

// essence is a status without what may be a moment old: counts, messages, and the clocks of members, which are found anew from their grants.
func essence(s v1alpha1.RolloutStatus) v1alpha1.RolloutStatus {
	e := *s.DeepCopy()
	e.Message = ""
	for i := range e.Steps {
		e.Steps[i].Total, e.Steps[i].Applied, e.Steps[i].Failed, e.Steps[i].Deadline = 0, 0, 0, nil
		members := e.Steps[i].Members
		e.Steps[i].Members = nil
		for _, m := range members {
			if m.Attempt > 0 {
				e.Steps[i].Members = append(e.Steps[i].Members, v1alpha1.RolloutStepMember{Name: m.Name, Attempt: m.Attempt})
			}
		}
	}
	for i := range e.Conditions {
		e.Conditions[i].Message = ""
		e.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	return e
}

// maxNote is how long the text of an Event may be.
const maxNote = 1000

// announce sends the Events of a decision that was recorded.
func (r *Reconciler) announce(o *observed, announced []progression.Event) {
	for _, e := range announced {
		var about client.Object = o.Project
		if e.About == progression.AboutRollout {
			about = o.Rollout
		}
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.config.Events.Eventf(about, nil, kind, e.Reason, "Orchestrate", "%s", cut(e.Message, maxNote))
	}
}

// lazyWrites spaces the writes of what changes with every Workspace: without it, each phase of each Workspace would
// cost a write of the Project's counts.
type lazyWrites struct {
	interval time.Duration
	mutex    sync.Mutex
	last     map[types.NamespacedName]map[string]time.Time
}

func newLazyWrites(interval time.Duration) *lazyWrites {
	return &lazyWrites{interval: interval, last: map[types.NamespacedName]map[string]time.Time{}}
}

// wait returns how long a write must wait, 0 for not at all.
func (l *lazyWrites) wait(key types.NamespacedName, kind string, now time.Time) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	last, ok := l.last[key][kind]
	if !ok {
		return 0
	}
	return max(0, last.Add(l.interval).Sub(now))
}

func (l *lazyWrites) wrote(key types.NamespacedName, kind string, now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.last[key] == nil {
		l.last[key] = map[string]time.Time{}
	}
	l.last[key][kind] = now
}

func (l *lazyWrites) forget(key types.NamespacedName) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.last, key)
}
