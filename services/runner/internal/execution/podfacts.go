package execution

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// rejectedPrefix begins the message of a pod that a kubelet refused to start. Nothing else tells such a pod, which has
// no container statuses, from one that somebody else marked Failed.
const rejectedPrefix = "Pod was rejected"

// podFacts is what one Pod proves.
type podFacts struct {
	// started: a container of the run has run. Init containers, which others add to the pod, are none.
	started bool
	// initRan: an init container has run.
	initRan bool
	// ended: no container runs, and none ever will.
	ended bool
	// vanished: ended is inferred from the loss of its node, or a person said so: how it ended is not known.
	vanished bool
	// suspect: it looks over to somebody, and the kubelet has not said so.
	suspect bool
	// provenAt is when a silent pod on a lost node counts as ended; zero when that is not known yet.
	provenAt   time.Time
	startedAt  *metav1.Time
	finishedAt *metav1.Time
}

// Witness is what is known of a pod beside what its kubelet reports.
type Witness struct {
	// Now is the time of the observation.
	Now time.Time
	// NodeGone: its Node object is known not to exist.
	NodeGone bool
	// NodeLossGrace is how long after the loss of its node a pod counts as running.
	NodeLossGrace time.Duration
	// Confirmed: a person said that the run has ended.
	Confirmed bool
}

// readPod reads a Pod's facts.
func readPod(pod *corev1.Pod, w Witness) podFacts {
	f := podFacts{}
	f.judge(pod, w)
	// A person is believed where the kubelet is silent, never against a pod that it reports on and that nobody asked to end.
	if w.Confirmed && !f.ended && (f.suspect || !pod.DeletionTimestamp.IsZero()) {
		f.ended, f.vanished = true, true
	}
	return f
}

func (f *podFacts) judge(pod *corev1.Pod, w Witness) {
	all := f.readContainers(pod)
	switch {
	case all, !f.started && !f.initRan && neverStarts(pod), !f.started && neverGetsPastInit(pod):
		f.ended = true
	case w.NodeGone && pod.Spec.NodeName != "":
		f.suspect = true
		if since := lostSince(pod); !since.IsZero() {
			f.provenAt = since.Add(w.NodeLossGrace)
			f.ended = !w.Now.Before(f.provenAt)
			f.vanished = f.ended
		}
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		f.suspect = true
	case pod.Spec.NodeName != "" && !pod.DeletionTimestamp.IsZero():
		f.suspect = w.Now.After(pod.DeletionTimestamp.Add(overdue))
	}
}

// neverStarts reports whether a pod of which no container has run is kept from it for good: the API server binds no pod
// that is being deleted, and a kubelet that rejected a pod does not take it up again.
func neverStarts(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" && !pod.DeletionTimestamp.IsZero() {
		return true
	}
	return pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(pod.Status.Message, rejectedPrefix) && disruptedAt(pod).IsZero()
}

// neverGetsPastInit reports whether an init container has failed. A kubelet starts none of the others then, takes a pod that is never
// restarted for Failed, and goes on reporting that its containers wait.
func neverGetsPastInit(pod *corev1.Pod) bool {
	if _, failed := failedInit(pod); !failed || pod.Status.Phase != corev1.PodFailed {
		return false
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if s.State.Running != nil {
			return false
		}
	}
	return true
}

// failedInit is the init container that failed, if one has. One that runs beside the others, a sidecar, keeps nothing from starting
// by its end.
func failedInit(pod *corev1.Pod) (corev1.ContainerStatus, bool) {
	for _, c := range pod.Spec.InitContainers {
		s := statusOf(pod.Status.InitContainerStatuses, c.Name)
		if end := s.State.Terminated; end != nil && end.ExitCode != 0 && ptr.Deref(c.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			return s, true
		}
	}
	return corev1.ContainerStatus{}, false
}

// overdue is how long after its grace a deleted pod may still be there before its node counts as silent.
const overdue = 30 * time.Second

// readContainers notes when containers started and ended, and reports whether the kubelet says that every one has.
func (f *podFacts) readContainers(pod *corev1.Pod) bool {
	all := len(pod.Spec.Containers) > 0
	for _, c := range pod.Spec.Containers {
		s := statusOf(pod.Status.ContainerStatuses, c.Name)
		all = all && s.State.Terminated != nil
		f.note(s)
	}
	// Containers that others add to the pod: one that has not run yet will not once all the others have ended.
	for _, s := range pod.Status.EphemeralContainerStatuses {
		all = all && s.State.Running == nil
		f.note(s)
	}
	for _, s := range pod.Status.InitContainerStatuses {
		all = all && s.State.Running == nil
		init := podFacts{}
		init.note(s)
		f.initRan = f.initRan || init.started
	}
	if !all {
		f.finishedAt = nil
	}
	return all
}

func (f *podFacts) note(s corev1.ContainerStatus) {
	if running := s.State.Running; running != nil {
		f.begin(running.StartedAt)
	}
	for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if ended == nil {
			continue
		}
		// A kubelet that has lost a container says that it ended, without any time or ID; it speaks of a last time only where there was one.
		if !ended.StartedAt.IsZero() || s.ContainerID != "" || ended.ContainerID != "" || s.LastTerminationState.Terminated != nil {
			f.begin(ended.StartedAt)
		}
		if at := ended.FinishedAt; !at.IsZero() && (f.finishedAt == nil || f.finishedAt.Before(&at)) {
			f.finishedAt = &at
		}
	}
}

func (f *podFacts) begin(at metav1.Time) {
	f.started = true
	if !at.IsZero() && (f.startedAt == nil || at.Before(f.startedAt)) {
		f.startedAt = &at
	}
}

func statusOf(statuses []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, s := range statuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{Name: name}
}

// disruptedAt is when the pod was marked for disruption, zero if it was not.
func disruptedAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// lostSince is when Kubernetes gave the pod up; zero while it has not.
func lostSince(pod *corev1.Pod) time.Time {
	since := disruptedAt(pod)
	if d := pod.DeletionTimestamp; !d.IsZero() && d.After(since) {
		since = d.Time
	}
	return since
}
