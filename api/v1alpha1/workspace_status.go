package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Want is what a Workspace would run if it were granted.
type Want struct {
	// trigger says why.
	Trigger Trigger `json:"trigger"`
	// revision is the commit it knows of, empty while none was detected.
	// +optional
	Revision string `json:"revision,omitempty"`
	// fingerprint of the inputs other than the commit: that of the spec, a hyphen, and that of the variables, which is empty while they cannot be known.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// since is when it began to want this.
	Since metav1.Time `json:"since"`
}

// AppliedState is what is proven to be in force.
type AppliedState struct {
	// pass that brought it there. A drift run keeps it: it brings nothing that its pass could count on.
	// +optional
	Pass string `json:"pass,omitempty"`
	// runID of the run that applied it.
	RunID string `json:"runID"`
	// revision is the commit.
	Revision string `json:"revision"`
	// fingerprint of the inputs other than the commit.
	Fingerprint string `json:"fingerprint"`
	// at is when.
	At metav1.Time `json:"at"`
}

// LastApply is the run whose inputs a destroy uses: the state is as that run has left it.
type LastApply struct {
	// runID of the run. The runner keeps its inputs.
	RunID string `json:"runID"`
	// revision is its commit.
	Revision string `json:"revision"`
	// fingerprint of its inputs other than the commit.
	Fingerprint string `json:"fingerprint"`
}

// Changes counts what a plan would do.
type Changes struct {
	Add     int32 `json:"add"`
	Change  int32 `json:"change"`
	Destroy int32 `json:"destroy"`
	Replace int32 `json:"replace"`
	Import  int32 `json:"import"`
	Forget  int32 `json:"forget"`
	Move    int32 `json:"move"`
	Outputs int32 `json:"outputs"`
}

