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

// DeletionPolicy says what the deletion of a Workspace does to what it has applied.
// +kubebuilder:validation:Enum=Retain;Destroy
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionRetain removes the Jobs and the volume of the Workspace, and touches nothing that it has applied.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDestroy destroys what the Workspace has applied before it lets the Workspace go.
	DeletionDestroy DeletionPolicy = "Destroy"
)

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
	// deletionPolicy is Retain or Destroy. With Retain the deletion of the Workspace leaves everything that it has applied as it is. With Destroy a run destroys
	// it first, with the inputs that were applied last; while that cannot be, the Workspace stays and says why.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
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
