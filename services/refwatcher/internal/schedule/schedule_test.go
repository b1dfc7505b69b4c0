package schedule

import (
	"fmt"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

var (
	start    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	settings = Settings{MaxBackoff: 10 * time.Minute, MinGap: time.Second, PerHost: 2, Total: 4, Jitter: 0.1, Patience: DefaultPatience}
)

func target(remote string, interval time.Duration) Target {
	return Target{Remote: remote, Host: "h", Name: "main", Interval: interval}
}

func wantStart(t *testing.T, s *Schedule, now time.Time, want ...string) {
	t.Helper()
	for _, w := range want {
		if got, ok := s.Start(now); !ok || got != w {
			t.Fatalf("Start at +%s gives %q, %v; want %s", now.Sub(start), got, ok, w)
		}
	}
	if got, ok := s.Start(now); ok {
		t.Fatalf("Start at +%s gives %q; want nothing more", now.Sub(start), got)
	}
}

// wantWithin asserts when a remote is due: never later than its interval, and at most a tenth earlier.
func wantWithin(t *testing.T, s *Schedule, remote string, from time.Time, interval time.Duration) time.Time {
	t.Helper()
	due, ok := s.Due(remote)
	next := due.Next
	if !ok || next.After(from.Add(interval)) || next.Before(from.Add(interval-interval/10)) {
		t.Fatalf("%s is due %s after, %v; want %s less a tenth at most", remote, next.Sub(from), ok, interval)
	}
	return next
}

func TestOnePollForAllWorkspacesOfARemote(t *testing.T) {
	s := New(settings)
	for i := range 50 {
		s.Set(start, fmt.Sprintf("ws-%d", i), target("r", time.Minute))
	}
	wantStart(t, s, start, "r")
	s.Finish(start, "r", Answered, 0)
	next := wantWithin(t, s, "r", start, time.Minute)
	wantStart(t, s, next.Add(-time.Nanosecond))
	wantStart(t, s, next, "r")
}

func TestShortestIntervalCountsAndChangesCountAtOnce(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", time.Hour))
	wantStart(t, s, start, "r")
	s.Finish(start, "r", Answered, 0)
	wantWithin(t, s, "r", start, time.Hour)
	s.Set(start.Add(time.Minute), "a", target("r", 10*time.Minute))
	wantWithin(t, s, "r", start, 10*time.Minute)
	s.Set(start.Add(time.Minute), "a", target("r", 20*time.Minute))
	wantWithin(t, s, "r", start, 20*time.Minute)

	s.Set(start.Add(2*time.Minute), "b", target("r", 5*time.Minute))
	wantStart(t, s, start.Add(2*time.Minute), "r")
	s.Finish(start.Add(2*time.Minute), "r", Answered, 0)
	wantWithin(t, s, "r", start.Add(2*time.Minute), 5*time.Minute)
	s.Remove("b")
	wantWithin(t, s, "r", start.Add(2*time.Minute), 20*time.Minute)
}

func TestAnIntervalThatHasPassedAlreadyIsDueAtOnce(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", time.Hour))
	wantStart(t, s, start, "r")
	s.Finish(start, "r", Answered, 0)
	s.Set(start.Add(30*time.Minute), "a", target("r", time.Minute))
	wantStart(t, s, start.Add(30*time.Minute), "r")
}

func TestArrivals(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", time.Hour))
	wantStart(t, s, start, "r")
	// Arrives while the poll runs: it may have been listed for the others only, so another follows once the gap is over.
	s.Set(start, "b", Target{Remote: "r", Host: "h", Name: "v1", Interval: time.Hour})
	wantStart(t, s, start)
	s.Finish(start.Add(100*time.Millisecond), "r", Answered, 0)
	wantStart(t, s, start.Add(999*time.Millisecond))
	wantStart(t, s, start.Add(time.Second), "r")
	s.Finish(start.Add(time.Second), "r", Answered, 0)
	wantWithin(t, s, "r", start.Add(time.Second), time.Hour)

	// Another name of the same Workspace is an arrival; the same once more is none.
	later := start.Add(time.Minute)
	s.Set(later, "b", Target{Remote: "r", Host: "h", Name: "v2", Interval: time.Hour})
	s.Set(later, "b", Target{Remote: "r", Host: "h", Name: "v2", Interval: time.Hour})
	wantStart(t, s, later, "r")
	s.Finish(later, "r", Answered, 0)
	s.Set(later, "b", Target{Remote: "r", Host: "h", Name: "v2", Interval: time.Hour})
	wantStart(t, s, later.Add(time.Second))
}

func TestAFailingRemoteBacksOffAndRecovers(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", time.Minute))
	now := start
	for _, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		wantStart(t, s, now, "r")
		s.Finish(now, "r", Refused, 0)
		now = wantWithin(t, s, "r", now, want)
	}
	wantStart(t, s, now, "r")
	s.Finish(now, "r", Answered, 0)
	wantWithin(t, s, "r", now, time.Minute)
}

