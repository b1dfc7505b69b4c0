package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Orchestration says who may grant execution to the Workspaces of a Project.
// +kubebuilder:validation:Enum=Auto;Rollout
type Orchestration string

// The kinds of orchestration.
const (
	// OrchestrationAuto grants every Workspace at once while no Rollout of the Project's name exists.
	OrchestrationAuto Orchestration = "Auto"
	// OrchestrationRollout grants nothing while no Rollout of the Project's name exists.
	OrchestrationRollout Orchestration = "Rollout"
)

// VariableSetReference names a VariableSet in the same namespace.
type VariableSetReference struct {
	// name of the VariableSet.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self != ''",message="variableSetRef name is empty: write the name of a VariableSet in this namespace"
	Name string `json:"name"`
}

// ProjectSpec is what a Project asks for.
type ProjectSpec struct {
	// description is for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// variableSetRef lists VariableSets that every Workspace of the Project receives, later ones over earlier ones.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	VariableSetRef []VariableSetReference `json:"variableSetRef,omitempty"`

	// orchestration says who grants execution while no Rollout of the Project's name exists:
	// with Auto every Workspace may run at once, with Rollout none may.
	// +optional
	// +kubebuilder:default=Auto
	Orchestration Orchestration `json:"orchestration,omitempty"`
}

// MemberCounts counts the Workspaces of a Project.
type MemberCounts struct {
	// total number of Workspaces.
	Total int32 `json:"total"`
	// byPhase counts them by status.phase; a Workspace without one counts as Pending.
	// +optional
	ByPhase map[Phase]int32 `json:"byPhase,omitempty"`
}

// ProjectStatus is what is known of a Project. Writer: the rollout service.
type ProjectStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// reason says who grants execution: DefaultParallel, ManagedByRollout or RolloutMissing.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says the same to people.
	// +optional
	Message string `json:"message,omitempty"`
	// workspaces counts the members.
	// +optional
	Workspaces MemberCounts `json:"workspaces,omitempty"`
	// conditions of the Project; Ready is True when something may grant execution.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Project groups Workspaces that are orchestrated together and share variables.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=proj
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Workspaces",type=integer,JSONPath=`.status.workspaces.total`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.workspaces.byPhase.Applied`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Project has at most 63 characters: choose a shorter one"
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ProjectSpec `json:"spec,omitempty"`
	// +optional
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectList is a list of Projects.
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Project `json:"items"`
}
