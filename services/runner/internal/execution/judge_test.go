package execution

import (
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

type expectation struct {
	state   State
	reason  string
	message string // a part of it
}

func expect(t *testing.T, name string, o Observation, want expectation) Judgement {
	t.Helper()
	j := Judge(o)
	if j.State != want.state || j.Reason != want.reason || !strings.Contains(j.Message, want.message) {
		t.Errorf("%s: %s/%s %q, want %s/%s %q", name, j.State, j.Reason, j.Message, want.state, want.reason, want.message)
	}
	return j
}

func warning(uid, reason, message string, ago time.Duration) *corev1.Event {
	return &corev1.Event{InvolvedObject: corev1.ObjectReference{UID: types.UID(uid)}, Reason: reason, Message: message, LastTimestamp: at(-ago)}
}

func TestJudgeOutcomeOfAPlan(t *testing.T) {
	good := exited(0, record(nil))
	oom := exited(137, "")
	oom.Terminated.Reason = "OOMKilled"
	failed := func(reason, message string) corev1.ContainerState {
		return exited(0, record(func(r *runspec.Record) {
			r.Outcome, r.Digest, r.Reason, r.Message = runspec.OutcomeFailed, "", reason, message
		}))
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		want expectation
	}{
		"all well":                               {endedPlan(good, exited(0, ""), exited(0, "")), expectation{StateSucceeded, "", ""}},
		"keeper failed although it has a record": {endedPlan(exited(70, record(nil)), exited(0, ""), exited(0, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, ""}},
		"tool failed although keeper is content": {endedPlan(good, exited(1, "Error: no"), exited(0, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "Error: no"}},
		"show failed although keeper is content": {endedPlan(good, exited(0, ""), exited(1, "Error: no")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "Error: no"}},
		"show killed although keeper is content": {endedPlan(good, exited(0, ""), exited(137, "")), expectation{StateFailed, v1alpha1.ReasonInterrupted, "137"}},
		"no record":                              {endedPlan(exited(0, ""), exited(0, ""), exited(0, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "record"}},
		"record of another run": {endedPlan(exited(0, record(func(r *runspec.Record) { r.RunID = "other" })), exited(0, ""), exited(0, "")),
			expectation{StateFailed, v1alpha1.ReasonPlanFailed, "other"}},
		"record of another version": {endedPlan(exited(0, record(func(r *runspec.Record) { r.Version = 9 })), exited(0, ""), exited(0, "")),
			expectation{StateFailed, v1alpha1.ReasonPlanFailed, "version"}},
		"keeper says why": {endedPlan(failed(v1alpha1.ReasonFetchFailed, "no such host"), exited(runspec.ExitPeerEnded, ""), exited(runspec.ExitPeerEnded, "")),
			expectation{StateFailed, v1alpha1.ReasonFetchFailed, "no such host"}},
		"keeper gives a reason that is none of its": {endedPlan(failed("Applied", "x"), exited(0, ""), exited(0, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "x"}},
		"the tool's words are added":                {endedPlan(failed(v1alpha1.ReasonPlanFailed, "the tool failed"), exited(1, "Error: bad"), exited(78, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "the tool failed\nError: bad"}},
		"timed out":                                 {endedPlan(exited(78, ""), exited(73, "interrupted"), exited(78, "")), expectation{StateFailed, v1alpha1.ReasonTimedOut, "interrupted"}},
		"interrupted":                               {endedPlan(exited(74, ""), exited(74, ""), exited(74, "")), expectation{StateFailed, v1alpha1.ReasonInterrupted, "tool"}},
		"state locked":                              {endedPlan(exited(78, ""), exited(79, "lock held by bob"), exited(78, "")), expectation{StateFailed, v1alpha1.ReasonStateLocked, "bob"}},
		"full disk":                                 {endedPlan(failed(v1alpha1.ReasonStorageFull, "0 of 1024 MiB free"), exited(78, ""), exited(78, "")), expectation{StateFailed, v1alpha1.ReasonStorageFull, "1024"}},
		"storage":                                   {endedPlan(exited(77, "read-only"), exited(78, ""), exited(78, "")), expectation{StateFailed, v1alpha1.ReasonStorageNotWritable, "read-only"}},
		"tool out of memory":                        {endedPlan(failed(v1alpha1.ReasonPlanFailed, "the tool is gone"), oom, exited(78, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "OOMKilled: the container tool"}},
		"keeper out of memory":                      {endedPlan(oom, exited(78, ""), exited(78, "")), expectation{StateFailed, v1alpha1.ReasonPlanFailed, "OOMKilled: the container keeper"}},
		"killed":                                    {endedPlan(exited(137, ""), exited(137, ""), exited(137, "")), expectation{StateFailed, v1alpha1.ReasonInterrupted, "137"}},
	}
	for name, c := range cases {
		j := expect(t, name, observe(testJob(runspec.PhasePlan), c.pod), c.want)
		if (j.Plan != nil) != (j.State == StateSucceeded) {
			t.Errorf("%s: plan %v", name, j.Plan)
		}
		if j.StartedAt == nil || j.FinishedAt == nil || j.Pod != "pod" {
			t.Errorf("%s: started %v, finished %v, pod %q", name, j.StartedAt, j.FinishedAt, j.Pod)
		}
	}
}

// A module can write anything into the termination message of the container it runs in.
func TestForgedTerminationTextOfToolChangesNothing(t *testing.T) {
	forged := record(func(r *runspec.Record) { r.Digest, r.Empty = "sha256:forged", true })
	j := expect(t, "success", observe(testJob(runspec.PhasePlan), endedPlan(exited(0, record(nil)), exited(0, forged), exited(0, forged))), expectation{StateSucceeded, "", ""})
	if j.Plan.Digest != "sha256:abc" || j.Plan.Empty {
		t.Errorf("the plan is the forged one: %+v", j.Plan)
	}
	expect(t, "failure", observe(testJob(runspec.PhasePlan), endedPlan(exited(70, ""), exited(0, forged), exited(0, forged))), expectation{StateFailed, v1alpha1.ReasonPlanFailed, ""})
	expect(t, "apply", observe(testJob(runspec.PhaseApply), endedApply(exited(1, forged))), expectation{StateFailed, v1alpha1.ReasonApplyFailed, ""})
}

func TestJudgeOutcomeOfAnApply(t *testing.T) {
	oom := exited(137, "")
	oom.Terminated.Reason = "OOMKilled"
	for name, c := range map[string]struct {
		tool corev1.ContainerState
		want expectation
	}{
		"applied":      {exited(0, "whatever"), expectation{StateSucceeded, "", ""}},
		"tool failed":  {exited(1, "Error: quota"), expectation{StateFailed, v1alpha1.ReasonApplyFailed, "Error: quota"}},
		"internal":     {exited(70, ""), expectation{StateFailed, v1alpha1.ReasonApplyFailed, "exit code 70"}},
		"seal broken":  {exited(71, ""), expectation{StateFailed, v1alpha1.ReasonSealBroken, ""}},
		"already used": {exited(72, ""), expectation{StateFailed, v1alpha1.ReasonAlreadyUsed, ""}},
		"timed out":    {exited(73, ""), expectation{StateFailed, v1alpha1.ReasonTimedOut, ""}},
		"interrupted":  {exited(74, ""), expectation{StateFailed, v1alpha1.ReasonInterrupted, ""}},
		"no tool":      {exited(76, ""), expectation{StateFailed, v1alpha1.ReasonToolUnavailable, ""}},
		"state locked": {exited(79, ""), expectation{StateFailed, v1alpha1.ReasonStateLocked, ""}},
		"stale plan":   {exited(80, "the saved plan is stale"), expectation{StateFailed, v1alpha1.ReasonStalePlan, "stale"}},
		"full disk":    {exited(81, "full"), expectation{StateFailed, v1alpha1.ReasonStorageFull, "full"}},
		"memory":       {oom, expectation{StateFailed, v1alpha1.ReasonApplyFailed, "OOMKilled: the container tool"}},
	} {
		expect(t, name, observe(testJob(runspec.PhaseApply), endedApply(c.tool)), c.want)
	}
}

func TestJudgePending(t *testing.T) {
	unbound := testPod(runspec.PhasePlan)
	unbound.Spec.NodeName = ""
	unschedulable := unbound.DeepCopy()
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"}}
	image := withStatus(testPod(runspec.PhasePlan), "tool", waiting("ImagePullBackOff", "no such image"))
	suspended := testJob(runspec.PhasePlan)
	suspended.Spec.Suspend = ptr.To(true)
	cases := map[string]struct {
		job    *batchv1.Job
		pod    *corev1.Pod
		events []*corev1.Event
		want   expectation
	}{
		"no pod yet":      {want: expectation{StatePending, v1alpha1.ReasonRunPending, "waits for its pod"}},
		"suspended":       {job: suspended, want: expectation{StatePending, v1alpha1.ReasonRunPending, "suspended"}},
		"quota":           {events: []*corev1.Event{warning("job-uid", "FailedCreate", `pods "x" is forbidden: exceeded quota: pods`, 0)}, want: expectation{StatePending, v1alpha1.ReasonQuotaExceeded, "exceeded quota"}},
		"account":         {events: []*corev1.Event{warning("job-uid", "FailedCreate", `error looking up service account ns/x: serviceaccount "x" not found`, 0)}, want: expectation{StatePending, v1alpha1.ReasonServiceAccountNotFound, "not found"}},
		"other refusal":   {events: []*corev1.Event{warning("job-uid", "FailedCreate", "webhook says no", 0)}, want: expectation{StatePending, v1alpha1.ReasonRunPending, "webhook says no"}},
		"the newest":      {events: []*corev1.Event{warning("job-uid", "FailedCreate", "new", 0), warning("job-uid", "FailedCreate", "exceeded quota", time.Minute)}, want: expectation{StatePending, v1alpha1.ReasonRunPending, "new"}},
		"another's event": {events: []*corev1.Event{warning("other", "FailedCreate", "exceeded quota", 0)}, want: expectation{StatePending, v1alpha1.ReasonRunPending, "waits for its pod"}},
		"no node yet":     {pod: unbound, want: expectation{StatePending, v1alpha1.ReasonRunPending, "waits for a node"}},
		"unschedulable":   {pod: unschedulable, want: expectation{StatePending, v1alpha1.ReasonUnschedulable, "0/3 nodes"}},
		"starting":        {pod: testPod(runspec.PhasePlan), want: expectation{StatePending, v1alpha1.ReasonRunPending, "node-1"}},
		"image":           {pod: image, want: expectation{StatePending, v1alpha1.ReasonImagePullBackOff, "no such image"}},
		"config":          {pod: withStatus(testPod(runspec.PhasePlan), "tool", waiting("CreateContainerConfigError", "x")), want: expectation{StatePending, v1alpha1.ReasonRunPending, "CreateContainerConfigError"}},
		"volume":          {pod: testPod(runspec.PhasePlan), events: []*corev1.Event{warning("pod-uid", "FailedAttachVolume", "Multi-Attach", 0)}, want: expectation{StatePending, v1alpha1.ReasonRunPending, "Multi-Attach"}},
		"variable": {pod: withStatus(testPod(runspec.PhasePlan), "tool", waiting("ContainerCreating", "")), events: []*corev1.Event{warning("pod-uid", "FailedMount", `MountVolume.SetUp failed for volume "variables" : secret "db" not found`, 0)},
			want: expectation{StatePending, v1alpha1.ReasonUnresolvedVariables, `secret "db" not found`}},
	}
	for name, c := range cases {
		job := c.job
		if job == nil {
			job = testJob(runspec.PhasePlan)
		}
		o := observe(job)
		if c.pod != nil {
			o.Pods = []*corev1.Pod{c.pod}
		}
		o.Events = c.events
		expect(t, name, o, c.want)
	}
}

func TestRunningWhileOneContainerRuns(t *testing.T) {
	pod := endedPlan(running(), exited(0, ""), exited(0, ""))
	j := expect(t, "keeper runs", observe(testJob(runspec.PhasePlan), pod), expectation{StateRunning, "", ""})
	if j.FinishedAt != nil || j.StartedAt == nil {
		t.Errorf("started %v, finished %v", j.StartedAt, j.FinishedAt)
	}
	// The Job controller's opinion changes nothing.
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		expect(t, string(kind), observe(jobCondition(testJob(runspec.PhasePlan), kind, -24*time.Hour), pod), expectation{StateRunning, "", ""})
	}
}

// An added container that runs on keeps the pod alive: its volume may still be in use.
func TestInjectedContainersCount(t *testing.T) {
	pod := endedPlan(exited(0, record(nil)), exited(0, ""), exited(0, ""))
	pod.Spec.InitContainers = []corev1.Container{{Name: "proxy"}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", State: running()}}
	expect(t, "sidecar", observe(testJob(runspec.PhasePlan), pod), expectation{StateRunning, "", ""})
	pod.Status.InitContainerStatuses[0].State = exited(0, "")
	expect(t, "sidecar ended", observe(testJob(runspec.PhasePlan), pod), expectation{StateSucceeded, "", ""})
}

func TestPodMarkedFailedByAnyoneElseIsNodeLost(t *testing.T) {
	pod := endedApply(running())
	pod.Status.Phase = corev1.PodFailed
	j := expect(t, "marked", observe(testJob(runspec.PhaseApply), pod), expectation{StateRunning, v1alpha1.ReasonNodeLost, "has not provably ended"})
	if len(j.Suspects) != 1 || j.Recheck == 0 {
		t.Errorf("suspects %v, recheck %v", j.Suspects, j.Recheck)
	}
	o := observe(testJob(runspec.PhaseApply), pod)
	o.NodesGone["node-1"] = true
	expect(t, "node gone, and nobody has given the pod up", o, expectation{StateRunning, v1alpha1.ReasonNodeLost, ""})
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: at(-4 * time.Minute)}}
	j = expect(t, "within the grace", o, expectation{StateRunning, v1alpha1.ReasonNodeLost, ""})
	if j.Recheck != silentRecheck {
		t.Errorf("recheck %v", j.Recheck)
	}
	pod.Status.Conditions[0].LastTransitionTime = at(-5 * time.Minute)
	expect(t, "after the grace", o, expectation{StateFailed, v1alpha1.ReasonRunLost, "node"})
	o.NodesGone["node-1"] = false
	expect(t, "after the grace with the node there", o, expectation{StateRunning, v1alpha1.ReasonNodeLost, ""})
}

func TestPodRejectedByItsKubeletNeverStarted(t *testing.T) {
	pod := testPod(runspec.PhasePlan)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu"
	job := jobCondition(testJob(runspec.PhasePlan), batchv1.JobFailed, 0)
	job.Status.Failed = 1
	j := expect(t, "rejected", observe(job, pod), expectation{StateFailed, v1alpha1.ReasonUnschedulable, "enough resource"})
	if j.StartedAt != nil {
		t.Error("it never started")
	}
}

func TestVoidNeedsTheJobControllersNod(t *testing.T) {
	job := testJob(runspec.PhasePlan)
	job.Annotations = map[string]string{v1alpha1.AnnotationRunVoid: "true"}
	job.Spec.Suspend = ptr.To(true)
	expect(t, "not seen yet", observe(job), expectation{StatePending, v1alpha1.ReasonRunPending, "cancelled"})
	jobCondition(job, batchv1.JobSuspended, 0)
	expect(t, "seen", observe(job), expectation{StateVoid, "", "cancelled"})
	expect(t, "pod still there", observe(job, testPod(runspec.PhasePlan)), expectation{StatePending, v1alpha1.ReasonRunPending, "removed"})
	expect(t, "its pod had started", observe(job, endedPlan(exited(74, ""), exited(74, "x"), exited(74, ""))), expectation{StateFailed, v1alpha1.ReasonInterrupted, "x"})
	expect(t, "its pod never started", observe(job, endedPlan(neverRan(), neverRan(), neverRan())), expectation{StateVoid, "", ""})
	job.Spec.Suspend = ptr.To(false)
	expect(t, "resumed by hand", observe(job), expectation{StatePending, v1alpha1.ReasonRunPending, ""})
}

// Whoever takes our finalizer off a pod takes the proof away with it: time proves nothing.
func TestLaw2AVanishedPodIsProvenEndedByAPersonOnly(t *testing.T) {
	for _, change := range []func(*batchv1.Job){
		func(j *batchv1.Job) { jobCondition(j, batchv1.JobFailed, -1000*time.Hour) },
		func(j *batchv1.Job) { j.DeletionTimestamp = ptrAt(-1000 * time.Hour) },
		func(*batchv1.Job) {},
	} {
		job := testJob(runspec.PhasePlan)
		job.Status.Failed = 1
		change(job)
		o := observe(job)
		if j := expect(t, "unconfirmed", o, expectation{StateRunning, v1alpha1.ReasonNodeLost, v1alpha1.AnnotationConfirmEnded + " of the Workspace to " + testRun}); j.Recheck == 0 {
			t.Error("nobody looks again")
		}
		o.Confirmed = true
		expect(t, "confirmed", o, expectation{StateFailed, v1alpha1.ReasonRunLost, "a person confirmed"})
	}
}

// A person is not believed against a kubelet that reports a running pod which nobody asked to end.
func TestLaw2AConfirmationDoesNotEndAPodThatIsReported(t *testing.T) {
	pod := endedApply(running())
	pod.Status.Phase = corev1.PodRunning
	o := observe(testJob(runspec.PhaseApply), pod)
	o.Confirmed = true
	expect(t, "running", o, expectation{StateRunning, "", ""})
	pod.DeletionTimestamp = ptrAt(0)
	expect(t, "being deleted", o, expectation{StateFailed, v1alpha1.ReasonRunLost, "a person confirmed"})
	o.Confirmed = false
	expect(t, "unconfirmed", o, expectation{StateRunning, "", ""})
}

func TestTwoPodsThatRanProveNothing(t *testing.T) {
	one, two := endedApply(exited(0, "")), endedApply(exited(0, ""))
	two.Name = "second"
	expect(t, "two", observe(testJob(runspec.PhaseApply), one, two), expectation{StateFailed, v1alpha1.ReasonRunLost, "more than one"})
	live := endedApply(running())
	expect(t, "one lives", observe(testJob(runspec.PhaseApply), one, live), expectation{StateRunning, "", ""})
}

func TestDeletedJobSettlesBeforeItIsVoid(t *testing.T) {
	job := testJob(runspec.PhasePlan)
	job.DeletionTimestamp = ptrAt(-10 * time.Second)
	j := expect(t, "just deleted", observe(job), expectation{StatePending, v1alpha1.ReasonRunPending, "deleted"})
	if j.Recheck != 20*time.Second {
		t.Errorf("recheck %v", j.Recheck)
	}
	job.DeletionTimestamp = ptrAt(-30 * time.Second)
	expect(t, "settled", observe(job), expectation{StateVoid, "", "deleted"})
	job.Status.Active = 1
	expect(t, "it had a pod", observe(job), expectation{StateRunning, v1alpha1.ReasonNodeLost, ""})
}

func TestKeptResultIsReadAgainUnchanged(t *testing.T) {
	first := Judge(observe(testJob(runspec.PhasePlan), endedPlan(exited(0, record(nil)), exited(0, ""), exited(0, ""))))
	text, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job := testJob(runspec.PhasePlan)
	job.Annotations = map[string]string{v1alpha1.AnnotationRunResult: text}
	second := Judge(observe(job))
	if !second.Durable || second.State != first.State || !reflect.DeepEqual(second.Plan, first.Plan) || !second.FinishedAt.Equal(first.FinishedAt) || second.Pod != first.Pod {
		t.Errorf("first %+v, then %+v", first, second)
	}
	for _, bad := range []string{"", "{", `{"v":1,"state":"Running"}`, `{"v":2,"state":"Succeeded"}`, `{"v":1,"state":"Done"}`} {
		job.Annotations[v1alpha1.AnnotationRunResult] = bad
		if Judge(observe(job)).Durable {
			t.Errorf("%q was believed", bad)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	j := Judge(observe(testJob(runspec.PhaseApply), endedApply(exited(1, strings.Repeat("ä", 4000)+"\xff the end"))))
	if len(j.Message) > maxMessage || !strings.HasSuffix(j.Message, "the end") || strings.ToValidUTF8(j.Message, "") != j.Message {
		t.Errorf("%d bytes: %q", len(j.Message), j.Message)
	}
}

func TestNextKeepsTheResultBeforeItLetsGo(t *testing.T) {
	job, pod := testJob(runspec.PhaseApply), endedApply(exited(0, ""))
	job.DeletionTimestamp = ptrAt(-time.Hour)
	action, j := Next(observe(job, pod))
	if action != ActionRecord {
		t.Fatalf("first %s", action)
	}
	text, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job.Annotations = map[string]string{v1alpha1.AnnotationRunResult: text}
	if action, _ = Next(observe(job, pod)); action != ActionReleasePods {
		t.Errorf("then %s", action)
	}
	pod.Finalizers = nil
	if action, _ = Next(observe(job, pod)); action != ActionReleaseJob {
		t.Errorf("then %s", action)
	}
	job.Finalizers = nil
	if action, _ = Next(observe(job, pod)); action != ActionNone {
		t.Errorf("at last %s", action)
	}
	job.Finalizers, job.DeletionTimestamp = []string{v1alpha1.FinalizerRunner}, nil
	if action, _ = Next(observe(job, pod)); action != ActionNone {
		t.Errorf("a Job that nobody deleted: %s", action)
	}
}

func TestSurplusKeepsTheLastRunsAndTheCurrentOne(t *testing.T) {
	job := func(run string, age time.Duration, phase string, ended, void bool) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: phase + "-" + run, CreationTimestamp: at(-age), Annotations: map[string]string{},
			Labels: map[string]string{v1alpha1.LabelRunID: run, v1alpha1.LabelRunPhase: phase}}}
		if void {
			j.Annotations[v1alpha1.AnnotationRunVoid] = "true"
		}
		if ended {
			text, err := VoidResult(testNow).Encode()
			if err != nil {
				t.Fatal(err)
			}
			j.Annotations[v1alpha1.AnnotationRunResult] = text
		}
		return j
	}
	jobs := []*batchv1.Job{
		job("e", 1*time.Hour, "plan", true, false), job("d", 2*time.Hour, "plan", true, false), job("c", 3*time.Hour, "plan", true, false),
		job("b", 4*time.Hour, "plan", true, false), job("b", 4*time.Hour, "apply", true, false),
		job("a", 5*time.Hour, "plan", true, false), job("z", 6*time.Hour, "apply", false, false), job("y", 7*time.Hour, "plan", true, true),
	}
	var names []string
	for _, j := range Surplus(jobs, []string{"a", ""}) {
		names = append(names, j.Name)
	}
	if got := strings.Join(names, " "); got != "plan-b apply-b plan-y" {
		t.Errorf("surplus: %s", got)
	}
	if left := Surplus(jobs, []string{"a", "b"}); len(left) != 1 || left[0].Name != "plan-y" {
		t.Errorf("with the last run that was applied kept: %d", len(left))
	}
}

// A kubelet that has lost a container says only that it ended. Whether it ever ran shows in an ID or in a last time: an apply that
// may have changed something must never count as one that did not begin.
func TestLaw7AContainerThatRanAndWasLostHasStarted(t *testing.T) {
	lost := corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}
	for name, c := range map[string]struct {
		status  func(*corev1.ContainerStatus)
		started bool
	}{
		"never ran":                        {func(*corev1.ContainerStatus) {}, false},
		"with the ID of a container":       {func(s *corev1.ContainerStatus) { s.ContainerID = "containerd://x" }, true},
		"with the ID in its end":           {func(s *corev1.ContainerStatus) { s.State.Terminated.ContainerID = "containerd://x" }, true},
		"with a last time without a stamp": {func(s *corev1.ContainerStatus) { s.LastTerminationState.Terminated = lost.DeepCopy() }, true},
		"with a time":                      {func(s *corev1.ContainerStatus) { s.State.Terminated.StartedAt = at(-time.Hour) }, true},
	} {
		job := jobCondition(testJob(runspec.PhaseApply), batchv1.JobFailed, 0)
		pod := endedApply(corev1.ContainerState{Terminated: lost.DeepCopy()})
		c.status(&pod.Status.ContainerStatuses[0])
		j := Judge(observe(job, pod))
		if j.State != StateFailed || j.Started != c.started {
			t.Errorf("%s: %s/%s, started %v", name, j.State, j.Reason, j.Started)
		}
		text, err := j.Encode()
		if err != nil {
			t.Fatal(err)
		}
		job.Annotations = map[string]string{v1alpha1.AnnotationRunResult: text}
		if kept, ok := KeptResult(job); !ok || kept.Started != c.started {
			t.Errorf("%s: kept as started %v", name, kept.Started)
		}
	}
	job := testJob(runspec.PhaseApply)
	for _, text := range []string{`{"v":1,"state":"Failed","reason":"ApplyFailed","startedAt":"2026-11-30T12:00:00Z"}`, `{"v":1,"state":"Failed","reason":"RunLost"}`, `{"v":1,"state":"Succeeded"}`} {
		job.Annotations = map[string]string{v1alpha1.AnnotationRunResult: text}
		if kept, ok := KeptResult(job); !ok || !kept.Started {
			t.Errorf("%s was kept by a runner of before: started %v", text, kept.Started)
		}
	}
}
