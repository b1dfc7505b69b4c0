package controller

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
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

// edit changes the Workspace and its status.
func (w *world) edit(change func(*v1alpha1.Workspace)) {
	w.t.Helper()
	ws := w.workspace()
	change(ws)
	status := ws.Status.DeepCopy()
	w.must(w.admin.Update(w.t.Context(), ws))
	ws.Status = *status
	w.must(w.admin.Status().Update(w.t.Context(), ws))
}

func (w *world) setPolicy(policy v1alpha1.DeletionPolicy) {
	w.t.Helper()
	w.edit(func(ws *v1alpha1.Workspace) { ws.Spec.DeletionPolicy = policy })
}

// startDestroy asks for the plan of a run that destroys, or does not.
func (w *world) startDestroy(run string, destroy bool) error {
	request := w.request(run, runspec.PhasePlan, "")
	request.Destroy = destroy
	_, _, err := w.runs().Start(w.t.Context(), request)
	return err
}

func TestDestroyIsStartedOnlyAsItIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.setPolicy(v1alpha1.DeletionDestroy)
	w.edit(func(ws *v1alpha1.Workspace) { ws.Finalizers = append(ws.Finalizers, v1alpha1.FinalizerRunner) })
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	w.refused("destroy for a run that brings in line", w.startDestroy(run, true), codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.edit(func(ws *v1alpha1.Workspace) { ws.Status.Run.Trigger = v1alpha1.TriggerDestroy })
	w.refused("destroy without a deletion", w.startDestroy(run, true), codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.must(w.admin.Delete(t.Context(), w.workspace()))
	w.refused("no destroy for a run that destroys", w.startDestroy(run, false), codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.setPolicy(v1alpha1.DeletionRetain)
	w.refused("destroy under Retain", w.startDestroy(run, true), codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.setPolicy(v1alpha1.DeletionDestroy)
	w.edit(func(ws *v1alpha1.Workspace) { ws.Spec.Suspend = true })
	w.refused("destroy while suspended", w.startDestroy(run, true), codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.edit(func(ws *v1alpha1.Workspace) {
		ws.Spec.Suspend = false
		ws.Annotations = map[string]string{v1alpha1.AnnotationAbandon: w.uid}
	})
	w.refused("destroy that was abandoned", w.startDestroy(run, true), codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.edit(func(ws *v1alpha1.Workspace) {
		ws.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "of another one"}
	})
	jobs := &batchv1.JobList{}
	w.must(w.admin.List(t.Context(), jobs, client.InNamespace(w.namespace)))
	if len(jobs.Items) != 0 {
		t.Fatalf("%d Jobs were made", len(jobs.Items))
	}
	w.must(w.startDestroy(run, true))
}

func TestInputsAreKeptUntilTheDestroyIsOver(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	job := w.startPlan(run)
	w.kubelet(w.makePod(job), corev1.PodSucceeded, exited(0, planned(run, "sha256:12345678")))
	w.must(w.settle())
	key := execution.Key{Namespace: w.namespace, Workspace: "vpc", WorkspaceUID: w.uid, RunID: run, Phase: runspec.PhasePlan}
	kept := func(when string) {
		t.Helper()
		got, err := w.runs().Inputs(t.Context(), key)
		w.must(err)
		if want := w.request(run, runspec.PhasePlan, ""); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: kept\n%+v, want\n%+v", when, got, want)
		}
	}
	kept("after the plan")
	w.edit(func(ws *v1alpha1.Workspace) {
		ws.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
		ws.Status.LastApply = &v1alpha1.LastApply{RunID: run, Revision: testRevision, Fingerprint: "f"}
		ws.Status.Run.Phase = v1alpha1.RunSucceeded
	})
	w.must(w.admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.must(w.settle())
	kept("after somebody deleted the Job")
	w.must(w.admin.Delete(t.Context(), w.workspace()))
	w.must(w.settle())
	kept("while the deletion has not destroyed yet")
	volume := types.NamespacedName{Namespace: w.namespace, Name: execution.VolumeName("vpc")}
	w.must(w.admin.Get(t.Context(), volume, &corev1.PersistentVolumeClaim{}))

	w.edit(func(ws *v1alpha1.Workspace) {
		ws.Finalizers = slices.DeleteFunc(ws.Finalizers, func(f string) bool { return f == v1alpha1.FinalizerWorkspace })
	})
	w.must(w.settle())
	_, err := w.runs().Inputs(t.Context(), key)
	w.refused("inputs of a Workspace that is gone", err, codes.NotFound, rpcerr.RunNotFound)
}

// TestAPlanJobThatIsDeletedDuringTheApplyLeavesWhatADestroyNeeds: the run is applied last only when its apply has ended.
func TestAPlanJobThatIsDeletedDuringTheApplyLeavesWhatADestroyNeeds(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	job := w.startPlan(run)
	w.kubelet(w.makePod(job), corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	w.record(run, v1alpha1.RunApplying, digest)
	w.edit(func(ws *v1alpha1.Workspace) {
		now := metav1.NewTime(w.now)
		ws.Status.Run.ApplyRequestedAt = &now
	})
	w.must(w.admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.must(w.settle())
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
		t.Fatalf("the Job of the plan is still there: %v", err)
	}
	_, err := w.runs().Inputs(t.Context(), execution.Key{Namespace: w.namespace, Workspace: "vpc", WorkspaceUID: w.uid, RunID: run, Phase: runspec.PhasePlan})
	w.must(err)
}

// TestACancelOfARunThatNeverWasEnds: a Workspace with Destroy that has not run is not settled, and has no run either.
func TestACancelOfARunThatNeverWasEnds(t *testing.T) {
	w := newWorld(t)
	w.edit(func(ws *v1alpha1.Workspace) {
		ws.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
		ws.Status.Run = nil
	})
	key := execution.Key{Namespace: w.namespace, Workspace: "vpc", WorkspaceUID: w.uid, RunID: w.runID("r1"), Phase: runspec.PhasePlan}
	_, err := w.runs().Cancel(t.Context(), key, false)
	w.must(err)
	w.must(w.settle())
	w.now = w.now.Add(execution.TombstoneAge + time.Minute)
	w.must(w.settle())
	jobs := &batchv1.JobList{}
	w.must(w.admin.List(t.Context(), jobs, client.InNamespace(w.namespace)))
	for _, job := range jobs.Items {
		if !job.DeletionTimestamp.IsZero() {
			t.Errorf("job %s is still held", job.Name)
		}
	}
}

func TestACancelInANamespaceThatIsBeingDeletedNeedsNoTombstone(t *testing.T) {
	w := newWorld(t)
	w.must(w.admin.Delete(t.Context(), w.workspace()))
	w.must(w.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	run, err := w.runs().Cancel(t.Context(), execution.Key{Namespace: w.namespace, Workspace: "vpc", WorkspaceUID: w.uid, RunID: w.runID("r1"), Phase: runspec.PhasePlan}, false)
	w.must(err)
	if run.State != execution.StateVoid {
		t.Errorf("the run is %s", run.State)
	}
}
