package execution

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

// resultVersion of the durable result. A runner that finds another does not guess.
const resultVersion = 1

// maxMessage bounds a message in bytes.
const maxMessage = 1024

// State is where one phase of a run stands.
type State string

// The states. Succeeded, Failed and Void are terminal.
const (
	// StatePending: the Job exists and no container of its pod has run.
	StatePending State = "Pending"
	// StateRunning: a container runs or has run, or the pod is not proven ended.
	StateRunning State = "Running"
	// StateSucceeded: provably ended, and the phase succeeded.
	StateSucceeded State = "Succeeded"
	// StateFailed: provably ended, and the phase did not succeed.
	StateFailed State = "Failed"
	// StateVoid: cancelled before any container ran, and none ever will.
	StateVoid State = "Void"
)

// Terminal reports whether nothing of the phase runs or will run.
func (s State) Terminal() bool { return s == StateSucceeded || s == StateFailed || s == StateVoid }

// Plan is what a successful plan found.
type Plan struct {
	Digest  string          `json:"digest"`
	Empty   bool            `json:"empty,omitempty"`
	Changes runspec.Changes `json:"changes,omitzero"`
	// Review is the runspec.ReviewSum of the review that is kept; empty where there is none.
	Review string `json:"review,omitempty"`
	// Unreadable says why there is none of a plan that is not Empty.
	Unreadable string `json:"unreadable,omitempty"`
	// Drifted are addresses of resources that changed outside of the tool, the first of DriftedTotal.
	Drifted      []string `json:"drifted,omitempty"`
	DriftedTotal int32    `json:"driftedTotal,omitempty"`
	// Warnings are for people.
	Warnings []string `json:"warnings,omitempty"`
}

// Result is what is known of one phase of a run. Of a terminal state it is also what is kept on the Job for good.
type Result struct {
	Version int    `json:"v"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Plan    *Plan  `json:"plan,omitempty"`
	// Started says that a container of the run has run, or may have. StartedAt is when, where that is known.
	Started    bool         `json:"started,omitempty"`
	StartedAt  *metav1.Time `json:"startedAt,omitempty"`
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	Pod        string       `json:"pod,omitempty"`
	// Node is where the pod ran, and Arch that node's CPU architecture, set when the result of a plan is kept.
	Node string `json:"node,omitempty"`
	Arch string `json:"arch,omitempty"`
}

// VoidResult is the result of a phase that was cancelled before any container ran.
func VoidResult(now time.Time) Result {
	at := metav1.NewTime(now)
	return Result{State: StateVoid, Message: "cancelled before it ran", FinishedAt: &at}
}

// Encode renders the result for AnnotationRunResult.
func (r Result) Encode() (string, error) {
	r.Version = resultVersion
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("rendering the run's result: %w", err)
	}
	return string(data), nil
}

// KeptResult reads the result that is kept on the Job. ok is false where there is none, or none that this runner
// understands: then the Job is judged by what else is known.
func KeptResult(job *batchv1.Job) (result Result, ok bool) {
	text, found := job.Annotations[v1alpha1.AnnotationRunResult]
	if !found {
		return Result{}, false
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil || result.Version != resultVersion || !result.State.Terminal() {
		return Result{}, false
	}
	// Runners of before did not say so by itself.
	result.Started = result.Started || result.StartedAt != nil || result.State == StateSucceeded || result.Reason == v1alpha1.ReasonRunLost
	return result, true
}

// IsVoid reports whether the Job was cancelled before any container ran.
func IsVoid(job *batchv1.Job) bool { return job.Annotations[v1alpha1.AnnotationRunVoid] == "true" }

// clip makes text fit to be shown: valid UTF-8, at most maxMessage bytes, of which the end is kept, where tools say what went wrong.
func clip(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) <= maxMessage {
		return text
	}
	const mark = "… "
	text = text[len(text)-maxMessage+len(mark):]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return mark + text
}
