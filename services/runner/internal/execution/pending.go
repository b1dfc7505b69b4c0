package execution

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
)

// imageReasons are the kubelet's words for an image that it cannot have.
var imageReasons = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true, "ImageInspectError": true, "RegistryUnavailable": true,
}

// podPending says what a pod waits for that has not started.
func podPending(pod *corev1.Pod, events []*corev1.Event) (reason, message string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return v1alpha1.ReasonUnschedulable, clip(c.Message)
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		w := s.State.Waiting
		switch {
		case w == nil || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing":
		case imageReasons[w.Reason]:
			return v1alpha1.ReasonImagePullBackOff, clip(s.Name + ": " + w.Reason + ": " + w.Message)
		default:
			return v1alpha1.ReasonRunPending, clip(s.Name + ": " + w.Reason + ": " + w.Message)
		}
	}
	if e := latest(events, pod.UID, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedScheduling"); e != nil {
		return mountReason(e), clip(e.Reason + ": " + e.Message)
	}
	if pod.Spec.NodeName == "" {
		return v1alpha1.ReasonRunPending, "the pod waits for a node"
	}
	return v1alpha1.ReasonRunPending, "the pod is being started on node " + pod.Spec.NodeName
}

// mountReason tells a variable whose source is missing from other troubles with volumes: the kubelet says both alike.
func mountReason(e *corev1.Event) string {
	if e.Reason == "FailedMount" && strings.Contains(e.Message, `volume "`+volumeVariables+`"`) {
		return v1alpha1.ReasonUnresolvedVariables
	}
	if e.Reason == "FailedScheduling" {
		return v1alpha1.ReasonUnschedulable
	}
	return v1alpha1.ReasonRunPending
}

// jobPending says what a Job waits for that has no pod.
func jobPending(job *batchv1.Job, events []*corev1.Event) (reason, message string) {
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		return v1alpha1.ReasonRunPending, "the Job is suspended, though not by Magos; resume it with spec.suspend: false"
	}
	e := latest(events, job.UID, "FailedCreate")
	if e == nil {
		return v1alpha1.ReasonRunPending, "the Job waits for its pod"
	}
	// The API server's refusal reaches us only as text of the Job controller's event.
	switch {
	case strings.Contains(e.Message, "exceeded quota"), strings.Contains(e.Message, "failed quota"):
		return v1alpha1.ReasonQuotaExceeded, clip(e.Message)
	case strings.Contains(e.Message, "service account"), strings.Contains(e.Message, "serviceaccount"):
		return v1alpha1.ReasonServiceAccountNotFound, clip(e.Message)
	}
	return v1alpha1.ReasonRunPending, clip(e.Message)
}

// latest is the newest of the events about the object with one of the reasons, nil when there is none.
func latest(events []*corev1.Event, uid types.UID, reasons ...string) *corev1.Event {
	var newest *corev1.Event
	for _, e := range events {
		if e.InvolvedObject.UID != uid {
			continue
		}
		for _, reason := range reasons {
			if e.Reason == reason && (newest == nil || eventTime(newest).Before(eventTime(e))) {
				newest = e
			}
		}
	}
	return newest
}
