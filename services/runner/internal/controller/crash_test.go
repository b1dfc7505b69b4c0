package controller

import (
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// The runner dies at its Nth write, for every N, before and after the write, and starts again: each time the run ends
// alike, with one pod per phase, and nothing is left when the Workspace is deleted.
func TestCrashAtEveryWriteEndsAlike(t *testing.T) {
	for _, moment := range []crash.Moment{crash.Before, crash.After} {
		for n := 1; ; n++ {
			if n > 60 {
				t.Fatal("the story never ends")
			}
			crashed := false
			t.Run(fmt.Sprintf("moment %d, write %d", moment, n), func(t *testing.T) { crashed = story(t, n, moment) })
			if !crashed {
				if n < 12 {
					t.Errorf("the story has only %d writes: it does not do what it should", n-1)
				}
				break
			}
		}
	}
}

// story plans, applies, and deletes the Workspace; it reports whether the runner died on the way.
func story(t *testing.T, n int, moment crash.Moment) bool {
	w := newWorld(t)
	dying := crash.New(w.admin, n, moment)
	w.runner = dying
	run := w.runID("r1")

	// step does something until it succeeds; after the crash it goes on as a new process.
	step := func(name string, do func() error) {
		t.Helper()
		for range 5 {
			err := do()
			switch {
			case err == nil:
				return
			case errors.Is(err, crash.ErrCrashed):
				w.runner = w.admin
			case !apierrors.IsConflict(err):
				t.Fatalf("%s: %v", name, err)
			}
		}
		t.Fatalf("%s never succeeds", name)
	}
	start := func(phase, digest string) func() error {
		return func() error {
			_, _, err := w.runs().Start(t.Context(), w.request(run, phase, digest))
			return err
		}
	}
	w.record(run, v1alpha1.RunPlanning, "")
	step("starting the plan", start(runspec.PhasePlan, ""))
	pod := w.makePod(w.job(run, runspec.PhasePlan))
	w.kubelet(pod, corev1.PodSucceeded, exited(0, w.plannedForReview(pod, run)))
	step("reading the plan", w.settle)
	expectResult(w, run, runspec.PhasePlan)
	if _, err := w.review(run); err != nil {
		t.Errorf("the plan cannot be read: %v", err)
	}
	if pod := w.pod(pod.Name); len(pod.Finalizers) != 0 {
		t.Errorf("the plan's pod is still held by %v", pod.Finalizers)
	}

	w.record(run, v1alpha1.RunApplying, "sha256:12345678")
	step("starting the apply", start(runspec.PhaseApply, "sha256:12345678"))
	pod = w.makePod(w.job(run, runspec.PhaseApply))
	w.kubelet(pod, corev1.PodSucceeded, exited(0, ""))
	step("reading the apply", w.settle)
	expectResult(w, run, runspec.PhaseApply)
	if pod := w.pod(pod.Name); len(pod.Finalizers) != 0 {
		t.Errorf("the apply's pod is still held by %v", pod.Finalizers)
	}
	if len(w.podsMade) != 2 {
		t.Errorf("%d pods were made, want a plan and an apply: %v", len(w.podsMade), w.podsMade)
	}

	w.record(run, v1alpha1.RunSucceeded, "sha256:12345678")
	ws := w.workspace()
	w.must(w.admin.Delete(t.Context(), ws))
	ws = w.workspace()
	ws.Finalizers = withoutFinalizer(ws.Finalizers, v1alpha1.FinalizerWorkspace)
	w.must(w.admin.Update(t.Context(), ws))
	step("tearing down", w.settle)
	expectNothingLeft(w)
	return dying.Crashed()
}

func withoutFinalizer(all []string, one string) []string {
	var rest []string
	for _, f := range all {
		if f != one {
			rest = append(rest, f)
		}
	}
	return rest
}

func expectResult(w *world, run, phase string) {
	w.t.Helper()
	result, kept := execution.KeptResult(w.job(run, phase))
	if !kept || result.State != execution.StateSucceeded {
		w.t.Fatalf("the %s has the result %+v (kept: %v)", phase, result, kept)
	}
}

func expectNothingLeft(w *world) {
	w.t.Helper()
	err := w.admin.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "vpc"}, &v1alpha1.Workspace{})
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("the Workspace is still there: %v", err)
	}
	jobs, claims, maps := &batchv1.JobList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ConfigMapList{}
	w.must(w.admin.List(w.t.Context(), jobs, client.InNamespace(w.namespace)))
	w.must(w.admin.List(w.t.Context(), claims, client.InNamespace(w.namespace)))
	w.must(w.admin.List(w.t.Context(), maps, client.InNamespace(w.namespace), client.HasLabels{v1alpha1.LabelRunID}))
	for _, claim := range claims.Items {
		// Without a controller manager nobody takes Kubernetes' own finalizer off.
		if claim.DeletionTimestamp.IsZero() {
			w.t.Errorf("the volume %s is still there", claim.Name)
		}
	}
	if len(jobs.Items)+len(maps.Items) > 0 {
		w.t.Errorf("%d jobs and %d configmaps are left", len(jobs.Items), len(maps.Items))
	}
}
