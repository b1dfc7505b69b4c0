package execution

import (
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

const (
	testUID   = "0b8d5f0a-3c1e-4b7e-9a53-4d1f0c2e7a11"
	testRun   = testUID + "-lx3k9q2a"
	testGrace = 5 * time.Minute
)

var testNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func planRequest() Request {
	return Request{
		Key:     Key{Namespace: "team-a", Workspace: "vpc-dev", WorkspaceUID: testUID, RunID: testRun, Phase: runspec.PhasePlan},
		RepoURL: "https://git.example.com/infra.git", Revision: "0123456789abcdef0123456789abcdef01234567", TargetRevision: "main", Path: "infra/dev", RecurseSubmodules: true,
		RepositorySecrets: []string{"github", "gitlab.deploy"},
		Engine:            v1alpha1.EngineOpenTofu, ToolVersion: "1.12.6", TfvarsPath: "env/dev.tfvars",
		Variables: []Variable{
			{Name: "region", Value: ptr.To("eu-$(HOME)-$$1")},
			{Name: "password", Secret: &KeyRef{Name: "db", Key: "password"}},
			{Name: "zone", ConfigMap: &KeyRef{Name: "zones", Key: "zone", Optional: true}},
			{Name: "empty", Value: ptr.To("")},
		},
		ServiceAccount: "magos-job", MountToken: true,
		PodAnnotations: map[string]string{"karpenter.sh/do-not-disrupt": "false", "team": "a"},
		Timeout:        time.Hour,
	}
}

func applyRequest() Request {
	r := planRequest()
	r.Phase, r.TfvarsPath, r.Variables, r.MountToken, r.PodAnnotations = runspec.PhaseApply, "", nil, false, nil
	r.RepositorySecrets = nil
	r.PlanDigest = "sha256:aaaaaaaaaaaaaaaa"
	return r
}

func testSettings() Settings {
	requirements := func(cpu, memory, limit string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
		}
	}
	return Settings{
		RunImage: "registry.example.com/magos-run:1", PullPolicy: corev1.PullIfNotPresent,
		ToolMirror: "https://mirror.example.com/tools", ProviderMirror: "/opt/mirror", ProviderMirrorOnly: true,
		GitSchemes: []string{"https", "ssh"}, GitHelpers: []string{"s3"},
		PlanGrace: time.Minute, ApplyGrace: 10 * time.Minute, StorageSize: resource.MustParse("1Gi"),
		Keeper: requirements("50m", "128Mi", "1Gi"), Tool: requirements("100m", "256Mi", "2Gi"), Show: requirements("50m", "128Mi", "1Gi"),
	}
}

func at(d time.Duration) metav1.Time { return metav1.NewTime(testNow.Add(d)) }

func ptrAt(d time.Duration) *metav1.Time { return ptr.To(at(d)) }

// testJob is a running Job of the plan or apply, as the Job controller has it.
func testJob(phase string) *batchv1.Job {
	key := planRequest().Key
	key.Phase = phase
	job := newJob(key)
	job.UID, job.ResourceVersion = "job-uid", "7"
	job.CreationTimestamp = at(-time.Hour)
	return job
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType, since time.Duration) *batchv1.Job {
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at(since)})
	return job
}

// testPod is a pod on a node, with no container statuses yet.
func testPod(phase string) *corev1.Pod {
	key := planRequest().Key
	key.Phase = phase
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "pod", UID: "pod-uid", Labels: key.Labels()}}
	names := []string{runspec.ContainerTool}
	if phase == runspec.PhasePlan {
		names = []string{runspec.ContainerKeeper, runspec.ContainerTool, runspec.ContainerShow}
	}
	pod.Finalizers = []string{v1alpha1.FinalizerResult}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	pod.Spec.NodeName = "node-1"
	pod.Status.Phase = corev1.PodPending
	return pod
}

func withStatus(pod *corev1.Pod, name string, state corev1.ContainerState) *corev1.Pod {
	s := corev1.ContainerStatus{Name: name, State: state}
	if state.Running != nil || (state.Terminated != nil && !state.Terminated.StartedAt.IsZero()) {
		s.ContainerID = "containerd://" + name
	}
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
	return pod
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-10 * time.Minute)}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func exited(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, StartedAt: at(-10 * time.Minute), FinishedAt: at(-time.Minute)}}
}

// neverRan is how the kubelet reports a container of a pod that ended before it started.
func neverRan() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}}
}

func record(change func(*runspec.Record)) string {
	r := runspec.Record{Version: runspec.Version, RunID: testRun, Outcome: runspec.OutcomePlanned, Digest: "sha256:abc", Changes: runspec.Changes{Add: 2}}
	if change != nil {
		change(&r)
	}
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func endedPlan(keeper, tool, show corev1.ContainerState) *corev1.Pod {
	pod := testPod(runspec.PhasePlan)
	withStatus(pod, runspec.ContainerKeeper, keeper)
	withStatus(pod, runspec.ContainerTool, tool)
	withStatus(pod, runspec.ContainerShow, show)
	return pod
}

func endedApply(tool corev1.ContainerState) *corev1.Pod {
	return withStatus(testPod(runspec.PhaseApply), runspec.ContainerTool, tool)
}

func observe(job *batchv1.Job, pods ...*corev1.Pod) Observation {
	return Observation{Now: testNow, Job: job, Pods: pods, NodeLossGrace: testGrace, NodesGone: map[string]bool{}}
}
