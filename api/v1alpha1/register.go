package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every Magos resource, and the prefix of every annotation and label.
const GroupName = "magosproject.io"

// GroupVersion is the group and version that this package describes.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects the functions that add the types of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Project{}, &ProjectList{},
		&Workspace{}, &WorkspaceList{},
		&VariableSet{}, &VariableSetList{},
		&Rollout{}, &RolloutList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
