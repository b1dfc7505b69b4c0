package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
)

// What waits for a time is decided on again at that time, and a process that begins anew knows it from the status.
func TestWindowAndSoakOutliveARestart(t *testing.T) {
	h := newHarness(t)
	h.create(newProject(v1alpha1.OrchestrationAuto), newWorkspace("d", "dev"), newWorkspace("p", "prod"))
	r := newRollout("dev", "prod")
	r.Spec.Strategy.Steps[0].Soak = &metav1.Duration{Duration: 10 * time.Minute}
	r.Spec.Strategy.Windows = []v1alpha1.RolloutWindow{{Kind: v1alpha1.WindowDeny, Cron: "0 12 * * MON", Duration: metav1.Duration{Duration: time.Hour}}}
	h.create(r)
	h.mustReconcile()
	h.sim.tick()
	if result := h.mustReconcile(); result.RequeueAfter != time.Hour {
		t.Errorf("decides again after %s, want when the window is over", result.RequeueAfter)
	}
	h.wantStatus(v1alpha1.RolloutWaiting, v1alpha1.ReasonAwaitingWindow, 0)
	if opens := h.rollout().Status.OpensAt; opens == nil || !opens.Time.Equal(began.Add(time.Hour)) {
		t.Errorf("opens at %v, want an hour later", opens)
	}

	h.clock.SetTime(began.Add(time.Hour))
	h.settle()
	h.wantStatus(v1alpha1.RolloutSoaking, v1alpha1.ReasonStepSoaking, 0)
	until := h.rollout().Status.Steps[0].SoakUntil.Time

	h.restart(0, crash.Before)
	h.clock.SetTime(until.Add(-time.Second))
	if result := h.mustReconcile(); result.RequeueAfter != time.Second {
		t.Errorf("decides again after %s, want when the soak has passed", result.RequeueAfter)
	}
	h.wantStatus(v1alpha1.RolloutSoaking, v1alpha1.ReasonStepSoaking, 0)
	h.clock.SetTime(until)
	h.settle()
	h.wantStatus(v1alpha1.RolloutSucceeded, v1alpha1.ReasonPassSucceeded, 1)
	if got := h.sim.began(); got != "d Spec a, p Spec a" {
		t.Errorf("runs began as %q", got)
	}
}
