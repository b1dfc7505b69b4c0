package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutStep selects the Workspaces that run together.
type RolloutStep struct {
	// name of the step, used in status, Events and metrics.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != ''",message="the name of a step is empty: write one, such as dev"
	Name string `json:"name"`
	// selector of the step's Workspaces among those of the Project.
	Selector metav1.LabelSelector `json:"selector"`
	// maxParallel bounds how many Workspaces of the step may run at a time: a number up to 100000, or a percentage of those in the step,
	// rounded down, but one at least. Default: all of them.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]?|100)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self > 0 && self <= 100000",message="maxParallel is not from 1 to 100000: write a number above zero, such as 5, or a percentage from 1% to 100%, or leave it out for no bound"
	MaxParallel *intstr.IntOrString `json:"maxParallel,omitempty"`
	// soak is how long all Workspaces of the step must stay as they are, without a failure and without drift, before the pass goes on:
	// a Go duration from 1s to 720h. What interrupts it makes it begin anew. A step in which nothing ran does not soak. Default: none.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?$') && self != '' && duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="soak must be a duration from 1s to 720h: write one such as 90s, 30m or 1h30m, or leave it out for none"
	Soak *metav1.Duration `json:"soak,omitempty"`
	// workspaceDeadline is how long each Workspace of the step has from its grant until it is Applied: a Go duration from 1m to 720h. The clock stops while a
	// person is waited for. What is overdue fails the step, which takes its onFailure. Default: 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?$') && self != '' && duration(self) >= duration('1m') && duration(self) <= duration('720h')",message="workspaceDeadline must be a duration from 1m to 720h: write one such as 30m, 2h or 1h30m, or leave it out for 24h"
	WorkspaceDeadline *metav1.Duration `json:"workspaceDeadline,omitempty"`
	// approval says whether a person must let a pass enter the step.
	// +optional
	Approval *ApprovalRequirement `json:"approval,omitempty"`
	// onFailure says what a failed Workspace of the step means for the pass. Default: that of the strategy.
	// +optional
	OnFailure *OnFailure `json:"onFailure,omitempty"`
}

// ApprovalRequirement says whether a person has to agree.
type ApprovalRequirement struct {
	// required holds the pass before the step until a person approves it. A step in which nothing has to run asks nobody.
	Required bool `json:"required"`
}

// FailureAction says what a failure means for a pass.
// +kubebuilder:validation:Enum=Halt;Continue;Retry;Abort
type FailureAction string

// The actions.
const (
	// FailureHalt grants no further Workspace and waits for the failed one to heal.
	FailureHalt FailureAction = "Halt"
	// FailureContinue goes on without the failed Workspace.
	FailureContinue FailureAction = "Continue"
	// FailureRetry grants fresh attempts at once, as often as retries says, and then halts.
	FailureRetry FailureAction = "Retry"
	// FailureAbort ends the pass.
	FailureAbort FailureAction = "Abort"
)

// OnFailure is the stated action on a failure.
// +kubebuilder:validation:XValidation:rule="self.action == 'Retry' ? has(self.retries) : !has(self.retries)",message="retries says how often Retry tries again: write retries, such as 3, with action Retry and leave it out with any other action"
type OnFailure struct {
	// action to take. Default Halt.
	// +optional
	// +kubebuilder:default=Halt
	Action FailureAction `json:"action,omitempty"`
	// retries is how many fresh attempts each failed Workspace gets before the pass halts.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="retries is not from 1 to 100: write how often to try again, such as 3"
	Retries *int32 `json:"retries,omitempty"`
}

// OnNewRevision says what a new commit means for a pass that moves.
// +kubebuilder:validation:Enum=Finish;Restart
type OnNewRevision string

// What a new commit means.
const (
	// NewRevisionFinish lets the pass come to its end with the commit that it has; the next pass takes the new one. A pass that is stuck makes way at once.
	NewRevisionFinish OnNewRevision = "Finish"
	// NewRevisionRestart ends the pass at once, and begins one with the new commit at the first step.
	NewRevisionRestart OnNewRevision = "Restart"
)

