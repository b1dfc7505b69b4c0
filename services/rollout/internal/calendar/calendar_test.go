package calendar

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

const (
	allow = v1alpha1.WindowAllow
	deny  = v1alpha1.WindowDeny
)

func spec(kind v1alpha1.WindowKind, cron, duration, zone string) v1alpha1.RolloutWindow {
	d, err := time.ParseDuration(duration)
	if err != nil {
		panic(err)
	}
	return v1alpha1.RolloutWindow{Kind: kind, Cron: cron, Duration: metav1.Duration{Duration: d}, Zone: zone}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestWindowsAcrossTheChangeOfClocks has, for each schedule, the moments at which it changes one after the other, as the clocks of the zone show them.
func TestWindowsAcrossTheChangeOfClocks(t *testing.T) {
	for name, test := range map[string]struct {
		windows []v1alpha1.RolloutWindow
		from    string
		open    bool
		changes []string
	}{
		"UTC knows no change": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 2 * * *", "1h", "")}, "2026-03-28T12:00:00Z", false,
			[]string{"2026-03-29T02:00:00Z", "2026-03-29T03:00:00Z", "2026-03-30T02:00:00Z"},
		},
		"Berlin in spring: a night of 8 hours on the clock is 7 long": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 22 * * *", "8h", "Europe/Berlin")}, "2026-03-28T20:00:00+01:00", false,
			[]string{"2026-03-28T22:00:00+01:00", "2026-03-29T06:00:00+02:00", "2026-03-29T22:00:00+02:00"},
		},
		"Berlin in spring: the hour that is skipped does not come": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 2 * * *", "1h", "Europe/Berlin")}, "2026-03-28T12:00:00+01:00", false,
			[]string{"2026-03-30T02:00:00+02:00", "2026-03-30T03:00:00+02:00"},
		},
		"Berlin in spring: what is left of a window comes": {
			[]v1alpha1.RolloutWindow{spec(deny, "30 2 * * *", "1h", "Europe/Berlin")}, "2026-03-28T12:00:00+01:00", true,
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"},
		},
		"Berlin in autumn: a night of 8 hours on the clock is 9 long": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 22 * * *", "8h", "Europe/Berlin")}, "2026-10-24T20:00:00+02:00", false,
			[]string{"2026-10-24T22:00:00+02:00", "2026-10-25T06:00:00+01:00"},
		},
		"Berlin in autumn: an hour that comes twice is one window": {
			[]v1alpha1.RolloutWindow{spec(deny, "0 2 * * *", "1h", "Europe/Berlin")}, "2026-10-24T12:00:00+02:00", true,
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00", "2026-10-26T02:00:00+01:00"},
		},
		"Berlin in autumn: a part of it comes twice": {
			[]v1alpha1.RolloutWindow{spec(deny, "15 2 * * *", "30m", "Europe/Berlin")}, "2026-10-24T12:00:00+02:00", true,
			[]string{"2026-10-25T02:15:00+02:00", "2026-10-25T02:45:00+02:00", "2026-10-25T02:15:00+01:00", "2026-10-25T02:45:00+01:00", "2026-10-26T02:15:00+01:00"},
		},
		"Berlin in autumn: a weekend of 49 hours ends on Monday": {
			[]v1alpha1.RolloutWindow{spec(deny, "0 0 * * SAT", "48h", "Europe/Berlin")}, "2026-10-23T12:00:00+02:00", true,
			[]string{"2026-10-24T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		},
		"New York in spring": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 1 * * *", "3h", "America/New_York")}, "2026-03-07T12:00:00-05:00", false,
			[]string{"2026-03-08T01:00:00-05:00", "2026-03-08T04:00:00-04:00", "2026-03-09T01:00:00-04:00"},
		},
		"New York in autumn": {
			[]v1alpha1.RolloutWindow{spec(allow, "30 1 * * SUN", "30m", "America/New_York")}, "2026-10-31T12:00:00-04:00", false,
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T02:00:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:00:00-05:00", "2026-11-08T01:30:00-05:00"},
		},
		"Lord Howe in spring skips half an hour": {
			[]v1alpha1.RolloutWindow{spec(allow, "15 2 * * *", "30m", "Australia/Lord_Howe")}, "2026-10-03T12:00:00+10:30", false,
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-04T02:45:00+11:00", "2026-10-05T02:15:00+11:00"},
		},
		"Lord Howe in autumn has half an hour twice": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 1 * * *", "1h", "Australia/Lord_Howe")}, "2026-04-04T12:00:00+11:00", false,
			[]string{"2026-04-05T01:00:00+11:00", "2026-04-05T02:00:00+10:30", "2026-04-06T01:00:00+10:30"},
		},
		"two zones": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 9 * * MON-FRI", "8h", "Europe/Berlin"), spec(allow, "0 9 * * MON-FRI", "8h", "America/New_York")}, "2026-03-13T20:00:00Z", true,
			[]string{"2026-03-13T17:00:00-04:00", "2026-03-16T09:00:00+01:00", "2026-03-16T17:00:00-04:00"},
		},
		"Deny wins over Allow": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 8 * * *", "8h", ""), spec(deny, "0 10 * * *", "1h", ""), spec(deny, "30 10 * * *", "1h", "")}, "2026-06-01T07:00:00Z", false,
			[]string{"2026-06-01T08:00:00Z", "2026-06-01T10:00:00Z", "2026-06-01T11:30:00Z", "2026-06-01T16:00:00Z", "2026-06-02T08:00:00Z"},
		},
		"windows that touch are one": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 8 * * *", "2h", ""), spec(allow, "0 10 * * *", "2h", "")}, "2026-06-01T07:00:00Z", false,
			[]string{"2026-06-01T08:00:00Z", "2026-06-01T12:00:00Z"},
		},
		"a window that begins anew before it is over": {
			[]v1alpha1.RolloutWindow{spec(deny, "0 8-17 * * *", "90m", "")}, "2026-06-01T07:00:00Z", true,
			[]string{"2026-06-01T08:00:00Z", "2026-06-01T18:30:00Z"},
		},
		"the 29th of February": {
			[]v1alpha1.RolloutWindow{spec(allow, "0 0 29 2 *", "24h", "Europe/Berlin")}, "2026-06-01T00:00:00Z", false,
			[]string{"2028-02-29T00:00:00+01:00", "2028-03-01T00:00:00+01:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := Parse(test.windows)
			if err != nil {
				t.Fatal(err)
			}
			now, open := moment(t, test.from), test.open
			for _, text := range test.changes {
				if got := w.Open(now); got != open {
					t.Fatalf("open at %s is %v", now, got)
				}
				want := moment(t, text)
				change, ok := w.Next(now)
				if !ok || !change.Exact || !change.At.Equal(want) {
					t.Fatalf("the change after %s is %+v (%v), want %s", now, change, ok, text)
				}
				if w.Open(want.Add(-time.Nanosecond)) != open || w.Open(want) == open {
					t.Fatalf("it does not change at %s", text)
				}
				now, open = want, !open
			}
		})
	}
}

