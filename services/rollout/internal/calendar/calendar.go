// Package calendar says when windows let something begin. It is pure: the time is an argument.
//
// A window is read off the clock on the wall of its zone: it is open at a moment if that clock shows a time from a start of its schedule on, and less
// than its duration after it. So a night from 22:00 for 8h ends at 06:00 whether or not the clocks change in it; what lies in an hour that is skipped
// does not come, and an hour that comes twice counts twice.
package calendar

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the image has no zone data of its own

	"github.com/robfig/cron/v3"

	"magosproject.io/api/v1alpha1"
)

const (
	// DefaultZone is the zone of a window that names none.
	DefaultZone = "UTC"
	// Horizon is how far ahead a change is looked for; what does not come until then is said to come never.
	Horizon = 5 * 366 * 24 * time.Hour
	// maxLooks bounds the work of one question. Beyond it the answer is a moment until which nothing changes.
	maxLooks = 2000
)

// Windows are the windows of a Rollout.
type Windows struct {
	allow, deny []window
}

type window struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

// Parse understands what people wrote. An error says which window cannot be understood and what to write instead.
func Parse(specs []v1alpha1.RolloutWindow) (Windows, error) {
	var all Windows
	var errs []error
	for i := range specs {
		parsed, err := parse(&specs[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("windows[%d]: %w", i, err))
			continue
		}
		switch specs[i].Kind {
		case v1alpha1.WindowAllow:
			all.allow = append(all.allow, parsed)
		case v1alpha1.WindowDeny:
			all.deny = append(all.deny, parsed)
		default:
			errs = append(errs, fmt.Errorf("windows[%d]: kind is %q: write Allow or Deny", i, specs[i].Kind))
		}
	}
	return all, errors.Join(errs...)
}

func parse(spec *v1alpha1.RolloutWindow) (window, error) {
	zone, err := load(spec.Zone)
	if err != nil {
		return window{}, err
	}
	schedule, err := parseCron(spec.Cron)
	if err != nil {
		return window{}, err
	}
	if spec.Duration.Duration <= 0 {
		return window{}, fmt.Errorf("duration is %s: write a time above zero, such as 8h", spec.Duration.Duration)
	}
	return window{schedule: schedule, duration: spec.Duration.Duration, zone: zone}, nil
}

var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func parseCron(text string) (cron.Schedule, error) {
	if strings.ContainsAny(text, "@=") { // the library would take a zone from it
		return nil, fmt.Errorf("cron is %q: write five fields, such as \"0 22 * * MON-FRI\", and the zone in zone", text)
	}
	schedule, err := fields.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cron is %q: write five fields (minute, hour, day of month, month, day of week), such as \"0 22 * * MON-FRI\": %w", text, err)
	}
	return schedule, nil
}

// zones holds those that were loaded; there are only as many as the zone data has.
var zones sync.Map

func load(name string) (*time.Location, error) {
	if name == "" {
		name = DefaultZone
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("zone is %q, which is not known: write a name of the IANA time zone database, such as Europe/Berlin, or leave it out for UTC", name)
	}
	zones.Store(name, zone)
	return zone, nil
}

// Open reports whether something may begin at the moment: no Deny window is open, and an Allow window is where there are any.
func (w Windows) Open(t time.Time) bool {
	if anyOpen(w.deny, t) {
		return false
	}
	return len(w.allow) == 0 || anyOpen(w.allow, t)
}

func anyOpen(windows []window, t time.Time) bool {
	for _, w := range windows {
		if w.open(t) {
			return true
		}
	}
	return false
}

// Change is when Open first answers otherwise than at the moment now.
type Change struct {
	// At is that time. Where it is not exact, nothing changes before it, and it has to be asked again then.
	At time.Time
	// Exact is false where too much had to be looked at.
	Exact bool
}

// Next returns the next change after now; ok is false where there is none within the Horizon.
func (w Windows) Next(now time.Time) (change Change, ok bool) {
	open := w.Open(now)
	t := now
	for range maxLooks {
		if open {
			t = w.mayClose(t)
		} else {
			t = w.mayOpen(t)
		}
		if t.IsZero() || t.Sub(now) > Horizon {
			return Change{}, false
		}
		if w.Open(t) != open {
			return Change{At: t, Exact: true}, true
		}
	}
	return Change{At: t}, true
}

// mayClose returns the first moment after t, at which it is open, at which it may be closed: a Deny window begins, or the last Allow window that is open
// ends. The zero time means never.
func (w Windows) mayClose(t time.Time) time.Time {
	at := earliest(w.deny, t)
	var end time.Time
	for _, a := range w.allow {
		if a.open(t) {
			end = later(end, a.next(t))
		}
	}
	if at.IsZero() || !end.IsZero() && end.Before(at) {
		return end
	}
	return at
}

// mayOpen returns the first moment after t, at which it is closed, at which it may be open: all Deny windows that are open have ended, or else an Allow window
// begins.
func (w Windows) mayOpen(t time.Time) time.Time {
	var end time.Time
	for _, d := range w.deny {
		if d.open(t) {
			end = later(end, d.next(t))
		}
	}
	if !end.IsZero() {
		return end
	}
	return earliest(w.allow, t)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(windows []window, t time.Time) time.Time {
	var first time.Time
	for _, w := range windows {
		if at := w.next(t); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// wall is what the clock of the zone shows at the moment, as if it were UTC: schedules are only ever asked in it, where no hour is skipped or comes twice.
func (w window) wall(t time.Time) time.Time {
	_, offset := t.In(w.zone).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// open reports whether the clock on the wall shows a time in the window.
func (w window) open(t time.Time) bool {
	wall := w.wall(t)
	start := w.schedule.Next(wall.Add(-w.duration))
	return !start.IsZero() && !start.After(wall)
}

// next returns a moment after t, before which the window does not open or close: its next start or the next end, or when the clocks change, whichever comes first. The zero
// time means that nothing ever comes.
func (w window) next(t time.Time) time.Time {
	wall := w.wall(t)
	boundary := w.schedule.Next(wall)
	if start := w.schedule.Next(wall.Add(-w.duration)); !start.IsZero() && !start.After(wall) {
		boundary = start.Add(w.duration)
	}
	_, change := t.In(w.zone).ZoneBounds()
	switch {
	case boundary.IsZero() && change.IsZero():
		return time.Time{}
	case boundary.IsZero():
		return change.UTC()
	}
	at := t.UTC().Add(boundary.Sub(wall))
	if !change.IsZero() && change.Before(at) {
		return change.UTC()
	}
	return at
}
