package lifecycle

import (
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"magosproject.io/api/v1alpha1"
)

// walkDepth: one step more multiplies the states by five. Depth 5 takes minutes and was walked for each change of the core.
var walkDepth = flag.Int("walk-depth", 4, "how many events the walk takes from each scene")

// TestWalk goes through every order of events up to a depth, from all scenes at once, and asks every law at every step.
func TestWalk(t *testing.T) {
	depth := *walkDepth
	if testing.Short() {
		depth = 3
	}
	w := walk{events: events(), seen: map[uint64]bool{}}
	var level []node
	for name, first := range scenes(t) {
		w.visit(first.key())
		level = append(level, node{first, &step{name: name}})
	}
	scenes := len(level)
	for d := range depth {
		next, err := w.expand(level, d < depth-1)
		if err != nil {
			t.Fatal(err)
		}
		level = next
	}
	t.Logf("visited %d states by %d transitions, to depth %d from %d scenes; from %d of them checked that the Workspace ends Applied or gone",
		len(w.seen), w.transitions, depth, scenes, w.settled)
	if len(w.seen) < 1000 {
		t.Fatal("the walk went nowhere")
	}
}

type walk struct {
	events []event

	mutex       sync.Mutex
	seen        map[uint64]bool
	transitions int
	settled     int
}

type node struct {
	o    *world
	last *step
}

// step is the way to a state, from its end.
type step struct {
	name   string
	before *step
}

func (s *step) String() string {
	if s.before == nil {
		return s.name
	}
	return s.before.String() + " → " + s.name
}

// visit reports whether a state is new, and which one in order.
func (w *walk) visit(key uint64) (isNew bool, number int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.seen[key] {
		return false, 0
	}
	w.seen[key] = true
	return true, len(w.seen)
}

// expand takes every event from every state of a level; the states that are new make the next one, if they are kept.
func (w *walk) expand(level []node, keep bool) ([]node, error) {
	workers := max(runtime.GOMAXPROCS(0), 1)
	found := make([][]node, workers)
	var group errgroup.Group
	for i := range workers {
		group.Go(func() error {
			for at := i; at < len(level); at += workers {
				next, err := w.from(level[at])
				if err != nil {
					return err
				}
				if keep {
					found[i] = append(found[i], next...)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	w.transitions += len(level) * len(w.events)
	var next []node
	for _, part := range found {
		next = append(next, part...)
	}
	return next, err
}

func (w *walk) from(n node) ([]node, error) {
	var next []node
	for _, e := range w.events {
		o := n.o.clone()
		way := &step{e.name, n.last}
		if err := e.do(o); err != nil {
			return nil, fmt.Errorf("%w\n  after: %s", err, way)
		}
		isNew, number := w.visit(o.key())
		if !isNew {
			continue
		}
		if err := w.check(o, number); err != nil {
			return nil, fmt.Errorf("%w\n  after: %s", err, way)
		}
		next = append(next, node{o, way})
	}
	return next, nil
}

// check asks of a new state whether it is steady, and of every eighth whether it can come to a good end.
func (w *walk) check(o *world, number int) error {
	if err := checkSteady(o); err != nil {
		return err
	}
	if number%8 != 0 {
		return nil
	}
	w.mutex.Lock()
	w.settled++
	w.mutex.Unlock()
	return settle(o.clone())
}

// checkSteady: a pass that does nothing outside records what is there already when it is repeated.
func checkSteady(o *world) error {
	s := o.snapshot(o.w.DeepCopy())
	d := Decide(s)
	if again := Decide(s); !reflect.DeepEqual(d, again) {
		return fmt.Errorf("two decisions on one snapshot: %v and %v", d, again)
	}
	if d.Action != ActNone {
		return nil
	}
	once := Status(s, d, Outcome{Kind: OutcomeDone})
	s.Workspace.Status = once
	if d = Decide(s); d.Action != ActNone {
		return nil
	}
	if twice := Status(s, d, Outcome{Kind: OutcomeDone}); !reflect.DeepEqual(once, twice) {
		return fmt.Errorf("a pass that changes nothing records something else:\n%+v\n%+v", once, twice)
	}
	return nil
}

// settle checks that nothing is stuck: with a friendly world around it, the Workspace ends Applied at its inputs, or gone.
func settle(o *world) error {
	o.project, o.ordered, o.missing, o.blocked, o.pending, o.stalled = true, false, false, false, nil, nil
	o.w.Spec.Suspend, o.w.Spec.Retry.Limit = false, nil
	detect(o.w, "c2")
	setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
	o.version++
	for range 60 {
		if err := o.pass(noFault); err != nil {
			return fmt.Errorf("while settling: %w", err)
		}
		st := &o.w.Status
		if o.gone || st.Phase == v1alpha1.PhaseApplied && st.ObservedRevision == "c2" && !isLive(st.Run) && st.Wants == nil {
			return nil
		}
		_ = jobEnds(o, job{state: RunSucceeded})
		if isAwaited(st) {
			o.w.Annotations[v1alpha1.AnnotationApproved] = st.Run.ID
			o.version++
		}
		if isCancelled(st.Run) {
			o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "settle"
			o.version++
		}
		if isFailing(o.w) || st.Run != nil && st.Run.RetryAt != nil {
			o.now = o.now.Add(3 * time.Hour)
		}
	}
	return fmt.Errorf("stuck: %+v, run %+v", o.w.Status, o.w.Status.Run)
}