// TestNextMissesNoChange asks Open every five minutes of weeks in which the clocks of all three zones change, and compares.
func TestNextMissesNoChange(t *testing.T) {
	for name, windows := range map[string][]v1alpha1.RolloutWindow{
		"Berlin":    {spec(allow, "*/20 1-3 * * *", "10m", "Europe/Berlin"), spec(deny, "0 0 1,15 * *", "25h", "Europe/Berlin")},
		"Lord Howe": {spec(allow, "15 1,2 * * *", "50m", "Australia/Lord_Howe"), spec(deny, "0 2 * * SUN", "15m", "America/New_York")},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := Parse(windows)
			if err != nil {
				t.Fatal(err)
			}
			now := moment(t, "2026-03-01T00:00:00Z")
			end := now.AddDate(0, 1, 14)
			next, _ := w.Next(now)
			open := w.Open(now)
			for now.Before(end) {
				if now.Equal(next.At) {
					open = !open
					next, _ = w.Next(now)
				}
				if got := w.Open(now); got != open {
					t.Fatalf("open at %s is %v; the next change was to be at %s", now, got, next.At)
				}
				now = now.Add(5 * time.Minute)
			}
		})
	}
}

func TestWhatNeverChanges(t *testing.T) {
	now := moment(t, "2026-06-01T07:00:00Z")
	for name, test := range map[string]struct {
		windows []v1alpha1.RolloutWindow
		open    bool
	}{
		"no windows":                      {nil, true},
		"a day that no year has":          {[]v1alpha1.RolloutWindow{spec(allow, "0 0 30 2 *", "1h", "Europe/Berlin")}, false},
		"Allow under a Deny at all times": {[]v1alpha1.RolloutWindow{spec(allow, "0 8 * * *", "1h", ""), spec(deny, "0 0 * * *", "24h", "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := Parse(test.windows)
			if err != nil {
				t.Fatal(err)
			}
			if w.Open(now) != test.open {
				t.Errorf("open is %v", !test.open)
			}
			if change, ok := w.Next(now); ok && change.Exact {
				t.Errorf("it changes at %s", change.At)
			}
		})
	}
}

// A schedule that would take too long to follow answers with a moment until which it stays as it is.
func TestTooMuchToLookAtIsAskedAgain(t *testing.T) {
	w, err := Parse([]v1alpha1.RolloutWindow{spec(deny, "* * * 6 *", "1m", "")})
	if err != nil {
		t.Fatal(err)
	}
	now := moment(t, "2026-06-20T07:00:00Z")
	for range 20 {
		change, ok := w.Next(now)
		if !ok || !change.At.After(now) {
			t.Fatalf("after %s comes %+v, %v", now, change, ok)
		}
		now = change.At
		if change.Exact {
			break
		}
		if w.Open(now) {
			t.Fatalf("open at %s", now)
		}
	}
	if want := moment(t, "2026-07-01T00:00:00Z"); !now.Equal(want) {
		t.Errorf("opens at %s, want %s", now, want)
	}
}

func TestWhatCannotBeUnderstoodIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		window  v1alpha1.RolloutWindow
		message string
	}{
		"an unknown zone":        {spec(allow, "0 8 * * *", "1h", "Europe/Berlni"), "such as Europe/Berlin"},
		"the machine's own zone": {spec(allow, "0 8 * * *", "1h", "Local"), "such as Europe/Berlin"},
		"a file":                 {spec(allow, "0 8 * * *", "1h", "../../etc/passwd"), "such as Europe/Berlin"},
		"four fields":            {spec(allow, "0 8 * *", "1h", ""), "write five fields"},
		"a range backwards":      {spec(allow, "0 17-8 * * *", "1h", ""), "write five fields"},
		"a zone in cron":         {spec(allow, "TZ=Europe/Berlin", "1h", ""), "the zone in zone"},
		"a word":                 {spec(allow, "@daily", "1h", ""), "write five fields"},
		"no time":                {spec(allow, "0 8 * * *", "0s", ""), "write a time above zero"},
		"less":                   {spec(allow, "0 8 * * *", "-1h", ""), "write a time above zero"},
		"neither":                {spec("Maybe", "0 8 * * *", "1h", ""), "write Allow or Deny"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]v1alpha1.RolloutWindow{test.window}); err == nil || !strings.Contains(err.Error(), test.message) || !strings.Contains(err.Error(), "windows[0]") {
				t.Errorf("error %v, want it to say %q", err, test.message)
			}
		})
	}
}
