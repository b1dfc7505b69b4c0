package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// world drives a Schedule with random events and a clock of its own.
type world struct {
	t       *testing.T
	s       *Schedule
	rnd     *rand.Rand
	now     time.Time
	running map[string]bool
	polled  map[string]time.Time
}

func (w *world) step() {
	workspace := fmt.Sprint("ws-", w.rnd.IntN(30))
	switch w.rnd.IntN(10) {
	case 0, 1, 2:
		n := w.rnd.IntN(12)
		w.s.Set(w.now, workspace, Target{
			Remote: fmt.Sprint("remote-", n), Host: fmt.Sprint("host-", n%3), Name: fmt.Sprint(w.rnd.IntN(3)),
			Interval: time.Duration(1+w.rnd.IntN(600)) * time.Second,
		})
	case 3:
		w.s.Remove(workspace)
		w.s.Prompt(w.now, fmt.Sprint("remote-", w.rnd.IntN(12)))
	case 4, 5:
		for key := range w.running {
			w.finish(key, Outcome(w.rnd.IntN(3)), time.Duration(max(0, w.rnd.IntN(1200)-1000))*time.Second)
			break
		}
	case 6:
		w.now = w.now.Add(time.Duration(w.rnd.IntN(120)) * time.Second)
	default:
		w.start()
	}
}

func (w *world) start() {
	key, ok := w.s.Start(w.now)
	if !ok {
		return
	}
	if w.running[key] {
		w.t.Fatalf("%s is polled twice at a time", key)
	}
	w.running[key] = true
	w.polled[key] = w.now
}

func (w *world) finish(key string, outcome Outcome, retryAfter time.Duration) {
	delete(w.running, key)
	w.s.Finish(w.now, key, outcome, retryAfter)
}

// check holds after every event.
func (w *world) check() {
	perHost := map[*host]int{}
	for key, r := range w.s.remotes {
		if r.running != w.running[key] {
			w.t.Fatalf("%s: running %v, really %v", key, r.running, w.running[key])
		}
		if r.running {
			perHost[r.host]++
		}
		if inQueue := r.place != unplaced && r.host.idle[r.place] == r; inQueue == r.running {
			w.t.Fatalf("%s is in the queue: %v, running: %v", key, inQueue, r.running)
		}
	}
	if w.s.running != len(w.running) || w.s.running > w.s.settings.Total {
		w.t.Fatalf("%d polls run, counted %d", len(w.running), w.s.running)
	}
	for _, h := range w.s.hosts {
		if h.running != perHost[h] || h.running > w.s.settings.PerHost {
			w.t.Fatalf("%s: %d polls run, counted %d", h.key, perHost[h], h.running)
		}
		could := len(h.idle) > 0 && h.running < w.s.room(h)
		if listed := h.place != unplaced && w.s.ready[h.place] == h; listed != could {
			w.t.Fatalf("%s is ready: %v, listed: %v", h.key, could, listed)
		}
	}
	for i := range w.s.ready {
		if parent := (i - 1) / 2; i > 0 && w.s.ready[i].due().Before(w.s.ready[parent].due()) {
			w.t.Fatal("the heap of hosts is out of order")
		}
	}
}

// Whatever happened before, every remote that a Workspace wants is polled within its interval (its back-off, if it failed) and the time
// that the polls ahead of it take.
func TestNoWorkspaceIsEverForgotten(t *testing.T) {
	for seed := range uint64(60) {
		w := &world{
			t: t, s: New(Settings{MaxBackoff: 20 * time.Minute, MinGap: time.Second, PerHost: 1 + int(seed%3), Total: 1 + int(seed%5), Jitter: 0.1}),
			rnd: rand.New(rand.NewPCG(seed, 1)), now: start, running: map[string]bool{}, polled: map[string]time.Time{},
		}
		for range 600 {
			w.step()
			w.check()
		}
		w.calm()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// calm lets the clock run without further events, every poll taking a second, and asserts that everything wanted is polled.
func (w *world) calm() {
	begun := w.now
	for range 2000 {
		for key := range w.running {
			w.finish(key, Answered, 0)
		}
		for {
			before := len(w.running)
			w.start()
			if len(w.running) == before {
				break
			}
		}
		w.check()
		w.now = w.now.Add(time.Second)
	}
	for workspace, want := range w.s.targets {
		if !w.polled[want.Remote].After(begun) {
			w.t.Errorf("%s of %s was last polled at %s, calm since %s", want.Remote, workspace, w.polled[want.Remote], begun)
		}
	}
}
