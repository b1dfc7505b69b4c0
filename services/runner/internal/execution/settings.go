package execution

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Settings are the runner's own choices for every run; they are not part of a request's digest.
type Settings struct {
	// RunImage is what every container of a run starts from.
	RunImage string
	// PullPolicy of RunImage.
	PullPolicy corev1.PullPolicy
	// ToolMirror and ProviderMirror are told to the containers; may be empty.
	ToolMirror     string
	ProviderMirror string
	// ProviderMirrorOnly has the containers take providers from ProviderMirror and from nowhere else.
	ProviderMirrorOnly bool
	// GitSchemes and GitHelpers are told to the containers: over what git may fetch; empty for the defaults.
	GitSchemes []string
	GitHelpers []string
	// PlanGrace and ApplyGrace are the pods' terminationGracePeriodSeconds: how long a pod that is asked to end may take.
	PlanGrace  time.Duration
	ApplyGrace time.Duration
	// StorageClass of the Workspaces' volumes; empty for the cluster's default.
	StorageClass string
	// StorageSize of the Workspaces' volumes.
	StorageSize resource.Quantity
	// Keeper, Tool and Show are the containers' resources.
	Keeper corev1.ResourceRequirements
	Tool   corev1.ResourceRequirements
	Show   corev1.ResourceRequirements
}

// Grace is the pod's termination grace in this phase.
func (s Settings) Grace(phase string) time.Duration {
	if isApply(phase) {
		return s.ApplyGrace
	}
	return s.PlanGrace
}
