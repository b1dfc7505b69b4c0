package execution

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/services/runner/internal/runspec"
)

// PlanFacts are what an apply takes over from the Job of its plan.
type PlanFacts struct {
	// Arch is the CPU architecture of the plan's node. The apply must run on the same: the sealed providers are built for it.
	// Empty where it is not known any more.
	Arch string
	// Variables and Volume are the plan's variables, with the values that they have by now: for the ephemeral ones, which no
	// plan keeps, and so that all of them are masked in what the tool prints. Literals are those that need not be.
	Variables []string
	Literals  []string
	Volume    *corev1.Volume
}

func (p PlanFacts) masks() bool { return p.Volume != nil && len(p.Variables) > 0 }

// VariablesVolume is the plan's volume of variables, with every source optional: the value of one that is gone by now cannot
// be masked any more, and that must not keep the apply from starting. Nil where the Job has none.
func VariablesVolume(plan *batchv1.Job) *corev1.Volume {
	volume := volumeOf(plan, volumeVariables)
	if volume == nil || volume.Projected == nil {
		return nil
	}
	volume = volume.DeepCopy()
	for i := range volume.Projected.Sources {
		source := &volume.Projected.Sources[i]
		if source.Secret != nil {
			source.Secret.Optional = ptr.To(true)
		}
		if source.ConfigMap != nil {
			source.ConfigMap.Optional = ptr.To(true)
		}
	}
	return volume
}

// ConfigMapOf is the name of the ConfigMap that a run's Job reads; empty where it reads none.
func ConfigMapOf(job *batchv1.Job) string {
	if volume := volumeOf(job, volumeInstructions); volume != nil && volume.ConfigMap != nil {
		return volume.ConfigMap.Name
	}
	return ""
}

// VariablesOf are the names of the variables in a run's ConfigMap, and which of them are literals.
func VariablesOf(config *corev1.ConfigMap) (variables, literals []string, err error) {
	var in runspec.Instructions
	if err := json.Unmarshal([]byte(config.Data[instructionsKey]), &in); err != nil {
		return nil, nil, fmt.Errorf("reading the instructions in configmap %s/%s: %w", config.Namespace, config.Name, err)
	}
	return in.Variables, in.Literals, nil
}

func volumeOf(job *batchv1.Job, name string) *corev1.Volume {
	for i, v := range job.Spec.Template.Spec.Volumes {
		if v.Name == name {
			return &job.Spec.Template.Spec.Volumes[i]
		}
	}
	return nil
}
