package execution

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

const (
	// instructionsKey is the key of the instructions in the run's ConfigMap, and the name of their file.
	instructionsKey = "instructions.json"
	// literalPrefix begins the keys of literal variables in the run's ConfigMap; the variable's index follows.
	literalPrefix = "variable-"
	// windUp is how much of the pod's grace is kept for the executor after the tool has ended: it reports and exits.
	windUp = 15 * time.Second
)

func isApply(phase string) bool { return phase == runspec.PhaseApply }

// Instruct renders what the containers are told. It holds no value of a variable.
func Instruct(r Request, s Settings, plan PlanFacts) runspec.Instructions {
	in := runspec.Instructions{
		Version: runspec.Version, RunID: r.RunID, Phase: r.Phase,
		Namespace: r.Namespace, Workspace: r.Workspace, WorkspaceUID: r.WorkspaceUID,
		RepoURL: r.RepoURL, Revision: r.Revision, TargetRevision: r.TargetRevision,
		RecurseSubmodules: r.RecurseSubmodules, GitSchemes: s.GitSchemes, GitHelpers: s.GitHelpers,
		Path: r.Path, TfvarsPath: r.TfvarsPath,
		Engine: string(r.Engine), ToolVersion: r.ToolVersion,
		PlanDigest: r.PlanDigest, Destroy: r.Destroy,
		Timeout:    runspec.Duration(r.Timeout),
		Grace:      runspec.Duration(toolGrace(s.Grace(r.Phase))),
		ToolMirror: s.ToolMirror, ProviderMirror: s.ProviderMirror, ProviderMirrorOnly: s.ProviderMirrorOnly,
	}
	for _, v := range r.Variables {
		in.Variables = append(in.Variables, v.Name)
		switch {
		case v.Value != nil:
			in.Literals = append(in.Literals, v.Name)
		case v.Secret != nil:
			in.Secrets = append(in.Secrets, v.Name)
		}
	}
	if isApply(r.Phase) && plan.masks() {
		in.Variables, in.Literals = plan.Variables, plan.Literals
	}
	return in
}

// toolGrace is what the tool gets of the pod's grace.
func toolGrace(grace time.Duration) time.Duration {
	if grace <= 2*windUp {
		return grace / 2
	}
	return grace - windUp
}

// RenderConfigMap renders the immutable ConfigMap of the run: its instructions and its literal variables.
func RenderConfigMap(r Request, s Settings, digest string, plan PlanFacts) (*corev1.ConfigMap, error) {
	instructions, err := json.Marshal(Instruct(r, s, plan))
	if err != nil {
		return nil, fmt.Errorf("rendering the instructions: %w", err)
	}
	data := map[string]string{instructionsKey: string(instructions)}
	if !isApply(r.Phase) {
		if data[requestKey], err = keep(r); err != nil {
			return nil, err
		}
	}
	for i, v := range r.Variables {
		if v.Value != nil {
			data[literalPrefix+strconv.Itoa(i)] = *v.Value
		}
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: ConfigMapName(r.RunID, r.Phase, digest, data), Labels: r.Labels(),
			Annotations: map[string]string{v1alpha1.AnnotationRequestDigest: digest},
		},
		Immutable: ptr.To(true),
		Data:      data,
	}, nil
}

// SameConfigMap reports whether a ConfigMap that exists, and is not going, holds just what was rendered, for good.
func SameConfigMap(present, rendered *corev1.ConfigMap) bool {
	return present.DeletionTimestamp.IsZero() && ptr.Deref(present.Immutable, false) &&
		maps.Equal(present.Labels, rendered.Labels) &&
		present.Annotations[v1alpha1.AnnotationRequestDigest] == rendered.Annotations[v1alpha1.AnnotationRequestDigest] &&
		maps.Equal(present.Data, rendered.Data) && len(present.BinaryData) == 0
}
