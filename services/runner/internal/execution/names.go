package execution

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"magosproject.io/api/v1alpha1"
)

// volumeSuffix makes the claim's name out of the Workspace's.
const volumeSuffix = "-data"

// JobName is the one name that the Job of this phase can have, so that two requests can never make two Jobs.
func JobName(runID, phase string) string {
	return "magos-" + phase + "-" + shortHash(runID)
}

// ConfigMapName is the Job's name with a digest of the request and of what the ConfigMap holds, so that a Job only ever reads what
// belongs to its own request. An earlier attempt that got no further than its ConfigMap is then in nobody's way, also where another
// release of the runner, or one with other flags, had made something else of the same request.
func ConfigMapName(runID, phase, digest string, data map[string]string) string {
	sum := sha256.New()
	for _, text := range append([]string{digest}, keysAndValues(data)...) {
		fmt.Fprintf(sum, "%d:%s", len(text), text)
	}
	return JobName(runID, phase) + "-" + hex.EncodeToString(sum.Sum(nil))[:10]
}

func keysAndValues(data map[string]string) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		all = append(all, key, data[key])
	}
	return all
}

// VolumeName is the name of the Workspace's volume claim.
func VolumeName(workspace string) string { return workspace + volumeSuffix }

// Labels mark every object of this phase of the run.
func (k Key) Labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelWorkspace:    k.Workspace,
		v1alpha1.LabelWorkspaceUID: k.WorkspaceUID,
		v1alpha1.LabelRunID:        k.RunID,
		v1alpha1.LabelRunPhase:     k.Phase,
	}
}

// KeyOf reads back what Labels wrote; ok is false for an object that is not of a run.
func KeyOf(namespace string, labels map[string]string) (key Key, ok bool) {
	key = Key{
		Namespace:    namespace,
		Workspace:    labels[v1alpha1.LabelWorkspace],
		WorkspaceUID: labels[v1alpha1.LabelWorkspaceUID],
		RunID:        labels[v1alpha1.LabelRunID],
		Phase:        labels[v1alpha1.LabelRunPhase],
	}
	return key, key.Workspace != "" && key.WorkspaceUID != "" && key.RunID != "" && key.Phase != ""
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:20]
}
