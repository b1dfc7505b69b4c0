package controller

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// later lets time pass for the runner.
func (w *world) later(d time.Duration) {
	w.now = w.now.Add(d)
	w.must(w.settle())
}

// confirm says on the Workspace that the run has ended.
func (w *world) confirm(run string) {
	ws := w.workspace()
	metav1.SetMetaDataAnnotation(&ws.ObjectMeta, v1alpha1.AnnotationConfirmEnded, run)
	w.must(w.admin.Update(w.t.Context(), ws))
	w.must(w.settle())
}

// node makes the node that every pod of this world is on.
func (w *world) node() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + w.namespace}}
	w.must(w.admin.Create(w.t.Context(), node))
	w.t.Cleanup(func() { _ = w.admin.Delete(w.t.Context(), node) })
	return node
}

// stillLive expects that the run's phase has not ended, and that no other run may start.
func (w *world) stillLive(when, run, phase, next string) {
	w.t.Helper()
	if got := w.get(run, phase); got.State != execution.StateRunning {
		w.t.Errorf("%s: the run is %s/%s", when, got.State, got.Reason)
	}
	w.record(next, v1alpha1.RunPlanning, "")
	_, err := w.start(next, runspec.PhasePlan, "")
	w.refused(when, err, codes.FailedPrecondition, rpcerr.RunStillLive)
}

func (w *world) runningPlan(run string) *corev1.Pod {
	pod := w.makePod(w.startPlan(run))
	w.kubelet(pod, corev1.PodRunning, running)
	return pod
}

func (w *world) runningApply(run string) *corev1.Pod {
	w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	w.record(run, v1alpha1.RunApplying, digest)
	_, err := w.start(run, runspec.PhaseApply, digest)
	w.must(err)
	pod := w.makePod(w.job(run, runspec.PhaseApply))
	w.kubelet(pod, corev1.PodRunning, running)
	return pod
}

func TestLaw2AKubeletThatIsSlowToKill(t *testing.T) {
	w := newWorld(t)
	w.node()
	run, next := w.runID("r1"), w.runID("r2")
	pod := w.runningPlan(run)
	_, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false)
	w.must(err)
	for range 4 {
		// Hours after the pod's grace its containers may still run: nobody has said that they do not.
		w.later(time.Hour)
		w.stillLive("the kubelet is silent", run, runspec.PhasePlan, next)
	}
	if got := w.get(run, runspec.PhasePlan); got.Reason != v1alpha1.ReasonNodeLost {
		t.Errorf("the reason is %q", got.Reason)
	}
	w.kubelet(pod, corev1.PodFailed, exited(runspec.ExitInterrupted, ""))
	w.must(w.settle())
	w.record(next, v1alpha1.RunPlanning, "")
	_, err = w.start(next, runspec.PhasePlan, "")
	w.must(err)
}

// Force takes the pod's object away, and not its containers: the object stays until the kubelet has reported.
func TestLaw2AForceDeletedPodIsNotEnded(t *testing.T) {
	for _, phase := range []string{runspec.PhasePlan, runspec.PhaseApply} {
		t.Run(phase, func(t *testing.T) {
			w := newWorld(t)
			w.node()
			run, next := w.runID("r1"), w.runID("r2")
			pod := map[string]func(string) *corev1.Pod{runspec.PhasePlan: w.runningPlan, runspec.PhaseApply: w.runningApply}[phase](run)
			w.must(w.admin.Delete(t.Context(), w.pod(pod.Name), client.GracePeriodSeconds(0)))
			w.later(1000 * time.Hour)
			w.stillLive("its node lives", run, phase, next)
			w.kubelet(pod, corev1.PodFailed, exited(1, ""))
			w.must(w.settle())
			if got := w.get(run, phase); got.State != execution.StateFailed {
				t.Errorf("the run is %s", got.State)
			}
			if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
				t.Errorf("the pod is still held: %v", err)
			}
			_, err := w.start(next, runspec.PhasePlan, "")
			w.must(err)
		})
	}
}