func TestBackoffNeverShortensAnInterval(t *testing.T) {
	if got := (Settings{MaxBackoff: time.Minute}).backoff(time.Hour, Refused, 3); got != time.Hour {
		t.Errorf("got %s, want the interval", got)
	}
	if got := (Settings{MaxBackoff: time.Hour}).backoff(time.Second, Refused, 1<<20); got != time.Hour {
		t.Errorf("got %s, want the longest", got)
	}
}

// A git server that is restarted is away for seconds, and a push to it must not wait for a back-off of minutes.
func TestARestartedServerIsAskedAgainSoon(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", 30*time.Second))
	now := start
	for i, want := range []time.Duration{2, 4, 8, 16, 30, 30, 30, 30, 60, 120, 240, 480, 600, 600} {
		wantStart(t, s, now, "r")
		s.Finish(now, "r", Unreachable, 0)
		now = wantWithin(t, s, "r", now, want*time.Second)
		if i < DefaultPatience && want > 30 {
			t.Errorf("the back-off is longer than the interval after %d failures", i+1)
		}
	}
	wantStart(t, s, now, "r")
	s.Finish(now, "r", Answered, 0)
	now = wantWithin(t, s, "r", now, 30*time.Second)
	wantStart(t, s, now, "r")
	s.Finish(now, "r", Unreachable, 0)
	wantWithin(t, s, "r", now, 2*time.Second)
}

// What a server asks for is kept, whoever arrives or pushes meanwhile; up to an hour.
func TestRetryAfterIsHonoured(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", time.Minute))
	wantStart(t, s, start, "r")
	s.Finish(start, "r", Refused, 10*time.Minute)
	s.Prompt(start.Add(time.Minute), "r")
	s.Set(start.Add(time.Minute), "b", Target{Remote: "r", Host: "h", Name: "v1", Interval: time.Second})
	wantStart(t, s, start.Add(10*time.Minute-time.Nanosecond))
	wantStart(t, s, start.Add(10*time.Minute), "r")
	s.Finish(start.Add(10*time.Minute), "r", Refused, 1000*time.Hour)
	wantStart(t, s, start.Add(70*time.Minute-time.Nanosecond))
	wantStart(t, s, start.Add(70*time.Minute), "r")
	s.Finish(start.Add(70*time.Minute), "r", Answered, 0)
	wantWithin(t, s, "r", start.Add(70*time.Minute), time.Second)
}

func TestAPromptIsDueAtOnceAndCoalesced(t *testing.T) {
	s := New(settings)
	if s.Prompt(start, "r") {
		t.Error("a remote that nobody wants was prompted")
	}
	s.Set(start, "a", target("r", time.Hour))
	wantStart(t, s, start, "r")
	// While it is polled, the poll may have begun too early for the push: one more follows, however many prompts come.
	for range 100 {
		s.Prompt(start.Add(100*time.Millisecond), "r")
	}
	s.Finish(start.Add(200*time.Millisecond), "r", Answered, 0)
	wantStart(t, s, start.Add(999*time.Millisecond))
	wantStart(t, s, start.Add(time.Second), "r")
	s.Finish(start.Add(time.Second), "r", Answered, 0)
	wantWithin(t, s, "r", start.Add(time.Second), time.Hour)
	s.Prompt(start.Add(time.Minute), "r")
	wantStart(t, s, start.Add(time.Minute), "r")
}

