// Package runspec is the contract between the runner service, which renders the pods of a run, and magos-exec,
// which runs in every container of them: what a container is told, where it finds things, and how it reports.
package runspec

import (
	"encoding/json"
	"fmt"
	"time"
)

// Version of Instructions and Record. A container that is told another version refuses to run.
const Version = 1

// Phases of a run.
const (
	// PhasePlan has the containers keeper, tool and show.
	PhasePlan = "plan"
	// PhaseApply has the container tool alone.
	PhaseApply = "apply"
)

// Containers, which are also the arguments with which magos-exec is started. In the pod of an apply the container
// is named ContainerTool and started with ArgApply.
const (
	// ContainerKeeper fetches, seals, judges and reports. It never runs code of the module or of a provider.
	ContainerKeeper = "keeper"
	// ContainerTool runs the tool, and with it the code of the module.
	ContainerTool = "tool"
	// ContainerShow renders the sealed plan as JSON.
	ContainerShow = "show"
	// ArgApply starts the apply in ContainerTool.
	ArgApply = "apply"
)

// Instructions tell the containers of one pod what to do. They hold no secret.
type Instructions struct {
	// Version is Version.
	Version int `json:"version"`
	// RunID of the run.
	RunID string `json:"runID"`
	// Phase is PhasePlan or PhaseApply.
	Phase string `json:"phase"`
	// Namespace, Workspace and WorkspaceUID name the Workspace.
	Namespace    string `json:"namespace"`
	Workspace    string `json:"workspace"`
	WorkspaceUID string `json:"workspaceUID"`
	// RepoURL, Revision (a full SHA) and TargetRevision (a hint for the fetch) name the code.
	RepoURL        string `json:"repoURL"`
	Revision       string `json:"revision"`
	TargetRevision string `json:"targetRevision"`
	// RecurseSubmodules says whether the repository's submodules are fetched too.
	RecurseSubmodules bool `json:"recurseSubmodules,omitempty"`
	// GitSchemes are the schemes that repository URLs may have, for submodules and modules too; empty for the defaults.
	// GitHelpers are git remote helpers that may be used as well, each for the scheme of its name.
	GitSchemes []string `json:"gitSchemes,omitempty"`
	GitHelpers []string `json:"gitHelpers,omitempty"`
	// Path of the module and TfvarsPath, both from the repository's root; TfvarsPath may be empty.
	Path       string `json:"path"`
	TfvarsPath string `json:"tfvarsPath,omitempty"`
	// Engine is Terraform or OpenTofu, ToolVersion its exact version.
	Engine      string `json:"engine"`
	ToolVersion string `json:"toolVersion"`
	// Variables are the names of the input variables; the value of Variables[i] is the content of VariablesDir/i,
	// and a file that does not exist means that an optional reference led nowhere.
	Variables []string `json:"variables,omitempty"`
	// Literals are those of Variables whose values are public: they stand in a VariableSet and are not masked.
	// Secrets are those whose values come from Secrets.
	Literals []string `json:"literals,omitempty"`
	Secrets  []string `json:"secrets,omitempty"`
	// PlanDigest is what the apply must find sealed; empty in a plan.
	PlanDigest string `json:"planDigest,omitempty"`
	// Destroy is whether the plan is one that destroys everything that the state has.
	Destroy bool `json:"destroy,omitempty"`
	// Timeout after which the tool is interrupted.
	Timeout Duration `json:"timeout"`
	// Grace is how long the tool may take to end after an interrupt.
	Grace Duration `json:"grace"`
	// ToolMirror and ProviderMirror are used before the official sites: an https or http URL, or an absolute folder in the run image; may be empty.
	ToolMirror     string `json:"toolMirror,omitempty"`
	ProviderMirror string `json:"providerMirror,omitempty"`
	// ProviderMirrorOnly says that providers come from ProviderMirror and from nowhere else.
	ProviderMirrorOnly bool `json:"providerMirrorOnly,omitempty"`
}

// Duration is a time.Duration that is written as text, such as 5m0s.
type Duration time.Duration

// MarshalText writes d as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("reading duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// ParseInstructions reads what Instructions were written as, and refuses another version.
func ParseInstructions(data []byte) (Instructions, error) {
	var in Instructions
	if err := json.Unmarshal(data, &in); err != nil {
		return Instructions{}, fmt.Errorf("reading run instructions: %w", err)
	}
	if in.Version != Version {
		return Instructions{}, fmt.Errorf("run instructions have version %d, this magos-exec knows %d: use the run image of the runner's release", in.Version, Version)
	}
	return in, nil
}
