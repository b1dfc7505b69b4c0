package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

func TestIntervals(t *testing.T) {
	for value, c := range map[string]struct {
		want  time.Duration
		valid bool
	}{
		"":                       {v1alpha1.DefaultReconcileInterval, true},
		"90s":                    {90 * time.Second, true},
		"1h30m":                  {90 * time.Minute, true},
		"1ms":                    {time.Second, true},
		"0s":                     {v1alpha1.DefaultReconcileInterval, false},
		"-5m":                    {v1alpha1.DefaultReconcileInterval, false},
		"5":                      {v1alpha1.DefaultReconcileInterval, false},
		"soon":                   {v1alpha1.DefaultReconcileInterval, false},
		"2000000h":               {v1alpha1.DefaultReconcileInterval, false},
		"99999999999999999999h":  {v1alpha1.DefaultReconcileInterval, false},
		strings.Repeat("x", 999): {v1alpha1.DefaultReconcileInterval, false},
	} {
		w := newWorld().w
		w.Annotations[v1alpha1.AnnotationReconcileInterval] = value
		invalid := InvalidAnnotations(w)
		if got := ReconcileInterval(w); got != c.want || (len(invalid) == 0) != c.valid {
			t.Errorf("%q: %s, invalid %v", value, got, invalid)
		}
		if len(invalid) > 0 && (len(invalid[0].String()) > 300 || !strings.Contains(invalid[0].String(), v1alpha1.AnnotationReconcileInterval)) {
			t.Errorf("%q is told of as %s", value, invalid[0])
		}
	}
}

func TestJitterSpreadsAndStays(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 200 {
		uid := fmt.Sprint("uid-", i)
		j := jitter(uid, 3*time.Minute)
		if j < 0 || j > 18*time.Second || j != jitter(uid, 3*time.Minute) {
			t.Fatalf("jitter of %s is %s", uid, j)
		}
		seen[j.Round(time.Second)] = true
	}
	if len(seen) < 15 {
		t.Errorf("200 Workspaces share %d seconds out of 18", len(seen))
	}
}

func TestBackOffIsBounded(t *testing.T) {
	for count, want := range map[int32]time.Duration{0: 3 * time.Minute, 1: 3 * time.Minute, 2: 6 * time.Minute, 5: 48 * time.Minute, 6: time.Hour, 1 << 30: time.Hour} {
		if got := backOff(3*time.Minute, count); got != want {
			t.Errorf("after %d failures: %s, want %s", count, got, want)
		}
	}
	if got := backOff(3*time.Hour, 1); got != MaxBackOff {
		t.Errorf("a long interval gives %s", got)
	}
}
