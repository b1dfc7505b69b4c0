package execution

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

func eventTime(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if at.IsZero() {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

// exitReasons maps the exit codes of magos-exec. Whatever is missing failed in a way that only the message can tell.
var exitReasons = map[int32]string{
	runspec.ExitSealBroken:         v1alpha1.ReasonSealBroken,
	runspec.ExitAlreadyUsed:        v1alpha1.ReasonAlreadyUsed,
	runspec.ExitTimedOut:           v1alpha1.ReasonTimedOut,
	runspec.ExitInterrupted:        v1alpha1.ReasonInterrupted,
	runspec.ExitFetchFailed:        v1alpha1.ReasonFetchFailed,
	runspec.ExitToolUnavailable:    v1alpha1.ReasonToolUnavailable,
	runspec.ExitStorageNotWritable: v1alpha1.ReasonStorageNotWritable,
	runspec.ExitStateLocked:        v1alpha1.ReasonStateLocked,
	runspec.ExitStalePlan:          v1alpha1.ReasonStalePlan,
	runspec.ExitStorageFull:        v1alpha1.ReasonStorageFull,
	// Killed by a signal, and not for memory: the pod's grace was over, or somebody killed the process.
	128 + 9:  v1alpha1.ReasonInterrupted,
	128 + 15: v1alpha1.ReasonInterrupted,
}

// recordReasons are the reasons that keeper may give; anything else it says is a failed plan.
var recordReasons = map[string]bool{
	v1alpha1.ReasonPlanFailed: true, v1alpha1.ReasonTimedOut: true, v1alpha1.ReasonInterrupted: true, v1alpha1.ReasonFetchFailed: true,
	v1alpha1.ReasonToolUnavailable: true, v1alpha1.ReasonStorageNotWritable: true, v1alpha1.ReasonSealBroken: true, v1alpha1.ReasonStateLocked: true,
	v1alpha1.ReasonStorageFull: true,
}

// outcome reads how a pod ended of which every container has terminated. Exit codes and keeper's record are facts; what
// tool and show left as text is for people, and changes nothing but the message.
func outcome(job *batchv1.Job, pod *corev1.Pod) Result {
	key, _ := KeyOf(job.Namespace, job.Labels)
	if isApply(key.Phase) {
		return applyOutcome(pod)
	}
	return planOutcome(pod, key.RunID)
}

func applyOutcome(pod *corev1.Pod) Result {
	tool := terminated(pod, runspec.ContainerTool)
	if tool.ExitCode == runspec.ExitOK {
		return Result{State: StateSucceeded}
	}
	return failure(runspec.ContainerTool, tool, v1alpha1.ReasonApplyFailed)
}

func planOutcome(pod *corev1.Pod, runID string) Result {
	keeper, tool, show := terminated(pod, runspec.ContainerKeeper), terminated(pod, runspec.ContainerTool), terminated(pod, runspec.ContainerShow)
	record, err := runspec.ParseRecord(keeper.Message, runID)
	ended := keeper.ExitCode == runspec.ExitOK && tool.ExitCode == runspec.ExitOK && show.ExitCode == runspec.ExitOK
	if ended && err == nil && record.Outcome == runspec.OutcomePlanned {
		return Result{State: StateSucceeded, Plan: &Plan{
			Digest: record.Digest, Empty: record.Empty, Changes: record.Changes,
			Review: record.Review, Drifted: record.Drifted, DriftedTotal: record.DriftedTotal, Warnings: record.Warnings,
		}}
	}
	ends := []containerEnd{{runspec.ContainerTool, tool}, {runspec.ContainerKeeper, keeper}, {runspec.ContainerShow, show}}
	for _, c := range ends {
		if isOutOfMemory(c.end) {
			return failure(c.name, c.end, v1alpha1.ReasonPlanFailed)
		}
	}
	if err == nil && record.Outcome == runspec.OutcomeFailed {
		return recordedFailure(record, tool)
	}
	// The container that failed by itself says why; one that gave up because of it (ExitPeerEnded) does not.
	for _, c := range ends {
		if c.end.ExitCode != runspec.ExitOK && c.end.ExitCode != runspec.ExitPeerEnded {
			return failure(c.name, c.end, v1alpha1.ReasonPlanFailed)
		}
	}
	message := "the plan ended without a record of what it found"
	if err != nil {
		message += ": " + err.Error()
	}
	return Result{State: StateFailed, Reason: v1alpha1.ReasonPlanFailed, Message: clip(message)}
}

// containerEnd is how one container ended.
type containerEnd struct {
	name string
	end  corev1.ContainerStateTerminated
}

// recordedFailure is what keeper reported. The tool's own words are added where keeper only saw that it failed.
func recordedFailure(record runspec.Record, tool corev1.ContainerStateTerminated) Result {
	result := Result{State: StateFailed, Reason: v1alpha1.ReasonPlanFailed, Message: record.Message}
	if recordReasons[record.Reason] {
		result.Reason = record.Reason
	}
	if tool.ExitCode != runspec.ExitOK && tool.ExitCode != runspec.ExitPeerEnded {
		if reason, ok := exitReasons[tool.ExitCode]; ok && result.Reason == v1alpha1.ReasonPlanFailed {
			result.Reason = reason
		}
		if words := strings.TrimSpace(tool.Message); words != "" && !strings.Contains(result.Message, words) {
			result.Message = strings.TrimSpace(result.Message + "\n" + words)
		}
	}
	result.Message = clip(result.Message)
	return result
}

// failure explains the end of one container.
func failure(name string, end corev1.ContainerStateTerminated, otherwise string) Result {
	result := Result{State: StateFailed, Reason: otherwise}
	if isOutOfMemory(end) {
		result.Message = fmt.Sprintf("OOMKilled: the container %s needed more memory than its limit; raise the runner's --%s-resources", name, name)
		return result
	}
	if reason, ok := exitReasons[end.ExitCode]; ok {
		result.Reason = reason
	}
	result.Message = clip(end.Message)
	if result.Message == "" {
		result.Message = fmt.Sprintf("the container %s ended with exit code %d", name, end.ExitCode)
		if end.Reason != "" {
			result.Message += " (" + end.Reason + ")"
		}
	}
	return result
}

func isOutOfMemory(c corev1.ContainerStateTerminated) bool { return c.Reason == "OOMKilled" }

// terminated is how the container ended. A container that is not there counts as failed, never as ended well.
func terminated(pod *corev1.Pod, name string) corev1.ContainerStateTerminated {
	if t := statusOf(pod.Status.ContainerStatuses, name).State.Terminated; t != nil {
		return *t
	}
	return corev1.ContainerStateTerminated{ExitCode: runspec.ExitInternal, Message: "the container " + name + " is missing from the pod"}
}
