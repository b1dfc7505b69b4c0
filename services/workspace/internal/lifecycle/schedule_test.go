package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInvalidAnnotationsAreToldAndTheDefaultUsed(t *testing.T) {
	w := newWorld().w
	w.Annotations[v1alpha1.AnnotationReconcileInterval] = "90s"
	if invalid := InvalidAnnotations(w); len(invalid) > 0 || ReconcileInterval(w) != 90*time.Second {
		t.Errorf("invalid %v, interval %s", invalid, ReconcileInterval(w))
	}
	w.Annotations[v1alpha1.AnnotationReconcileInterval] = "soon"
	w.Annotations[v1alpha1.AnnotationGitPollInterval] = "-1s"
	invalid := InvalidAnnotations(w)
	if len(invalid) != 2 || !strings.Contains(invalid[0], v1alpha1.AnnotationGitPollInterval) || ReconcileInterval(w) != v1alpha1.DefaultReconcileInterval {
		t.Errorf("invalid %v, interval %s", invalid, ReconcileInterval(w))
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
	w := newWorld().w
	for count, want := range map[int32]time.Duration{0: 3 * time.Minute, 1: 3 * time.Minute, 2: 6 * time.Minute, 5: 48 * time.Minute, 6: time.Hour, 1 << 30: time.Hour} {
		if got := backOff(w, count); got != want {
			t.Errorf("after %d failures: %s, want %s", count, got, want)
		}
	}
	w.Spec.Retry.MaxInterval = &metav1.Duration{Duration: 10 * time.Minute}
	for count, want := range map[int32]time.Duration{1: 3 * time.Minute, 2: 6 * time.Minute, 3: 10 * time.Minute, 1 << 30: 10 * time.Minute} {
		if got := backOff(w, count); got != want {
			t.Errorf("at most 10m, after %d failures: %s, want %s", count, got, want)
		}
	}
	w.Spec.Retry.MaxInterval = nil
	w.Annotations[v1alpha1.AnnotationReconcileInterval] = "3h"
	if got := backOff(w, 1); got != v1alpha1.DefaultRetryMaxInterval {
		t.Errorf("a long interval gives %s", got)
	}
}
