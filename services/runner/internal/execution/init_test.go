package execution

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

// withInit adds an init container to a pod, as a webhook does; a sidecar is one that runs beside the others.
func withInit(pod *corev1.Pod, name string, state corev1.ContainerState, sidecar bool) *corev1.Pod {
	c := corev1.Container{Name: name}
	if sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name, State: state, ContainerID: "containerd://" + name})
	return pod
}

// blocked is an apply's pod as the kubelet leaves it whose init container failed.
func blocked() *corev1.Pod {
	pod := withInit(endedApply(waiting("PodInitializing", "")), "mesh-init", exited(1, "iptables: not permitted"), false)
	pod.Status.Phase = corev1.PodFailed
	return pod
}

// An init container that others add fails: the pod has ended, the run never started, and the container is named.
func TestAnInitContainerThatFailsHoldsNothingUp(t *testing.T) {
	job := testJob(runspec.PhaseApply)
	job.Status.Failed = 1
	expect(t, "before the Job controller has seen it", observe(job, blocked()), expectation{StatePending, v1alpha1.ReasonRunPending, ""})
	jobCondition(job, batchv1.JobFailed, 0)
	j := expect(t, "then", observe(job, blocked()), expectation{StateFailed, v1alpha1.ReasonInitContainerFailed, "init container mesh-init"})
	if j.StartedAt != nil || len(j.Suspects) != 0 {
		t.Errorf("started %v, suspects %v", j.StartedAt, j.Suspects)
	}
	expect(t, "its words", observe(job, blocked()), expectation{StateFailed, v1alpha1.ReasonInitContainerFailed, "iptables: not permitted"})
	if held := HeldPods(observe(job, blocked())); len(held) != 1 {
		t.Errorf("the pod is not let go of: %v", held)
	}
}

// What is not proof: a kubelet that may still start a container, or of which one runs.
func TestLaw2AnInitContainerThatFailedProvesNothingByItself(t *testing.T) {
	failed := func() *corev1.Pod { return blocked() }
	for name, c := range map[string]struct {
		pod   func() *corev1.Pod
		state State
	}{
		"the kubelet has not given the pod up": {func() *corev1.Pod { p := failed(); p.Status.Phase = corev1.PodPending; return p }, StatePending},
		"it ended well":                        {func() *corev1.Pod { p := failed(); p.Status.InitContainerStatuses[0].State = exited(0, ""); return p }, StateRunning},
		"a sidecar failed, and no other": {func() *corev1.Pod {
			p := failed()
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			return p
		}, StateRunning},
		"a sidecar still runs": {func() *corev1.Pod { return withInit(failed(), "proxy", running(), true) }, StateRunning},
		"the tool runs": {func() *corev1.Pod {
			p := failed()
			p.Status.ContainerStatuses = nil
			return withStatus(p, runspec.ContainerTool, running())
		}, StateRunning},
		"the tool ran before": {func() *corev1.Pod {
			p := failed()
			p.Status.ContainerStatuses[0].LastTerminationState = exited(137, "")
			return p
		}, StateRunning},
		"it is said of a container that the pod does not have": {func() *corev1.Pod { p := failed(); p.Spec.InitContainers = nil; return p }, StateRunning},
	} {
		o := observe(testJob(runspec.PhaseApply), c.pod())
		if j := Judge(o); j.State != c.state || len(HeldPods(o)) != 0 {
			t.Errorf("%s: %s/%s %q", name, j.State, j.Reason, j.Message)
		}
	}
}

// A run has started when a container of its own has run, and not when one that others add has.
func TestLaw7InitContainersAreNoStart(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{
		"an init container runs":      withInit(endedApply(waiting("PodInitializing", "")), "mesh-init", running(), false),
		"an init container has ended": withInit(endedApply(waiting("ContainerCreating", "")), "mesh-init", exited(0, ""), false),
		"a sidecar runs":              withInit(endedApply(waiting("ImagePullBackOff", "")), "proxy", running(), true),
	} {
		o := observe(testJob(runspec.PhaseApply), pod)
		if j := Judge(o); j.State != StatePending || j.StartedAt != nil {
			t.Errorf("%s: %s, started %v", name, j.State, j.StartedAt)
		}
		// It has run all the same: that the pod was refused does not prove that nothing of it runs.
		pod.Status.Phase, pod.Status.Message = corev1.PodFailed, rejectedPrefix
		if j := Judge(o); j.State != StateRunning || j.Reason != v1alpha1.ReasonNodeLost {
			t.Errorf("%s, refused: %s/%s", name, j.State, j.Reason)
		}
	}
	ended := withInit(endedApply(exited(0, "")), "proxy", running(), true)
	if j := Judge(observe(testJob(runspec.PhaseApply), ended)); j.State.Terminal() {
		t.Error("a sidecar that runs is overlooked")
	}
	ended.Status.InitContainerStatuses[0].State = exited(0, "")
	if j := Judge(observe(testJob(runspec.PhaseApply), ended)); j.State != StateSucceeded || !j.FinishedAt.Equal(ptrAt(-time.Minute)) {
		t.Errorf("%s, finished %v", j.State, j.FinishedAt)
	}
}
