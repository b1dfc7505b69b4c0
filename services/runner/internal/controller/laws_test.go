package controller

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster/crash"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runs"
	"magosproject.io/services/runner/internal/runspec"
)

const digest = "sha256:12345678"

func (w *world) start(run, phase, planDigest string) (runs.Run, error) {
	r, _, err := w.runs().Start(w.t.Context(), w.request(run, phase, planDigest))
	return r, err
}

func (w *world) startPlan(run string) *batchv1.Job {
	w.t.Helper()
	w.record(run, v1alpha1.RunPlanning, "")
	_, err := w.start(run, runspec.PhasePlan, "")
	w.must(err)
	return w.job(run, runspec.PhasePlan)
}

func (w *world) refused(what string, err error, code codes.Code, reason string) {
	w.t.Helper()
	if rpcerr.Code(err) != code || rpcerr.Reason(err) != reason {
		w.t.Errorf("%s: %v (%v, %q), want %v, %q", what, err, rpcerr.Code(err), rpcerr.Reason(err), code, reason)
	}
}

func (w *world) get(run, phase string) runs.Run {
	w.t.Helper()
	got, found, err := w.runs().Get(w.t.Context(), w.request(run, phase, "").Key)
	w.must(err)
	if !found {
		w.t.Fatalf("no %s of run %s", phase, run)
	}
	return got
}

