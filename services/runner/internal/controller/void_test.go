package controller

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// suspensionSeen plays the Job controller, which takes note of a suspension.
func (w *world) suspensionSeen(run, phase string) {
	job := w.job(run, phase)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	w.must(w.admin.Status().Update(w.t.Context(), job))
}

// resume is what a person or a queue controller does to a Job that is suspended.
func (w *world) resume(run, phase string) *batchv1.Job {
	job := w.job(run, phase)
	job.Spec.Suspend = ptr.To(false)
	w.must(w.admin.Update(w.t.Context(), job))
	return w.job(run, phase)
}

// An apply was given up, and its Job is resumed the moment after its end was kept: its pod must neither run beside the next run
// nor be forgotten.
func TestLaw2AVoidJobThatIsResumedHoldsTheNextRun(t *testing.T) {
	w := newWorld(t)
	run, next := w.runID("r1"), w.runID("r2")
	w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	w.record(run, v1alpha1.RunApplying, digest)
	_, err := w.start(run, runspec.PhaseApply, digest)
	w.must(err)
	_, err = w.runs().Cancel(t.Context(), w.request(run, runspec.PhaseApply, "").Key, false)
	w.must(err)
	w.suspensionSeen(run, runspec.PhaseApply)
	text, err := execution.VoidResult(w.now).Encode()
	w.must(err)
	job := w.job(run, runspec.PhaseApply)
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationRunResult, text)
	w.must(w.admin.Update(t.Context(), job))
	pod := w.makePod(w.resume(run, runspec.PhaseApply))
	w.kubelet(pod, corev1.PodRunning, running)

	w.record(next, v1alpha1.RunPlanning, "")
	_, err = w.start(next, runspec.PhasePlan, "")
	w.refused("while its pod runs", err, codes.FailedPrecondition, rpcerr.RunStillLive)
	w.must(w.settle())
	if w.pod(pod.Name).DeletionTimestamp.IsZero() {
		t.Error("the pod was not asked to end")
	}
	_, err = w.start(next, runspec.PhasePlan, "")
	w.refused("while its pod ends", err, codes.FailedPrecondition, rpcerr.RunStillLive)
	w.later(execution.TombstoneAge)
	w.job(run, runspec.PhaseApply)
	w.kubelet(pod, corev1.PodFailed, exited(runspec.ExitInterrupted, ""))
	w.must(w.settle())
	_, err = w.start(next, runspec.PhasePlan, "")
	w.must(err)
	if held := w.pod(pod.Name).Finalizers; len(held) != 0 {
		t.Errorf("the pod is still held by %v", held)
	}
}

// Once the end of a void Job is kept there is nothing left to resume: the Job controller makes no pod for a Job that is being
// deleted. It stands until no StartRun can be on its way any more.
func TestLaw2AVoidJobIsDeletedAndStandsForAWhile(t *testing.T) {
	for name, begin := range map[string]func(*world, string){
		"a tombstone": func(*world, string) {},
		"a Job":       func(w *world, run string) { w.startPlan(run) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.runID("r1")
			w.record(run, v1alpha1.RunPlanning, "")
			begin(w, run)
			_, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false)
			w.must(err)
			w.suspensionSeen(run, runspec.PhasePlan)
			w.must(w.settle())
			if job := w.job(run, runspec.PhasePlan); job.DeletionTimestamp.IsZero() {
				t.Error("the Job could be resumed")
			}
			_, err = w.start(run, runspec.PhasePlan, "")
			w.refused("a late StartRun", err, codes.FailedPrecondition, rpcerr.RunVoid)
			w.record(run, v1alpha1.RunDiscarded, "")
			w.later(execution.TombstoneAge)
			name := types.NamespacedName{Namespace: w.namespace, Name: execution.JobName(run, runspec.PhasePlan)}
			if err := w.admin.Get(t.Context(), name, &batchv1.Job{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Job still stands: %v", err)
			}
		})
	}
}

// Before its end is kept a Job that was cancelled can be resumed, and is suspended again.
func TestACancelledJobThatIsResumedIsSuspendedAgain(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.startPlan(run)
	_, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false)
	w.must(err)
	w.resume(run, runspec.PhasePlan)
	w.must(w.settle())
	if !*w.job(run, runspec.PhasePlan).Spec.Suspend {
		t.Error("the Job may get a pod")
	}
}

// Who gives up an apply that had not started when it looked must not interrupt the one that has started since then.
func TestLaw9GivingUpWhatHasNotStartedLeavesWhatHasAlone(t *testing.T) {
	for name, c := range map[string]struct {
		state func(string) corev1.ContainerState
		want  execution.State
		lives bool
	}{
		"its pod waits": {func(string) corev1.ContainerState {
			return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		}, execution.StatePending, false},
		"its pod runs": {running, execution.StateRunning, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node()
			run := w.runID("r1")
			pod := w.runningApply(run)
			w.kubelet(pod, corev1.PodRunning, c.state)
			got, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhaseApply, "").Key, true)
			w.must(err)
			if got.State != c.want {
				t.Errorf("the answer is %s", got.State)
			}
			if lives := w.pod(pod.Name).DeletionTimestamp.IsZero(); lives != c.lives {
				t.Errorf("the pod lives: %v", lives)
			}
			if voided := execution.IsVoid(w.job(run, runspec.PhaseApply)); voided == c.lives {
				t.Errorf("the Job is void: %v", voided)
			}
		})
	}
}

// Nothing can be created in a namespace that is being deleted, a tombstone neither: a run that never began ends all the same, and
// one that began just before is found.
func TestDeletingANamespaceLetsARunEnd(t *testing.T) {
	w := newWorld(t)
	one, two := w.runID("r1"), w.runID("r2")
	w.startPlan(one)
	w.record(two, v1alpha1.RunPlanning, "")
	w.must(w.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	if err := w.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "x"}}); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Fatalf("the namespace is not being deleted: %v", err)
	}
	got, err := w.runs().Cancel(t.Context(), w.request(two, runspec.PhasePlan, "").Key, true)
	w.must(err)
	if got.State != execution.StateVoid || got.RunID != two {
		t.Errorf("a run without a Job is %s", got.State)
	}

	// The look before the tombstone misses the Job that is there.
	missed := false
	w.api = interceptor.NewClient(w.admin, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*batchv1.Job); ok && !missed {
				missed = true
				return apierrors.NewNotFound(batchv1.Resource("jobs"), key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	got, err = w.runs().Cancel(t.Context(), w.request(one, runspec.PhasePlan, "").Key, true)
	w.must(err)
	if !missed || got.State == execution.StateVoid || !execution.IsVoid(w.job(one, runspec.PhasePlan)) {
		t.Errorf("missed %v: the Job that is there was not voided: %s", missed, got.State)
	}
}
