package execution

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// settle is how long after its deletion a Job without a pod may still get one from a Job controller that has not seen
// the deletion yet.
const settle = 30 * time.Second

// silentRecheck is how often a pod that may be lost is looked at again: nothing may announce the end of its node.
const silentRecheck = 30 * time.Second

// Observation is everything that is known of one phase of a run.
type Observation struct {
	// Now is the time of the observation.
	Now time.Time
	// Job is required.
	Job *batchv1.Job
	// Pods of the Job; more than one only when something went wrong.
	Pods []*corev1.Pod
	// Events are the warnings about the Job and its Pods, in any order.
	Events []*corev1.Event
	// NodesGone has the names of those of the Pods' nodes that are known not to exist. A node that was not looked for is not in it.
	NodesGone map[string]bool
	// NodeLossGrace is how long after the loss of its node a pod counts as running.
	NodeLossGrace time.Duration
	// Confirmed says that a person has said of this run that it has ended.
	Confirmed bool
}

// Judgement is what an Observation proves.
type Judgement struct {
	Result
	// Durable says that the Result was read from the Job, where it is kept.
	Durable bool
	// Recheck is when to look again although nothing may have changed; 0 for never.
	Recheck time.Duration
	// Suspects are the nodes to look for: a pod there looks lost.
	Suspects []string
}

// Judge says where a phase of a run stands. A terminal state is proof: no container of it runs, and none ever will.
func Judge(o Observation) Judgement {
	if kept, ok := KeptResult(o.Job); ok {
		return o.kept(kept)
	}
	var ran []*corev1.Pod
	for _, pod := range o.Pods {
		f := o.read(pod)
		if !f.ended {
			return o.live(pod, f)
		}
		if f.started || f.vanished {
			ran = append(ran, pod)
		}
	}
	switch len(ran) {
	case 0:
		return o.withoutPod()
	case 1:
		return o.ended(ran[0])
	}
	return o.failed(v1alpha1.ReasonRunLost, "more than one pod of the Job has run, so that nothing of it can be trusted", ran[0], o.read(ran[0]))
}

func (o Observation) read(pod *corev1.Pod) podFacts {
	return readPod(pod, Witness{Now: o.Now, NodeGone: o.NodesGone[pod.Spec.NodeName], NodeLossGrace: o.NodeLossGrace, Confirmed: o.Confirmed})
}

// live judges a pod that is not proven ended.
func (o Observation) live(pod *corev1.Pod, f podFacts) Judgement {
	j := Judgement{Result: Result{State: StatePending, Pod: pod.Name, Node: pod.Spec.NodeName, Started: f.started, StartedAt: f.startedAt}}
	if f.started {
		j.State = StateRunning
	}
	j.lookFor(pod, f)
	switch {
	case f.suspect:
		j.State = StateRunning
		j.Reason = v1alpha1.ReasonNodeLost
		j.Message = clip("the pod " + pod.Name + " on node " + pod.Spec.NodeName + " has not provably ended: its kubelet has not reported that its containers terminated; " + HowToConfirm(o.Job))
		if d := f.provenAt.Sub(o.Now); d > 0 && d < j.Recheck {
			j.Recheck = d
		}
	case f.started:
	case IsVoid(o.Job):
		j.Reason, j.Message = v1alpha1.ReasonRunPending, "cancelled; its pod is being removed"
	default:
		j.Reason, j.Message = podPending(pod, o.Events)
	}
	return j
}

// lookFor has the node of a pod that may be lost looked for.
func (j *Judgement) lookFor(pod *corev1.Pod, f podFacts) {
	if pod.Spec.NodeName != "" && (f.suspect || !pod.DeletionTimestamp.IsZero()) {
		j.Suspects = append(j.Suspects, pod.Spec.NodeName)
		j.Recheck = silentRecheck
	}
}

// ended judges the one pod that has run.
func (o Observation) ended(pod *corev1.Pod) Judgement {
	f := o.read(pod)
	switch {
	case f.vanished && o.Confirmed:
		return o.failed(v1alpha1.ReasonRunLost, "its pod is lost, and a person confirmed that it has ended; what it did is not known", pod, f)
	case f.vanished:
		return o.failed(v1alpha1.ReasonRunLost, "the node of the pod is gone, and with it what the run did", pod, f)
	}
	result := outcome(o.Job, pod)
	result.Pod, result.Node, result.Started, result.StartedAt, result.FinishedAt = pod.Name, pod.Spec.NodeName, true, f.startedAt, f.finishedAt
	if result.FinishedAt == nil {
		result.FinishedAt = o.now()
	}
	return Judgement{Result: result}
}

func (o Observation) failed(reason, message string, pod *corev1.Pod, f podFacts) Judgement {
	return Judgement{Result: Result{
		State: StateFailed, Reason: reason, Message: clip(message),
		Pod: pod.Name, Node: pod.Spec.NodeName, Started: true, StartedAt: f.startedAt, FinishedAt: o.now(),
	}}
}

func (o Observation) now() *metav1.Time {
	at := metav1.NewTime(o.Now)
	return &at
}