func TestLaw2SecondRunIsRefusedWhileAPodLives(t *testing.T) {
	w := newWorld(t)
	one, two := w.runID("r1"), w.runID("r2")
	job := w.startPlan(one)
	w.record(two, v1alpha1.RunPlanning, "")
	startTwo := func() error { _, err := w.start(two, runspec.PhasePlan, ""); return err }

	w.refused("while the Job may still get a pod", startTwo(), codes.FailedPrecondition, rpcerr.RunStillLive)
	pod := w.makePod(job)
	w.refused("while the pod waits", startTwo(), codes.FailedPrecondition, rpcerr.RunStillLive)
	w.kubelet(pod, corev1.PodRunning, running)
	w.refused("while it runs", startTwo(), codes.FailedPrecondition, rpcerr.RunStillLive)
	w.kubelet(pod, corev1.PodFailed, running)
	w.refused("while somebody says that it failed", startTwo(), codes.FailedPrecondition, rpcerr.RunStillLive)

	// The Job disappears by force, the pod lives on.
	job.Finalizers = nil
	w.must(w.admin.Update(t.Context(), job))
	w.must(w.admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	job = w.job(one, runspec.PhasePlan)
	job.Finalizers = nil
	w.must(w.admin.Update(t.Context(), job))
	w.refused("while a pod lives whose Job is gone", startTwo(), codes.FailedPrecondition, rpcerr.RunStillLive)

	w.kubelet(pod, corev1.PodSucceeded, exited(0, planned(one, digest)))
	w.must(startTwo())
}

func TestStartRunIsIdempotent(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	job := w.startPlan(run)
	again, err := w.start(run, runspec.PhasePlan, "")
	w.must(err)
	if again.JobName != job.Name || w.job(run, runspec.PhasePlan).UID != job.UID {
		t.Errorf("the second request made another Job")
	}
	other := w.request(run, runspec.PhasePlan, "")
	other.Timeout = 2 * time.Hour
	_, _, err = w.runs().Start(t.Context(), other)
	w.refused("another request for the same phase", err, codes.AlreadyExists, rpcerr.RequestDiffers)
}

func TestStartRunNeedsTheRecordedIntent(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	_, err := w.start(run, runspec.PhasePlan, "")
	w.refused("nothing is recorded", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.record(w.runID("r0"), v1alpha1.RunPlanning, "")
	_, err = w.start(run, runspec.PhasePlan, "")
	w.refused("another run is recorded", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.record(run, v1alpha1.RunPlanned, digest)
	_, err = w.start(run, runspec.PhaseApply, digest)
	w.refused("the apply is not recorded", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.record(run, v1alpha1.RunApplying, "sha256:99999999")
	_, err = w.start(run, runspec.PhaseApply, digest)
	w.refused("another digest is recorded", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.record(run, v1alpha1.RunApplying, digest)
	_, err = w.start(run, runspec.PhaseApply, digest)
	w.refused("there is no plan", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)
	w.record(run, v1alpha1.RunPlanning, "")
	request := w.request(run, runspec.PhasePlan, "")
	request.Revision = strings.Repeat("f", 40)
	_, _, err = w.runs().Start(t.Context(), request)
	w.refused("another commit", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)
	request = w.request(run, runspec.PhasePlan, "")
	request.WorkspaceUID = string(uuid.NewUUID())
	request.RunID = request.WorkspaceUID + "-r1"
	_, _, err = w.runs().Start(t.Context(), request)
	w.refused("another Workspace of the name", err, codes.NotFound, rpcerr.WorkspaceNotFound)
	jobs := &batchv1.JobList{}
	w.must(w.admin.List(t.Context(), jobs, client.InNamespace(w.namespace)))
	if len(jobs.Items) != 0 {
		t.Errorf("%d Jobs were made", len(jobs.Items))
	}
}

func TestStartRunAfterCancelRunCreatesNothingThatRuns(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	got, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false)
	w.must(err)
	if got.State != execution.StateVoid {
		t.Errorf("the tombstone is %s", got.State)
	}
	_, err = w.start(run, runspec.PhasePlan, "")
	w.refused("a late StartRun", err, codes.FailedPrecondition, rpcerr.RunVoid)
	if job := w.job(run, runspec.PhasePlan); !*job.Spec.Suspend || len(job.Spec.Template.Spec.SchedulingGates) == 0 {
		t.Error("the tombstone could run")
	}
	if got, err = w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false); err != nil || got.State != execution.StateVoid {
		t.Errorf("cancelled again: %v, %v", got.State, err)
	}
	w.startPlan(w.runID("r2"))
}

// StartRun has passed every check when the cancellation comes: the API server lets only one Job of the name be.
func TestCancelRunOvertakesAStartRunOnItsWay(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	admin, cancelled := w.admin, false
	w.runner = interceptor.NewClient(admin, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, ok := obj.(*batchv1.Job); ok && !cancelled {
				cancelled = true
				plain := *w
				plain.runner = admin
				_, err := plain.runs().Cancel(ctx, w.request(run, runspec.PhasePlan, "").Key, false)
				w.must(err)
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	_, err := w.start(run, runspec.PhasePlan, "")
	w.refused("the overtaken StartRun", err, codes.FailedPrecondition, rpcerr.RunVoid)
	if !cancelled {
		t.Error("nothing was overtaken")
	}
	if !*w.job(run, runspec.PhasePlan).Spec.Suspend {
		t.Error("the Job runs")
	}
}

// The other way round: the Job comes into being between CancelRun's look and its tombstone.
func TestStartRunOvertakesACancelRunOnItsWay(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	admin, started := w.admin, false
	w.runner = interceptor.NewClient(admin, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, ok := obj.(*batchv1.Job); ok && !started {
				started = true
				plain := *w
				plain.runner = admin
				_, err := plain.start(run, runspec.PhasePlan, "")
				w.must(err)
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	_, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false)
	w.must(err)
	job := w.job(run, runspec.PhasePlan)
	if !*job.Spec.Suspend || !execution.IsVoid(job) {
		t.Error("the Job that was there was not voided")
	}
}

func TestCancelOfAPendingRunHoldsTheNextUntilTheJobControllerKnows(t *testing.T) {
	w := newWorld(t)
	one, two := w.runID("r1"), w.runID("r2")
	pod := w.makePod(w.startPlan(one))
	_, err := w.runs().Cancel(t.Context(), w.request(one, runspec.PhasePlan, "").Key, false)
	w.must(err)
	if w.pod(pod.Name).DeletionTimestamp.IsZero() {
		t.Error("the waiting pod was not deleted")
	}
	w.must(w.settle())
	w.record(two, v1alpha1.RunPlanning, "")
	_, err = w.start(two, runspec.PhasePlan, "")
	w.refused("while its pod is there", err, codes.FailedPrecondition, rpcerr.RunStillLive)
	w.must(w.admin.Delete(t.Context(), w.pod(pod.Name), client.GracePeriodSeconds(0)))
	_, err = w.start(two, runspec.PhasePlan, "")
	w.refused("while its kubelet may still start it", err, codes.FailedPrecondition, rpcerr.RunStillLive)
	w.kubelet(pod, corev1.PodFailed, neverRan)
	_, err = w.start(two, runspec.PhasePlan, "")
	w.refused("before the Job controller knows", err, codes.FailedPrecondition, rpcerr.RunStillLive)

	job := w.job(one, runspec.PhasePlan)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	job.Status.StartTime = nil
	w.must(w.admin.Status().Update(t.Context(), job))
	w.must(w.settle())
	if got := w.get(one, runspec.PhasePlan); got.State != execution.StateVoid {
		t.Errorf("the cancelled run is %s", got.State)
	}
	_, err = w.start(two, runspec.PhasePlan, "")
	w.must(err)
}

func TestCancelOfARunningRunGivesThePodItsGrace(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	pod := w.makePod(w.startPlan(run))
	w.kubelet(pod, corev1.PodRunning, running)
	for range 2 {
		got, err := w.runs().Cancel(t.Context(), w.request(run, runspec.PhasePlan, "").Key, false)
		w.must(err)
		if got.State != execution.StateRunning {
			t.Errorf("the run is %s", got.State)
		}
	}
	pod = w.pod(pod.Name)
	if pod.DeletionTimestamp.IsZero() || ptr.Deref(pod.DeletionGracePeriodSeconds, 0) != 60 {
		t.Errorf("deleted %v with a grace of %v", pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
	}
	w.kubelet(pod, corev1.PodFailed, exited(runspec.ExitInterrupted, ""))
	w.must(w.settle())
	if got := w.get(run, runspec.PhasePlan); got.State != execution.StateFailed || got.Reason != v1alpha1.ReasonInterrupted {
		t.Errorf("the run is %s/%s", got.State, got.Reason)
	}
}

func TestFinishedJobReadAgainByARestartedRunnerIsTheSame(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	pod := w.makePod(w.startPlan(run))
	w.kubelet(pod, corev1.PodSucceeded, exited(0, planned(run, digest)))
	if got := w.get(run, runspec.PhasePlan); got.State != execution.StateRunning {
		t.Errorf("%s is told before it is kept", got.State)
	}
	w.must(w.settle())
	first := w.get(run, runspec.PhasePlan)
	if first.State != execution.StateSucceeded || first.Plan == nil || first.Plan.Digest != digest || first.Plan.Changes.Add != 1 {
		t.Fatalf("the plan is %+v", first.Result)
	}
	w.must(w.admin.Delete(t.Context(), w.pod(pod.Name), client.GracePeriodSeconds(0)))
	w.now = w.now.Add(time.Hour)
	w.must(w.settle())
	if second := w.get(run, runspec.PhasePlan); second.State != first.State || !reflect.DeepEqual(second.Plan, first.Plan) || !second.FinishedAt.Equal(first.FinishedAt) || second.Pod != first.Pod {
		t.Errorf("first %+v, then %+v", first.Result, second.Result)
	}
}

func TestApplysPodIsKeptUntilItsResultIs(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	w.record(run, v1alpha1.RunApplying, digest)
	_, err := w.start(run, runspec.PhaseApply, digest)
	w.must(err)
	pod := w.makePod(w.job(run, runspec.PhaseApply))
	w.kubelet(pod, corev1.PodRunning, running)
	w.must(w.admin.Delete(t.Context(), w.pod(pod.Name), client.GracePeriodSeconds(0)))
	w.must(w.settle())
	if len(w.pod(pod.Name).Finalizers) != 1 {
		t.Fatal("a running pod was let go")
	}
	w.kubelet(pod, corev1.PodFailed, exited(1, ""))
	w.must(w.settle())
	if got := w.get(run, runspec.PhaseApply); got.State != execution.StateFailed || got.Reason != v1alpha1.ReasonApplyFailed {
		t.Errorf("the apply is %s/%s", got.State, got.Reason)
	}
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still held: %v", err)
	}
}

func TestDeletedJobStaysUntilItsPodHasEnded(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	job := w.startPlan(run)
	pod := w.makePod(job)
	w.kubelet(pod, corev1.PodRunning, running)
	w.must(w.admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.must(w.settle())
	w.job(run, runspec.PhasePlan)
	w.kubelet(pod, corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	w.record(run, v1alpha1.RunPlanned, digest)
	w.must(w.settle())
	name := types.NamespacedName{Namespace: w.namespace, Name: job.Name}
	if err := w.admin.Get(t.Context(), name, job); !apierrors.IsNotFound(err) {
		t.Errorf("the Job is still there: %v", err)
	}
	maps := &corev1.ConfigMapList{}
	w.must(w.admin.List(t.Context(), maps, client.InNamespace(w.namespace), client.HasLabels{v1alpha1.LabelRunID}))
	if len(maps.Items) != 0 {
		t.Errorf("%d ConfigMaps are left", len(maps.Items))
	}
}

func TestVolumesOfOthersAreNotTaken(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	ws := w.workspace().DeepCopy()
	ws.UID = "11111111-1111-1111-1111-111111111111"
	foreign := execution.RenderVolume(ws, w.runs().Settings)
	foreign.OwnerReferences = nil
	w.must(w.admin.Create(t.Context(), foreign))
	_, err := w.start(run, runspec.PhasePlan, "")
	w.refused("a predecessor's volume", err, codes.FailedPrecondition, rpcerr.VolumeNotReady)
	w.must(w.admin.Delete(t.Context(), foreign))
	_, err = w.start(run, runspec.PhasePlan, "")
	w.refused("a volume that is going", err, codes.FailedPrecondition, rpcerr.VolumeNotReady)
	w.must(w.admin.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	foreign.Finalizers = nil
	w.must(w.admin.Update(t.Context(), foreign))
	_, err = w.start(run, runspec.PhasePlan, "")
	w.must(err)
}

func TestAccountIsMadeOnlyIfItIsOurs(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.record(run, v1alpha1.RunPlanning, "")
	request := w.request(run, runspec.PhasePlan, "")
	request.ServiceAccount = "deployer"
	_, _, err := w.runs().Start(t.Context(), request)
	w.refused("an account that is missing", err, codes.FailedPrecondition, rpcerr.ServiceAccountNotFound)
	_, err = w.start(run, runspec.PhasePlan, "")
	w.must(err)
	account := &corev1.ServiceAccount{}
	w.must(w.admin.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "magos-job"}, account))
	if ptr.Deref(account.AutomountServiceAccountToken, true) {
		t.Error("the account mounts its token")
	}
}

func TestDeletingWorkspaceKeepsEverythingWhileItsRunLives(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	pod := w.makePod(w.startPlan(run))
	w.kubelet(pod, corev1.PodRunning, running)
	w.must(w.admin.Delete(t.Context(), w.workspace()))
	w.must(w.settle())
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.admin.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "vpc-data"}, claim))
	if len(claim.OwnerReferences) != 0 || !claim.DeletionTimestamp.IsZero() {
		t.Errorf("the volume has the owners %v, deleted %v", claim.OwnerReferences, claim.DeletionTimestamp)
	}
	// Somebody takes the workspace service's finalizer away: ours still holds.
	w.letGo()
	w.must(w.settle())
	w.workspace()
	w.job(run, runspec.PhasePlan)
	w.kubelet(pod, corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	expectNothingLeft(w)
}

func TestOldRunsAreRemoved(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	ws.Status.Applied = &v1alpha1.AppliedState{RunID: w.runID("r1"), Revision: testRevision, Fingerprint: "f", At: metav1.Now()}
	w.must(w.admin.Status().Update(t.Context(), ws))
	for _, n := range []string{"r1", "r2", "r3", "r4", "r5"} {
		run := w.runID(n)
		w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
		w.must(w.settle())
		// Creation times have whole seconds.
		time.Sleep(1100 * time.Millisecond)
	}
	jobs, maps := &batchv1.JobList{}, &corev1.ConfigMapList{}
	w.must(w.admin.List(t.Context(), jobs, client.InNamespace(w.namespace)))
	w.must(w.admin.List(t.Context(), maps, client.InNamespace(w.namespace), client.HasLabels{v1alpha1.LabelRunID}))
	if len(jobs.Items) != 4 || len(maps.Items) != 4 {
		t.Errorf("%d jobs and %d configmaps are left, want those of the last 3 runs and of the one that was applied", len(jobs.Items), len(maps.Items))
	}
	w.job(w.runID("r1"), runspec.PhasePlan)
	w.job(w.runID("r5"), runspec.PhasePlan)
}

func TestJobsOfAWorkspaceThatIsGoneAreRemoved(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
	ws := w.workspace()
	ws.Finalizers = nil
	w.must(w.admin.Update(t.Context(), ws))
	w.must(w.admin.Delete(t.Context(), ws))
	w.must(w.settle())
	jobs := &batchv1.JobList{}
	w.must(w.admin.List(t.Context(), jobs, client.InNamespace(w.namespace)))
	if len(jobs.Items) != 0 {
		t.Errorf("%d jobs are left", len(jobs.Items))
	}
}

// At rest everything is read from the caches: nothing is asked of the API server, and nothing written.
func TestReconcilingAtRestCallsNobody(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	pod := w.makePod(w.startPlan(run))
	w.kubelet(pod, corev1.PodRunning, running)
	var calls []string
	counting := interceptor.NewClient(w.admin, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			calls = append(calls, fmt.Sprintf("get %T %s", obj, key))
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			calls = append(calls, fmt.Sprintf("list %T", list))
			return c.List(ctx, list, opts...)
		},
	})
	atRest := func(what string) {
		writes := crash.New(w.admin, 0, crash.Before)
		w.runner, w.api, calls = writes, counting, nil
		w.must(w.settle())
		if got := append(calls, writes.Writes()...); len(got) != 0 {
			t.Errorf("%s: calls at rest: %v", what, got)
		}
		w.runner, w.api = w.admin, nil
	}
	atRest("while it runs")
	w.kubelet(pod, corev1.PodSucceeded, exited(0, planned(run, digest)))
	w.must(w.settle())
	atRest("when it has ended")
}
