package execution

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"magosproject.io/api/v1alpha1"
)

// KeyRef names a key of a Secret or ConfigMap in the Workspace's namespace.
type KeyRef struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	// Optional leaves the variable out when the reference leads nowhere.
	Optional bool `json:"optional,omitempty"`
}

// Variable is one input variable with exactly one source.
type Variable struct {
	Name      string  `json:"name"`
	Value     *string `json:"value,omitempty"`
	Secret    *KeyRef `json:"secret,omitempty"`
	ConfigMap *KeyRef `json:"configMap,omitempty"`
}

// Key names one phase of one run.
type Key struct {
	Namespace    string `json:"namespace"`
	Workspace    string `json:"workspace"`
	WorkspaceUID string `json:"workspaceUID"`
	RunID        string `json:"runID"`
	// Phase is runspec.PhasePlan or runspec.PhaseApply.
	Phase string `json:"phase"`
}

// Request asks for the Job of one phase of a run. Check says whether it is sound.
type Request struct {
	Key
	RepoURL        string `json:"repoURL"`
	Revision       string `json:"revision"`
	TargetRevision string `json:"targetRevision"`
	Path           string `json:"path"`
	// RecurseSubmodules says whether the repository's submodules are fetched too.
	RecurseSubmodules bool              `json:"recurseSubmodules,omitempty"`
	Engine            v1alpha1.Engine   `json:"engine"`
	ToolVersion       string            `json:"toolVersion"`
	TfvarsPath        string            `json:"tfvarsPath,omitempty"`
	Variables         []Variable        `json:"variables,omitempty"`
	ServiceAccount    string            `json:"serviceAccount"`
	MountToken        bool              `json:"mountToken,omitempty"`
	PodAnnotations    map[string]string `json:"podAnnotations,omitempty"`
	Timeout           time.Duration     `json:"timeout"`
	PlanDigest        string            `json:"planDigest,omitempty"`
	// TFLogLevel is how much the tool says of its own doings; empty for nothing.
	TFLogLevel string `json:"tfLogLevel,omitempty"`
	// Destroy is whether the run destroys what the state has.
	Destroy bool `json:"destroy,omitempty"`
	// RepositorySecrets are the namespace's Secrets with credentials of repositories, by name. They are no part of the digest:
	// what Secrets there are may change before a request is repeated.
	RepositorySecrets []string `json:"-"`
}

// Digest identifies the request: equal requests have equal digests, whatever the runner's own settings are.
func (r Request) Digest() (string, error) {
	// Field order is fixed by the struct and map keys are sorted, so the JSON is canonical.
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("digesting the request: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