// withoutPod judges a Job of whose pods none has run, as far as is known.
func (o Observation) withoutPod() Judgement {
	if reason, message, finished := jobFinished(o.Job); finished {
		return o.jobEnded(reason, message)
	}
	switch {
	case hadPods(o.Job) && len(o.Pods) == 0:
		return o.podVanished()
	case !o.Job.DeletionTimestamp.IsZero():
		return o.afterSettling(o.Job.DeletionTimestamp.Time)
	case IsVoid(o.Job):
		if suspensionSeen(o.Job) {
			return Judgement{Result: VoidResult(o.Now)}
		}
		return Judgement{Result: Result{State: StatePending, Reason: v1alpha1.ReasonRunPending, Message: "cancelled; waits for the Job controller to take note"}}
	}
	reason, message := jobPending(o.Job, o.Events)
	return Judgement{Result: Result{State: StatePending, Reason: reason, Message: message}}
}

// jobEnded judges a Job that its controller calls finished, of whose pods none is known to have run.
func (o Observation) jobEnded(reason, message string) Judgement {
	if len(o.Pods) == 0 && hadPods(o.Job) {
		return o.podVanished()
	}
	if IsVoid(o.Job) {
		return Judgement{Result: VoidResult(o.Now)}
	}
	result := Result{State: StateFailed, Reason: v1alpha1.ReasonUnschedulable, Message: clip("no container was started: " + message), FinishedAt: o.now()}
	if len(o.Pods) > 0 {
		result.Pod, result.Node = o.Pods[0].Name, o.Pods[0].Spec.NodeName
		result.Message = clip("no container was started: " + o.Pods[0].Status.Message)
		if o.Pods[0].Status.Message == "" {
			result.Reason, result.Message = v1alpha1.ReasonInterrupted, "the pod was removed before it started"
		}
		if s, failed := failedInit(o.Pods[0]); failed {
			result.Reason, result.Message = v1alpha1.ReasonInitContainerFailed, initFailure(s)
		}
	}
	if reason == batchv1.JobReasonDeadlineExceeded {
		result.Reason = v1alpha1.ReasonTimedOut
	}
	return Judgement{Result: result}
}

// initFailure says which init container failed and how.
func initFailure(s corev1.ContainerStatus) string {
	message := fmt.Sprintf("the init container %s, which something in the cluster adds to the pod, ended with exit code %d, so that no container of the run was started",
		s.Name, s.State.Terminated.ExitCode)
	if words := strings.TrimSpace(s.State.Terminated.Message); words != "" {
		message += ": " + words
	}
	return clip(message)
}

// podVanished judges a pod that was there and is gone without our having read its end. Our finalizer keeps pods from that:
// somebody took it off, and neither a kubelet nor a node can prove any more that its containers have ended.
func (o Observation) podVanished() Judgement {
	if !o.Confirmed {
		return Judgement{
			Result:  Result{State: StateRunning, Reason: v1alpha1.ReasonNodeLost, Message: "the pod is gone without having reported its end; " + HowToConfirm(o.Job)},
			Recheck: silentRecheck,
		}
	}
	message := "its pod was removed before its result could be read, and a person confirmed that it has ended; what it did is not known"
	return Judgement{Result: Result{State: StateFailed, Reason: v1alpha1.ReasonRunLost, Message: message, Started: true, FinishedAt: o.now()}}
}

// HowToConfirm says what a person can do about a run that cannot be proven ended.
func HowToConfirm(job *batchv1.Job) string {
	return "nothing new runs until that is known: whoever is sure that it has ended sets the annotation " + v1alpha1.AnnotationConfirmEnded +
		" of the Workspace to " + job.Labels[v1alpha1.LabelRunID]
}

// afterSettling judges a deleted Job that never had a pod.
func (o Observation) afterSettling(since time.Time) Judgement {
	if left := since.Add(settle).Sub(o.Now); left > 0 {
		return Judgement{Result: Result{State: StatePending, Reason: v1alpha1.ReasonRunPending, Message: "the Job is being deleted"}, Recheck: left}
	}
	result := VoidResult(o.Now)
	result.Message = "the Job was deleted before it ran"
	return Judgement{Result: result}
}

// jobFinished says whether and why the Job controller called the Job finished.
func jobFinished(job *batchv1.Job) (reason, message string, finished bool) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobFailed || c.Type == batchv1.JobComplete) && c.Status == corev1.ConditionTrue {
			return c.Reason, c.Message, true
		}
	}
	return "", "", false
}

// suspensionSeen reports whether the Job controller has taken note of the suspension: from then on it makes no pod.
func suspensionSeen(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue {
			return job.Spec.Suspend != nil && *job.Spec.Suspend
		}
	}
	return false
}

// hadPods reports whether the Job controller has counted a pod.
func hadPods(job *batchv1.Job) bool {
	s := job.Status
	uncounted := s.UncountedTerminatedPods != nil && len(s.UncountedTerminatedPods.Failed)+len(s.UncountedTerminatedPods.Succeeded) > 0
	return s.Active > 0 || s.Failed > 0 || s.Succeeded > 0 || uncounted || (s.Terminating != nil && *s.Terminating > 0)
}