// WindowKind says what a window does while it is open.
// +kubebuilder:validation:Enum=Allow;Deny
type WindowKind string

// The kinds of windows.
const (
	// WindowAllow lets grants be given. Where there is such a window, none is given outside of all of them.
	WindowAllow WindowKind = "Allow"
	// WindowDeny holds new grants back, also where a window of kind Allow is open.
	WindowDeny WindowKind = "Deny"
)

// RolloutWindow is a time that comes again and again, read off the clock on the wall of its zone.
// +kubebuilder:validation:XValidation:rule="self.kind != 'Deny' || !self.duration.matches('^[0-9hms]+$') || !(self.cron.matches('^[^ ]+ [^ ]+ [*] [*] [*]$') && duration(self.duration) >= duration('24h') || self.cron.matches('^[^ ]+ [*] [*] [*] [*]$') && duration(self.duration) >= duration('1h') || self.cron.matches('^[*] [*] [*] [*] [*]$'))",message="this Deny window never ends, for it begins anew before it is over, so that nothing would ever run: write a shorter duration, name days in cron, or set spec.paused"
type RolloutWindow struct {
	// kind of the window.
	Kind WindowKind `json:"kind"`
	// cron says when the window opens: minute, hour, day of month, month, day of week, as in a CronJob.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(?i)([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?(,([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]?)?)* ([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?(,([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]?)?)* ([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?(,([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]?)?)* ([*]|(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(-(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC))?)(/[1-9][0-9]?)?(,([*]|(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(-(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC))?)(/[1-9][0-9]?)?)* ([*]|([0-6]|SUN|MON|TUE|WED|THU|FRI|SAT)(-([0-6]|SUN|MON|TUE|WED|THU|FRI|SAT))?)(/[1-9][0-9]?)?(,([*]|([0-6]|SUN|MON|TUE|WED|THU|FRI|SAT)(-([0-6]|SUN|MON|TUE|WED|THU|FRI|SAT))?)(/[1-9][0-9]?)?)*$')",message="cron cannot be understood: write five fields (minute, hour, day of month, month, day of week) with one space between them, such as 0 22 * * MON-FRI"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(?i)[^ ]+ [^ ]+ ((30|31)(,(30|31))* (0?2|FEB)|31 (0?[2469]|11|FEB|APR|JUN|SEP|NOV)(,(0?[2469]|11|FEB|APR|JUN|SEP|NOV))*) [*]$')",message="cron names a day that no year has, so that the window would never open: write a day that the month has, such as 28 for February"
	Cron string `json:"cron"`
	// duration is how long the window stays open, on the clock on the wall: a Go duration from 1m to 8760h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?$') && self != '' && duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="duration must be from 1m to 8760h: write one such as 30m, 8h or 48h"
	Duration metav1.Duration `json:"duration"`
	// zone whose clock counts, a name of the IANA time zone database such as Europe/Berlin. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",message="zone is no name of a time zone: write one of the IANA database, such as Europe/Berlin, or leave it out for UTC"
	Zone string `json:"zone,omitempty"`
}

