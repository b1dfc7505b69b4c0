package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Engine is the tool that runs the module.
// +kubebuilder:validation:Enum=Terraform;OpenTofu
type Engine string

// The engines.
const (
	// EngineTerraform runs terraform.
	EngineTerraform Engine = "Terraform"
	// EngineOpenTofu runs tofu.
	EngineOpenTofu Engine = "OpenTofu"
)

// ProjectReference names a Project in the same namespace.
type ProjectReference struct {
	// name of the Project.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self != ''",message="projectRef.name is empty: write the name of a Project in this namespace"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="projectRef.name cannot be changed: delete the Workspace and create it in the other Project"
	Name string `json:"name"`
}

// WorkspaceSource is where the module comes from.
type WorkspaceSource struct {
	// repoURL of the Git repository.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self != ''",message="repoURL is empty: write the URL of a Git repository, such as https://example.com/team/infra.git"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('-') && !self.matches('[\\\\s\\\\x00-\\\\x1f\\\\x7f]')",message="repoURL starts with a hyphen or holds white space: write the URL of a Git repository, such as https://example.com/team/infra.git"
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([a-z][a-z0-9+.-]*://[^/]+/.+|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:.+)$')",message="repoURL is no URL of a Git repository: write https://host/path, ssh://git@host/path or git@host:path"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[a-z][a-z0-9+.-]*://[^/@]*:[^/@]*@')",message="repoURL holds a password: anybody who reads the Workspace would read it; write the URL without it"
	RepoURL string `json:"repoURL"`
	// targetRevision is a branch, a tag, a full ref name or a full commit SHA.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self != ''",message="targetRevision is empty: write a branch, a tag or a full commit SHA"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('-') && !self.contains('..') && !self.matches('[\\\\s\\\\x00-\\\\x1f\\\\x7f~^:?*\\\\[\\\\\\\\]')",message="targetRevision is no name that Git knows: write a branch, a tag or a full commit SHA, without white space, a leading hyphen, '..' or any of ~ ^ : ? * [ and the backslash"
	TargetRevision string `json:"targetRevision"`
	// path of the module's folder, from the repository's root.
	// +optional
	// +kubebuilder:default="."
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)\\\\.\\\\.(/|$)')",message="path leaves the repository or could: write the folder from the repository's root without '..', such as infra/dev"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('-') && !self.matches('[\\\\x00-\\\\x1f\\\\x7f\\\\\\\\]')",message="path starts with a hyphen or holds a backslash or control character: write the folder from the repository's root with forward slashes, such as infra/dev"
	Path string `json:"path,omitempty"`
	// recurseSubmodules fetches the repository's submodules too, at the commits that it pins.
	// +optional
	// +kubebuilder:default=true
	RecurseSubmodules *bool `json:"recurseSubmodules,omitempty"`
}

// TerraformSpec says which tool runs the module.
type TerraformSpec struct {
	// version of the tool, exact.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)\\\\.(0|[1-9][0-9]*)\\\\.(0|[1-9][0-9]*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$')",message="terraform.version is no exact version: write one such as 1.14.8, without a leading v and without a range"
	Version string `json:"version"`
	// engine is Terraform or OpenTofu.
	// +optional
	// +kubebuilder:default=Terraform
	Engine Engine `json:"engine,omitempty"`
	// tfvarsPath is a file of variable values, from the repository's root.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)\\\\.\\\\.(/|$)')",message="tfvarsPath leaves the repository or could: write the file from the repository's root without '..', such as env/dev.tfvars"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('-') && !self.matches('[\\\\x00-\\\\x1f\\\\x7f\\\\\\\\]')",message="tfvarsPath starts with a hyphen or holds a backslash or control character: write the file from the repository's root with forward slashes, such as env/dev.tfvars"
	TfvarsPath string `json:"tfvarsPath,omitempty"`
}

