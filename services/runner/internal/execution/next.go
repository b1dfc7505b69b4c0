package execution

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"magosproject.io/api/v1alpha1"
)

// Action is the one thing to do next about a Job.
type Action string

// The actions.
const (
	// ActionNone: nothing is to be done.
	ActionNone Action = "None"
	// ActionRecord: keep the result on the Job.
	ActionRecord Action = "Record"
	// ActionReleasePods: let go of the pods whose result is kept.
	ActionReleasePods Action = "ReleasePods"
	// ActionReleaseJob: let go of a deleted Job.
	ActionReleaseJob Action = "ReleaseJob"
	// ActionSuspend: suspend a void Job again, which somebody has resumed.
	ActionSuspend Action = "Suspend"
	// ActionDelete: delete a Job that is kept as void.
	ActionDelete Action = "Delete"
	// ActionEndPods: ask the pods to end that a void Job has all the same.
	ActionEndPods Action = "EndPods"
)

// Next decides what to do about a Job, one effect at a time: its result is kept before its pods may go, and those go
// before it.
func Next(o Observation) (Action, Judgement) {
	j := Judge(o)
	switch {
	case isResumed(o.Job) && j.State == StatePending:
		return ActionSuspend, j
	case !j.State.Terminal():
		return ActionNone, j
	case !j.Durable:
		return ActionRecord, j
	case j.State == StateVoid && o.Job.DeletionTimestamp.IsZero():
		return ActionDelete, j
	case j.State == StateVoid && slices.ContainsFunc(LivePods(o), isNotAsked):
		return ActionEndPods, j
	case len(HeldPods(o)) > 0:
		return ActionReleasePods, j
	case o.Job.DeletionTimestamp.IsZero() || !slices.Contains(o.Job.Finalizers, v1alpha1.FinalizerRunner) || len(LivePods(o)) > 0:
		return ActionNone, j
	}
	if rest := voidRest(j.Result, o.Now); rest > 0 {
		j.Recheck = rest
		return ActionNone, j
	}
	return ActionReleaseJob, j
}

// HeldPods are the pods that our finalizer holds although they have ended.
func HeldPods(o Observation) []*corev1.Pod {
	var held []*corev1.Pod
	for _, pod := range o.Pods {
		if slices.Contains(pod.Finalizers, v1alpha1.FinalizerResult) && o.read(pod).ended {
			held = append(held, pod)
		}
	}
	return held
}

// LivePods are the pods that are not proven ended, whatever result is kept.
func LivePods(o Observation) []*corev1.Pod {
	var live []*corev1.Pod
	for _, pod := range o.Pods {
		if !o.read(pod).ended {
			live = append(live, pod)
		}
	}
	return live
}

func isNotAsked(pod *corev1.Pod) bool { return pod.DeletionTimestamp.IsZero() }

// PodEnded reports whether a pod is proven ended: no container of it runs, and none ever will.
func PodEnded(pod *corev1.Pod, w Witness) bool { return readPod(pod, w).ended }

// keptRuns is how many runs of a Workspace keep their Jobs.
const keptRuns = 3

// Surplus are the Jobs of a Workspace that may be deleted: of older runs than the last ones, ended, with their result
// kept. Runs to keep, such as the present one and the last that was applied, are never among them.
func Surplus(jobs []*batchv1.Job, keep []string) []*batchv1.Job {
	newest := map[string]time.Time{}
	for _, job := range jobs {
		id := job.Labels[v1alpha1.LabelRunID]
		if at := job.CreationTimestamp.Time; at.After(newest[id]) {
			newest[id] = at
		}
	}
	ids := make([]string, 0, len(newest))
	for id := range newest {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := newest[b].Compare(newest[a]); c != 0 {
			return c
		}
		return strings.Compare(b, a)
	})
	kept := map[string]bool{}
	for _, id := range keep {
		kept[id] = true
	}
	for _, id := range ids[:min(keptRuns, len(ids))] {
		kept[id] = true
	}
	var surplus []*batchv1.Job
	for _, job := range jobs {
		if !kept[job.Labels[v1alpha1.LabelRunID]] && removable(job) {
			surplus = append(surplus, job)
		}
	}
	return surplus
}

// Leftover are the Jobs to delete of a Workspace that is going or gone: all that may be.
func Leftover(jobs []*batchv1.Job) []*batchv1.Job {
	var leftover []*batchv1.Job
	for _, job := range jobs {
		if removable(job) {
			leftover = append(leftover, job)
		}
	}
	return leftover
}

func removable(job *batchv1.Job) bool {
	_, ended := KeptResult(job)
	return ended && job.DeletionTimestamp.IsZero()
}