// RolloutStrategy is the order in which Workspaces run.
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadline) || self.steps.all(s, duration(self.progressDeadline) >= (has(s.workspaceDeadline) ? duration(s.workspaceDeadline) : duration('0s')) + (has(s.soak) ? duration(s.soak) : duration('0s')))",message="progressDeadline is shorter than a step that it bounds: write at least workspaceDeadline and soak of each step together"
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadline) || duration(self.progressDeadline) > self.steps.map(s, has(s.soak) ? duration(s.soak) : duration('0s')).sum()",message="progressDeadline is shorter than what it bounds: write more than the soaks of all steps together, for a pass waits for each of them"
type RolloutStrategy struct {
	// steps in order; the next begins when every Workspace of the one before is Applied.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="steps is empty: write at least one step with a name and a selector"
	// +kubebuilder:validation:XValidation:rule="self.all(s, self.exists_one(t, t.name == s.name))",message="two steps have the same name: give each step a name of its own"
	Steps []RolloutStep `json:"steps"`
	// onFailure holds for every step that does not have its own. Default: Halt.
	// +optional
	OnFailure *OnFailure `json:"onFailure,omitempty"`
	// progressDeadline is how long a pass may take from its beginning to its end, with everything that it waits for: a Go duration from 1m to 8760h.
	// A pass that is overdue is aborted where onFailure of the strategy is Abort, else it halts: no further Workspace is granted. An edit counts at once.
	// Default: none, a pass may take as long as it takes.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?$') && self != '' && duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="progressDeadline must be a duration from 1m to 8760h: write one such as 30m, 2h or 1h30m, or leave it out for none"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// onNewRevision says what a new commit means for a pass that moves. An edit counts at once. Default: Finish.
	// +optional
	// +kubebuilder:default=Finish
	OnNewRevision OnNewRevision `json:"onNewRevision,omitempty"`
	// windows say when new grants may be given. What has begun is never cut short by them. An edit counts at once. Default: at any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Windows []RolloutWindow `json:"windows,omitempty"`
}

// RolloutSpec is what a Rollout asks for.
type RolloutSpec struct {
	// projectRef is the name of the Project that the Rollout orders; it equals the Rollout's own name.
	// +kubebuilder:validation:MaxLength=253
	ProjectRef string `json:"projectRef"`
	// paused takes back every grant that no run has begun under, and gives no new one. Runs that have begun go on.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// strategy is the order of execution.
	Strategy RolloutStrategy `json:"strategy"`
}

// PinnedRevision is the one commit that a pass uses for a repository and target revision.
type PinnedRevision struct {
	// repoURL as the Workspaces write it.
	RepoURL string `json:"repoURL"`
	// targetRevision as the Workspaces write it.
	TargetRevision string `json:"targetRevision"`
	// revision is the commit.
	Revision string `json:"revision"`
}

// RolloutPass is one walk through the steps.
type RolloutPass struct {
	// id of the pass.
	ID string `json:"id"`
	// startedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// revisions are the commits that the pass promotes, stored before the first grant that uses them.
	// +optional
	// +listType=atomic
	Revisions []PinnedRevision `json:"revisions,omitempty"`
	// steps as they were when the pass began; an edit counts from the next pass.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Steps []RolloutStep `json:"steps,omitempty"`
	// deadline is when the pass is overdue; absent without progressDeadline.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// extendedAt is when a person gave the pass, which was overdue, its time once more.
	// +optional
	ExtendedAt *metav1.Time `json:"extendedAt,omitempty"`
	// finishedAt is when it ended; absent while the pass goes on.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// result is how it ended; absent while the pass goes on.
	// +optional
	Result PassResult `json:"result,omitempty"`
	// message says why it was aborted.
	// +optional
	Message string `json:"message,omitempty"`
}

// StepApproval is the word of a person by which a pass entered a step.
type StepApproval struct {
	// by is who approved, or "unknown".
	By string `json:"by"`
	// at is when it was seen.
	At metav1.Time `json:"at"`
}

// RolloutStepMember is a Workspace of the current step that was granted and is not done.
type RolloutStepMember struct {
	// name of the Workspace.
	Name string `json:"name"`
	// attempt is the number of the fresh attempt that it is granted; 0 is the first run.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// since is from when its workspaceDeadline counts: its grant, later by the time for which the clock was stopped. Absent while it is stopped.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// spent is how much of its time had passed when the clock was stopped, because a person is waited for. Absent while it goes.
	// +optional
	// +kubebuilder:validation:Type=string
	Spent *metav1.Duration `json:"spent,omitempty"`
}

