package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// The Job is where the workspace service reads how a run ended: somebody who deletes it in between must not make a loss of what
// succeeded.
func TestAResultStaysUntilTheWorkspaceHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(*world, string)
		have func(*world, string)
	}{
		"a plan":                      {plan, func(w *world, run string) { w.record(run, v1alpha1.RunPlanned, digest) }},
		"an apply":                    {apply, func(w *world, run string) { w.record(run, v1alpha1.RunSucceeded, digest) }},
		"an apply that was given up":  {voidApply, func(w *world, run string) { w.record(run, v1alpha1.RunDiscarded, digest) }},
		"a Workspace that was let go": {apply, func(w *world, _ string) { w.letGo() }},
		"a Workspace of the next run": {plan, func(w *world, _ string) { w.record(w.runID("r2"), v1alpha1.RunPlanning, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.runID("r1")
			c.run(w, run)
			phase := map[bool]string{true: runspec.PhaseApply, false: runspec.PhasePlan}[w.workspace().Status.Run.Phase == v1alpha1.RunApplying]
			w.must(w.settle())
			before := w.get(run, phase)
			w.must(client.IgnoreNotFound(w.admin.Delete(t.Context(), w.job(run, phase), client.PropagationPolicy(metav1.DeletePropagationBackground))))
			w.later(time.Hour)
			if after := w.get(run, phase); after.State != before.State || !after.State.Terminal() {
				t.Errorf("the %s was %s and is %s", phase, before.State, after.State)
			}
			c.have(w, run)
			w.must(w.settle())
			key := types.NamespacedName{Namespace: w.namespace, Name: execution.JobName(run, phase)}
			if err := w.admin.Get(t.Context(), key, &batchv1.Job{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Job is still there: %v", err)
			}
		})
	}
}

func plan(w *world, run string) {
	w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
}

func apply(w *world, run string) {
	w.kubelet(w.runningApply(run), corev1.PodSucceeded, exited(0, ""))
}

func voidApply(w *world, run string) {
	plan(w, run)
	w.must(w.settle())
	w.record(run, v1alpha1.RunApplying, digest)
	_, err := w.runs().Cancel(w.t.Context(), w.request(run, runspec.PhaseApply, "").Key, true)
	w.must(err)
}

// letGo takes the workspace service's finalizer off: it is gone for good.
func (w *world) letGo() {
	ws := w.workspace()
	ws.Finalizers = withoutFinalizer(ws.Finalizers, v1alpha1.FinalizerWorkspace)
	w.must(w.admin.Update(w.t.Context(), ws))
}