// A host that hangs holds one poll at a time, not its whole share, until it speaks again.
func TestASilentHostGetsOnePollAtATime(t *testing.T) {
	s := New(Settings{MaxBackoff: time.Minute, MinGap: time.Second, PerHost: 3, Total: 100})
	for i := range 6 {
		s.Set(start.Add(time.Duration(i)), fmt.Sprint(i), Target{Remote: fmt.Sprint(i), Host: "h", Name: "x", Interval: time.Hour})
	}
	now := start.Add(time.Second)
	wantStart(t, s, now, "0", "1", "2")
	s.Finish(now, "0", Unreachable, 0)
	wantStart(t, s, now)
	s.Finish(now, "1", Unreachable, 0)
	s.Finish(now, "2", Unreachable, 0)
	wantStart(t, s, now, "3")
	s.Finish(now, "3", Refused, 0)
	wantStart(t, s, now, "4", "5")
}

func TestOneHostNeverTakesEveryPlace(t *testing.T) {
	s := New(settings)
	for i := range 10 {
		s.Set(start.Add(time.Duration(i)), fmt.Sprintf("bad-%d", i), Target{Remote: fmt.Sprintf("bad-%d", i), Host: "bad", Name: "x", Interval: time.Minute})
	}
	s.Set(start.Add(time.Hour), "good", Target{Remote: "good", Host: "good", Name: "x", Interval: time.Minute})
	// The bad host is due longest and gets its two places; the good one does not wait behind the rest.
	wantStart(t, s, start.Add(time.Hour), "bad-0", "bad-1", "good")
	s.Finish(start.Add(time.Hour), "bad-1", Refused, 0)
	wantStart(t, s, start.Add(time.Hour), "bad-2")
}

func TestTotalBounds(t *testing.T) {
	s := New(settings)
	for i := range 6 {
		s.Set(start.Add(time.Duration(i)), fmt.Sprint(i), Target{Remote: fmt.Sprint(i), Host: fmt.Sprint(i), Name: "x", Interval: time.Minute})
	}
	now := start.Add(time.Second)
	wantStart(t, s, now, "0", "1", "2", "3")
	if at, ok := s.Wake(); ok {
		t.Errorf("Wake = %s although no place is free", at)
	}
	s.Finish(now, "2", Answered, 0)
	wantStart(t, s, now, "4")
}

func TestARemovedRemoteIsForgottenAlsoWhilePolled(t *testing.T) {
	s := New(settings)
	s.Set(start, "a", target("r", time.Minute))
	wantStart(t, s, start, "r")
	s.Remove("a")
	s.Remove("a")
	if _, ok := s.Due("r"); ok || s.Remotes() != 0 {
		t.Error("the remote is still wanted")
	}
	s.Finish(start, "r", Answered, 0)
	s.Finish(start, "r", Answered, 0)
	if len(s.remotes)+len(s.hosts)+len(s.targets)+len(s.ready) != 0 || s.running != 0 {
		t.Errorf("left over: %+v", s)
	}
}

func TestJitterPartsRemotesAndIsDeterministic(t *testing.T) {
	seen := map[float64]bool{}
	for i := range 100 {
		j := spread(fmt.Sprint(i), 1)
		if j < 0 || j >= 1 || j != spread(fmt.Sprint(i), 1) {
			t.Fatalf("spread %v", j)
		}
		seen[j] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 remotes share %d values", len(seen))
	}
}

func TestInterval(t *testing.T) {
	for value, want := range map[string]time.Duration{"": v1alpha1.DefaultGitPollInterval, "5m": 5 * time.Minute, "1h30m": 90 * time.Minute, "10ms": MinInterval, "1s": time.Second} {
		if got, err := Interval(value); err != nil || got != want {
			t.Errorf("Interval(%q) = %s, %v; want %s", value, got, err, want)
		}
	}
	for _, value := range []string{"30", "soon", "-1m", "0", "0s", "1d", " 30s"} {
		if got, err := Interval(value); err == nil || got != v1alpha1.DefaultGitPollInterval {
			t.Errorf("Interval(%q) = %s, %v; want the default and an error", value, got, err)
		}
	}
}