// PhaseSettings are settings of the plan or the apply alone.
type PhaseSettings struct {
	// annotations of its pod, over those of spec.annotations.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// timeoutSeconds after which the tool is interrupted; 86400 (24 hours) when absent.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self > 0 && self <= 604800",message="timeoutSeconds must be between 1 and 604800 (7 days): write a number of seconds, or leave it out for 24 hours"
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`
}

// RetrySettings say how failed runs of the same inputs are tried again.
type RetrySettings struct {
	// limit is how often the same inputs are tried again after they have failed once; no limit when absent, never with 0.
	// Then the Workspace rests (RetriesExhausted) until its inputs change or a run is requested.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000",message="retry.limit must be between 0 and 1000: write how often to try again, 0 for never, or leave it out for no limit"
	Limit *int32 `json:"limit,omitempty"`
	// maxInterval bounds the pause between two attempts, a Go duration; 1h when absent. The first pause is the reconcile interval, and each one is twice as long as the one before.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,6}m)?([0-9]{1,7}s)?$') && self != '' && duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="retry.maxInterval must be a duration from 1s to 720h: write one such as 90s, 30m or 1h30m, or leave it out for 1h"
	MaxInterval *metav1.Duration `json:"maxInterval,omitempty"`
}

// WorkspaceStorage is what the Workspace's volume should be like.
type WorkspaceStorage struct {
	// size of the volume; what the runner is set to (1Gi) when absent. It can grow where the StorageClass allows that, and never shrinks.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '' || isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="storage.size is no size: write one such as 5Gi"
	Size string `json:"size,omitempty"`
	// storageClassName of the volume; what the runner is set to, or the cluster's default, when absent. A volume keeps the one it was made with.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// accessMode of the volume; ReadWriteOnce when absent. A volume keeps the one it was made with.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode string `json:"accessMode,omitempty"`
}

// WorkspaceSpec is what a Workspace asks for.
type WorkspaceSpec struct {
	// projectRef binds the Workspace to its Project.
	ProjectRef ProjectReference `json:"projectRef"`
	// source is where the module comes from.
	Source WorkspaceSource `json:"source"`
	// terraform is the tool that runs it.
	Terraform TerraformSpec `json:"terraform"`
	// autoApply applies a clean plan without asking; with false every plan waits for approval.
	// +optional
	// +kubebuilder:default=true
	AutoApply *bool `json:"autoApply,omitempty"`
	// discardStalePlan gives up a waiting plan as soon as a newer commit or changed variables appear.
	// +optional
	// +kubebuilder:default=false
	DiscardStalePlan bool `json:"discardStalePlan,omitempty"`
	// suspend starts nothing new: no plan, no apply, no retry and no drift plan. A pod that runs is let end; a plan that waits is given up.
	// With false, or without it, the Workspace plans what is due then.
	// +optional
	// +kubebuilder:default=false
	Suspend bool `json:"suspend,omitempty"`
	// retry says how failed runs of the same inputs are tried again.
	// +optional
	Retry RetrySettings `json:"retry,omitempty"`
	// variableSetRef lists VariableSets for this Workspace, later ones over earlier ones, all over the Project's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	VariableSetRef []VariableSetReference `json:"variableSetRef,omitempty"`
	// serviceAccountName is the account that the run pods use.
	// +optional
	// +kubebuilder:default=magos-job
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// mountServiceAccountToken gives the container that runs the module the account's API token.
	// +optional
	// +kubebuilder:default=false
	MountServiceAccountToken bool `json:"mountServiceAccountToken,omitempty"`
	// annotations of the run pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// storage is what the Workspace's volume should be like. What cannot be had of a volume that exists keeps plans from starting, and status says why.
	// +optional
	Storage *WorkspaceStorage `json:"storage,omitempty"`
	// plan has settings of the plan alone.
	// +optional
	Plan PhaseSettings `json:"plan,omitempty"`
	// apply has settings of the apply alone.
	// +optional
	Apply PhaseSettings `json:"apply,omitempty"`
}

// Want is what a Workspace would run if it were granted.
type Want struct {
	// trigger says why.
	Trigger Trigger `json:"trigger"`
	// revision is the commit it knows of, empty while none was detected.
	// +optional
	Revision string `json:"revision,omitempty"`
	// fingerprint of the inputs other than the commit.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// since is when it began to want this.
	Since metav1.Time `json:"since"`
}

// AppliedState is what is proven to be in force.
type AppliedState struct {
	// pass in which it was applied.
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
	// lock of the state, a stale plan. They are no failures; the pause before the next run grows with them.
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

// Workspace is one Terraform or OpenTofu module that is brought in line.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ws
// +kubebuilder:printcolumn:name="Project",type=string,JSONPath=`.spec.projectRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.observedRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Run",type=string,priority=1,JSONPath=`.status.run.id`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Workspace has at most 63 characters: choose a shorter one"
type Workspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WorkspaceSpec `json:"spec"`
	// +optional
	Status WorkspaceStatus `json:"status,omitempty"`
}

// AppliesAutomatically reports whether a clean plan is applied without asking; true when unset.
func (w *Workspace) AppliesAutomatically() bool {
	return w.Spec.AutoApply == nil || *w.Spec.AutoApply
}

// WorkspaceList is a list of Workspaces.
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workspace `json:"items"`
}
