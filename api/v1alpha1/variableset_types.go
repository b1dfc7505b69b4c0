package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KeyReference names one key of a Secret or ConfigMap in the same namespace. Both name and key are needed; rules ask for
// them and not the schema, whose words would not say what to write.
// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="name is missing: write the name of a Secret or ConfigMap in this namespace"
// +kubebuilder:validation:XValidation:rule="has(self.key) && size(self.key) > 0",message="key is missing: write a key of the Secret or ConfigMap"
type KeyReference struct {
	// name of the Secret or ConfigMap. Required.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key within it. Required.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// optional leaves the variable out when the reference leads nowhere, instead of holding the Workspace back.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ValueSource says where a value comes from.
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.configMapKeyRef)",message="valueFrom needs exactly one source: write secretKeyRef or configMapKeyRef"
type ValueSource struct {
	// secretKeyRef takes the value from a Secret.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// configMapKeyRef takes the value from a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// Variable gives one input variable of a module its value.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="a variable needs exactly one source: write value or valueFrom"
type Variable struct {
	// name of the input variable, an ASCII Terraform identifier.
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_-]*$')",message="not a Terraform identifier: write a letter or underscore first, then letters, digits, underscores or hyphens (ASCII), such as instance_type"
	Name string `json:"name"`
	// value is the literal value, public to everybody who may read the VariableSet.
	// +optional
	// +kubebuilder:validation:MaxLength=524288
	Value *string `json:"value,omitempty"`
	// valueFrom takes the value from a Secret or ConfigMap.
	// +optional
	ValueFrom *ValueSource `json:"valueFrom,omitempty"`
}

// VariableSetSpec is a set of variables.
type VariableSetSpec struct {
	// description is for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
	// variables of the set; each name once. The rule adds what to write to the API server's own refusal of a duplicate.
	// Comparing more than 128 of the longest names would exceed what a rule may cost, and refuse the set for that.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:XValidation:rule="size(self) > 128 || [self.map(v, v.name)].all(names, names.all(n, names.indexOf(n) == names.lastIndexOf(n)))",message="two variables have the same name: write each name once in a VariableSet; to override a value, put it into a VariableSet that is named later in variableSetRef"
	Variables []Variable `json:"variables,omitempty"`
}

// UnresolvedReference is a reference that leads to no value.
type UnresolvedReference struct {
	// kind is Secret or ConfigMap.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
	// key within it.
	Key string `json:"key"`
	// reason is ResourceNotFound, KeyNotFound or Forbidden.
	// +kubebuilder:validation:Enum=ResourceNotFound;KeyNotFound;Forbidden
	Reason string `json:"reason"`
}

// Reasons of an UnresolvedReference.
const (
	// UnresolvedResourceNotFound: the Secret or ConfigMap does not exist.
	UnresolvedResourceNotFound = "ResourceNotFound"
	// UnresolvedKeyNotFound: it exists without the key.
	UnresolvedKeyNotFound = "KeyNotFound"
	// UnresolvedForbidden: Magos may not read it.
	UnresolvedForbidden = "Forbidden"
)

// VariableSetPhase is Ready or Failed.
// +kubebuilder:validation:Enum=Ready;Failed
type VariableSetPhase string

// The phases of a VariableSet.
const (
	// VariableSetReady: every reference leads to a value.
	VariableSetReady VariableSetPhase = "Ready"
	// VariableSetFailed: some do not.
	VariableSetFailed VariableSetPhase = "Failed"
)

// VariableSetStatus is what is known of a VariableSet; it never holds a value. Writer: the workspace service.
type VariableSetStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is Ready or Failed.
	// +optional
	Phase VariableSetPhase `json:"phase,omitempty"`
	// reason is AllReferencesResolved or UnresolvedReferences.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says the same to people.
	// +optional
	Message string `json:"message,omitempty"`
	// resolvedVariables is the number of variables that have a value.
	// +optional
	ResolvedVariables int32 `json:"resolvedVariables"`
	// unresolvedReferences lists the references that lead nowhere and are not optional.
	// +optional
	// +listType=atomic
	UnresolvedReferences []UnresolvedReference `json:"unresolvedReferences,omitempty"`
	// conditions of the VariableSet.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VariableSet is a set of values for the input variables of modules.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vs
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Resolved",type=integer,JSONPath=`.status.resolvedVariables`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type VariableSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec VariableSetSpec `json:"spec,omitempty"`
	// +optional
	Status VariableSetStatus `json:"status,omitempty"`
}

// VariableSetList is a list of VariableSets.
// +kubebuilder:object:root=true
type VariableSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VariableSet `json:"items"`
}