// Whoever takes the finalizer off takes the proof away: then only a person's word ends the run, and only that of this run.
func TestLaw2APodTornAwayNeedsAPersonsWord(t *testing.T) {
	w := newWorld(t)
	run, next := w.runID("r1"), w.runID("r2")
	pod := w.pod(w.runningPlan(run).Name)
	pod.Finalizers = nil
	w.must(w.admin.Update(t.Context(), pod))
	w.must(w.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	job := w.job(run, runspec.PhasePlan)
	job.Status.Active = 1
	w.must(w.admin.Status().Update(t.Context(), job))
	w.later(1000 * time.Hour)
	w.stillLive("its pod was torn away", run, runspec.PhasePlan, next)
	w.confirm(next)
	w.stillLive("another run was confirmed", run, runspec.PhasePlan, next)
	w.confirm(run)
	if got := w.get(run, runspec.PhasePlan); got.State != execution.StateFailed || got.Reason != v1alpha1.ReasonRunLost {
		t.Errorf("the run is %s/%s", got.State, got.Reason)
	}
	_, err := w.start(next, runspec.PhasePlan, "")
	w.must(err)
}

func TestLaw2ALostNode(t *testing.T) {
	lose := func(w *world, pod *corev1.Pod) {
		// The taint manager deletes the pod; its kubelet never answers.
		w.must(w.admin.Delete(w.t.Context(), w.pod(pod.Name)))
		w.later(time.Hour)
	}
	t.Run("proven by the end of its Node object", func(t *testing.T) {
		w := newWorld(t)
		node := w.node()
		run, next := w.runID("r1"), w.runID("r2")
		pod := w.runningApply(run)
		lose(w, pod)
		w.stillLive("its node is silent", run, runspec.PhaseApply, next)
		w.must(w.admin.Delete(t.Context(), node))
		w.later(time.Hour)
		if got := w.get(run, runspec.PhaseApply); got.State != execution.StateFailed || got.Reason != v1alpha1.ReasonRunLost {
			t.Errorf("the run is %s/%s", got.State, got.Reason)
		}
	})
	t.Run("confirmed by a person", func(t *testing.T) {
		w := newWorld(t)
		w.node()
		run, next := w.runID("r1"), w.runID("r2")
		pod := w.runningApply(run)
		w.confirm(run)
		w.stillLive("confirmed while its kubelet reports", run, runspec.PhaseApply, next)
		lose(w, pod)
		if got := w.get(run, runspec.PhaseApply); got.State != execution.StateFailed || got.Reason != v1alpha1.ReasonRunLost {
			t.Errorf("the run is %s/%s", got.State, got.Reason)
		}
		w.record(next, v1alpha1.RunPlanning, "")
		_, err := w.start(next, runspec.PhasePlan, "")
		w.must(err)
	})
}

func TestLaw2AJobDeletedByHandKeepsItsLivePod(t *testing.T) {
	w := newWorld(t)
	w.node()
	run, next := w.runID("r1"), w.runID("r2")
	pod := w.runningApply(run)
	w.must(w.admin.Delete(t.Context(), w.job(run, runspec.PhaseApply), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	// What the garbage collector does next.
	w.must(w.admin.Delete(t.Context(), w.pod(pod.Name)))
	w.later(1000 * time.Hour)
	w.stillLive("its Job was deleted", run, runspec.PhaseApply, next)
	w.kubelet(pod, corev1.PodFailed, exited(runspec.ExitInterrupted, ""))
	w.must(w.settle())
	_, err := w.start(next, runspec.PhasePlan, "")
	w.must(err)
}

// A foreground deletion takes away what the Workspace owns: its run owns nothing of it.
func TestLaw2AForegroundDeleteLeavesARunningApplyAlone(t *testing.T) {
	w := newWorld(t)
	w.node()
	run := w.runID("r1")
	pod := w.runningApply(run)
	w.must(w.admin.Delete(t.Context(), w.workspace(), client.PropagationPolicy(metav1.DeletePropagationForeground)))
	w.later(time.Hour)
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.admin.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "vpc-data"}, claim))
	for what, owners := range map[string][]metav1.OwnerReference{
		"job": w.job(run, runspec.PhaseApply).OwnerReferences, "pod": w.pod(pod.Name).OwnerReferences, "volume": claim.OwnerReferences,
	} {
		for _, owner := range owners {
			if owner.Kind == "Workspace" {
				t.Errorf("the %s is owned by the Workspace", what)
			}
		}
	}
	if got := w.get(run, runspec.PhaseApply); got.State != execution.StateRunning {
		t.Errorf("the apply is %s", got.State)
	}
	w.kubelet(pod, corev1.PodSucceeded, exited(0, ""))
	w.must(w.settle())
	if got := w.get(run, runspec.PhaseApply); got.State != execution.StateSucceeded {
		t.Errorf("the apply is %s/%s: its result was lost", got.State, got.Reason)
	}
}