// RolloutStepStatus is where one step of the present pass stands.
type RolloutStepStatus struct {
	// name of the step.
	Name string `json:"name"`
	// phase of the step.
	Phase StepPhase `json:"phase"`
	// total number of Workspaces in the step.
	Total int32 `json:"total"`
	// applied counts those that are done in this pass.
	Applied int32 `json:"applied"`
	// failed counts those that failed or are overdue.
	Failed int32 `json:"failed"`
	// startedAt is when the pass reached the step.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// deadline is when the first of its Workspaces that is not done is overdue, or was; absent while no clock goes.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// soakingSince is since when all of its Workspaces are done without a failure or drift; absent where the step does not soak, or not yet.
	// +optional
	SoakingSince *metav1.Time `json:"soakingSince,omitempty"`
	// soakUntil is when the pass goes on, if nothing interrupts the soak.
	// +optional
	SoakUntil *metav1.Time `json:"soakUntil,omitempty"`
	// finishedAt is when its last Workspace was done, and had soaked.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// approval by which the pass entered the step; absent where none was required or none was given yet.
	// +optional
	Approval *StepApproval `json:"approval,omitempty"`
	// members of the current step that need more said than the counts.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []RolloutStepMember `json:"members,omitempty"`
	// passedOver names Workspaces that failed and without which the pass goes on, the first 50; failed counts all of them.
	// +optional
	// +listType=atomic
	PassedOver []string `json:"passedOver,omitempty"`
}

// ApprovedStep is an approval that a pass was given.
type ApprovedStep struct {
	// step that was approved.
	Step string `json:"step"`
	// by is who approved, or "unknown".
	By string `json:"by"`
	// at is when it was seen.
	At metav1.Time `json:"at"`
}

// RolloutHistoryEntry is a pass that ended.
type RolloutHistoryEntry struct {
	// id of the pass.
	ID string `json:"id"`
	// result is how it ended.
	Result PassResult `json:"result"`
	// message says why it was aborted.
	// +optional
	Message string `json:"message,omitempty"`
	// startedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// finishedAt is when it ended.
	FinishedAt metav1.Time `json:"finishedAt"`
	// revisions it promoted, the first 50.
	// +optional
	// +listType=atomic
	Revisions []PinnedRevision `json:"revisions,omitempty"`
	// approvals that it was given, by step.
	// +optional
	// +listType=atomic
	Approvals []ApprovedStep `json:"approvals,omitempty"`
}

// RolloutStatus is what is known of a Rollout. Writer: the rollout service.
type RolloutStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase of the Rollout.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`
	// reason is a CamelCase code.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says what the Rollout does or waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// currentStep is the index of the step that may run; within a pass it never moves back.
	// +optional
	CurrentStep int32 `json:"currentStep"`
	// opensAt is when the windows let new grants be given again; absent while they do, or where there are none.
	// +optional
	OpensAt *metav1.Time `json:"opensAt,omitempty"`
	// pass is the present or last pass.
	// +optional
	Pass *RolloutPass `json:"pass,omitempty"`
	// steps of the present or last pass, in order.
	// +optional
	// +listType=atomic
	Steps []RolloutStepStatus `json:"steps,omitempty"`
	// history holds the last ten passes that ended, the newest first.
	// +optional
	// +listType=atomic
	History []RolloutHistoryEntry `json:"history,omitempty"`
	// conditions of the Rollout.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Rollout orders the execution of the Workspaces of one Project.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ro
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.status.currentStep`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.pass.revisions[0].revision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.projectRef",message="a Rollout has the name of its Project: write the same text in metadata.name and spec.projectRef"
type Rollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RolloutSpec `json:"spec"`
	// +optional
	Status RolloutStatus `json:"status,omitempty"`
}

// RolloutList is a list of Rollouts.
// +kubebuilder:object:root=true
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Rollout `json:"items"`
}