// WorkspaceRun is the present or last run.
type WorkspaceRun struct {
	// id of the run, unique for all time.
	ID string `json:"id"`
	// trigger says why it was started.
	Trigger Trigger `json:"trigger"`
	// pass, scope and revision as they were granted.
	Pass  string     `json:"pass"`
	Scope GrantScope `json:"scope"`
	// attempt is the number of the fresh attempt that was granted; 0 for the first run of a pass.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// revision is the commit that is planned and applied.
	Revision string `json:"revision"`
	// fingerprint of the inputs other than the commit.
	Fingerprint string `json:"fingerprint"`
	// autoApply as it was when the run began: turning it on later never applies a plan that it had parked.
	AutoApply bool `json:"autoApply"`
	// request is the value of reconcile-request that the run answers.
	// +optional
	Request string `json:"request,omitempty"`
	// phase is how far the run has come.
	Phase RunPhase `json:"phase"`
	// startedAt is when it was recorded, before anything was started.
	StartedAt metav1.Time `json:"startedAt"`
	// planStartedAt is when the runner took the plan on; from then on "no such Job" is RunLost.
	// +optional
	PlanStartedAt *metav1.Time `json:"planStartedAt,omitempty"`
	// planDigest is the digest of what was sealed.
	// +optional
	PlanDigest string `json:"planDigest,omitempty"`
	// changes that the plan would make.
	// +optional
	Changes *Changes `json:"changes,omitempty"`
	// warnings of the plan, such as variables that the module does not declare. They name variables and hold no values.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
	// unreadable says why people cannot read the plan; absent where they can. Such a plan is never offered for approval.
	// +optional
	Unreadable string `json:"unreadable,omitempty"`
	// applyRequestedAt is recorded before the apply is asked for; from then on it is never asked for again.
	// +optional
	ApplyRequestedAt *metav1.Time `json:"applyRequestedAt,omitempty"`
	// applyStartedAt is when the apply's Job was first seen; from then on "no such Job" is RunLost, before it means that nothing ran.
	// +optional
	ApplyStartedAt *metav1.Time `json:"applyStartedAt,omitempty"`
	// lostAt is when the apply's Job, seen before, was found missing; such a run ends as RunLost and nothing else.
	// +optional
	LostAt *metav1.Time `json:"lostAt,omitempty"`
	// setbacks counts the runs of these inputs in a row, this one included, that were given up because something kept them from beginning: no pod, no Job, a
	// lock of the state, a stale plan, one that nobody can read. They are no failures; the pause before the next run grows with them.
	// +optional
	Setbacks int32 `json:"setbacks,omitempty"`
	// cancelledAt is when it was seen that a person cancelled the run.
	// +optional
	CancelledAt *metav1.Time `json:"cancelledAt,omitempty"`
	// reason says why the run ended.
	// +optional
	Reason string `json:"reason,omitempty"`
	// retryAt is when the next run of the same inputs may begin after a setback.
	// +optional
	RetryAt *metav1.Time `json:"retryAt,omitempty"`
	// finishedAt is when the run became terminal.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// AwaitingApproval is a plan that waits for a person.
type AwaitingApproval struct {
	// runID to write into the annotation magosproject.io/approved.
	RunID string `json:"runID"`
	// planDigest of the plan that would be applied.
	PlanDigest string `json:"planDigest"`
	// since is when it began to wait.
	Since metav1.Time `json:"since"`
	// warnings are those of the plan, then what changed since it was made.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// Approval is the last approval that counted.
type Approval struct {
	// runID that was approved.
	RunID string `json:"runID"`
	// by is who approved it; "unknown" where the cluster does not say.
	// +optional
	By string `json:"by,omitempty"`
	// at is when it was seen.
	At metav1.Time `json:"at"`
}

// Drift is what a plan found to differ from what was applied, without anybody having asked for it.
type Drift struct {
	// detectedAt is when a plan found it.
	DetectedAt metav1.Time `json:"detectedAt"`
	// runID of the run that found it.
	RunID string `json:"runID"`
	// resources are the addresses of what was changed or removed from outside, the first of them where there are many; never values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Resources []string `json:"resources,omitempty"`
	// total is how many such resources there are.
	// +optional
	Total int32 `json:"total,omitempty"`
}

// Failures counts failed runs of the same inputs.
type Failures struct {
	// count since the last success or change of inputs.
	Count int32 `json:"count"`
	// lastAt is when the last one ended.
	LastAt metav1.Time `json:"lastAt"`
	// lastReason is why.
	LastReason string `json:"lastReason"`
	// message is what the tool said last.
	// +optional
	Message string `json:"message,omitempty"`
	// revision and fingerprint are the inputs that failed.
	Revision    string `json:"revision"`
	Fingerprint string `json:"fingerprint"`
}

// VariablesStatus is what is known of a Workspace's variables; it never holds a value.
type VariablesStatus struct {
	// fingerprint of the sources of every variable.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// sets that contribute, the Project's first, in the order in which later ones win.
	// +optional
	// +listType=atomic
	Sets []string `json:"sets,omitempty"`
}

// WorkspaceStatus is what is known of a Workspace. Writer: the workspace service.
type WorkspaceStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is where the Workspace stands.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// reason is a CamelCase code to key alerts off.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is for people.
	// +optional
	Message string `json:"message,omitempty"`
	// observedRevision is the commit that was applied.
	// +optional
	ObservedRevision string `json:"observedRevision,omitempty"`
	// wants is what the Workspace would run; absent means nothing.
	// +optional
	Wants *Want `json:"wants,omitempty"`
	// applied is what is proven to be in force.
	// +optional
	Applied *AppliedState `json:"applied,omitempty"`
	// lastApply is the last run that applied something, in whole or in part, or that found nothing to apply. Absent while nothing can have been applied, and
	// again once all of it is destroyed.
	// +optional
	LastApply *LastApply `json:"lastApply,omitempty"`
	// run is the present or last run.
	// +optional
	Run *WorkspaceRun `json:"run,omitempty"`
	// awaitingApproval is set while a plan waits for a person.
	// +optional
	AwaitingApproval *AwaitingApproval `json:"awaitingApproval,omitempty"`
	// approval is the last approval that counted.
	// +optional
	Approval *Approval `json:"approval,omitempty"`
	// drift that a plan found and that no run has mended yet.
	// +optional
	Drift *Drift `json:"drift,omitempty"`
	// failures of the present inputs.
	// +optional
	Failures *Failures `json:"failures,omitempty"`
	// handledRequest is the last value of reconcile-request that was consumed.
	// +optional
	HandledRequest string `json:"handledRequest,omitempty"`
	// lastAppliedAt is when a run last succeeded.
	// +optional
	LastAppliedAt *metav1.Time `json:"lastAppliedAt,omitempty"`
	// nextReconcileTime is when the next drift plan or retry is due.
	// +optional
	NextReconcileTime *metav1.Time `json:"nextReconcileTime,omitempty"`
	// variables says where the variables come from.
	// +optional
	Variables VariablesStatus `json:"variables,omitempty"`
	// conditions of the Workspace.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
