package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutStep selects the Workspaces that run together.
type RolloutStep struct {
	// name of the step, used in status, Events and metrics.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != ''",message="the name of a step is empty: write one, such as dev"
	Name string `json:"name"`
	// selector of the step's Workspaces among those of the Project.
	Selector metav1.LabelSelector `json:"selector"`
}

// RolloutStrategy is the order in which Workspaces run.
type RolloutStrategy struct {
	// steps in order; the next begins when every Workspace of the one before is Applied.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="steps is empty: write at least one step with a name and a selector"
	// +kubebuilder:validation:XValidation:rule="self.all(s, self.exists_one(t, t.name == s.name))",message="two steps have the same name: give each step a name of its own"
	Steps []RolloutStep `json:"steps"`
}

// RolloutSpec is what a Rollout asks for.
type RolloutSpec struct {
	// projectRef is the name of the Project that the Rollout orders; it equals the Rollout's own name.
	// +kubebuilder:validation:MaxLength=253
	ProjectRef string `json:"projectRef"`
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
	Steps []RolloutStep `json:"steps,omitempty"`
	// finishedAt is when the last step was done; absent while the pass goes on.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
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
	// failed counts those that failed.
	Failed int32 `json:"failed"`
	// startedAt is when the pass reached the step.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// finishedAt is when its last Workspace was done.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// RolloutHistoryEntry is a pass that ended.
type RolloutHistoryEntry struct {
	// id of the pass.
	ID string `json:"id"`
	// result is Succeeded or Superseded.
	// +kubebuilder:validation:Enum=Succeeded;Superseded
	Result string `json:"result"`
	// startedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// finishedAt is when it ended.
	FinishedAt metav1.Time `json:"finishedAt"`
	// revisions it promoted, the first 50.
	// +optional
	// +listType=atomic
	Revisions []PinnedRevision `json:"revisions,omitempty"`
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
