package lifecycle

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

// Snapshot is everything that a decision about one Workspace depends on. What could not be seen is not in it: then
// there is no Snapshot, but an error.
type Snapshot struct {
	// Now is the reading of the clock for this pass.
	Now time.Time
	// Workspace is the object version that is decided on; every write names its UID and resourceVersion.
	Workspace *v1alpha1.Workspace
	// ProjectFound is whether the Project that the Workspace names exists.
	ProjectFound bool
	// Ordered is whether a Rollout of the Project's name exists or the Project asks for one.
	Ordered bool
	// Inputs is what a run would receive.
	Inputs Inputs
	// Resolution is the answer of the refwatcher; nil while it was not asked in this pass.
	Resolution *Resolution
	// Run is what the runner says of the phase that InFlight names; nil where nothing is in flight.
	Run *RunView
	// Destroy is what is known of the destroy that the Workspace owes; nil where it owes none. Inputs are then those that were applied last.
	Destroy *Destruction
	// DriftHeld is whether no further drift plan may begin now: as many as are allowed at a time run, or a person's run waits for its pod.
	DriftHeld bool
}

// Inputs is what a run would receive, apart from its commit.
type Inputs struct {
	// Fingerprint of them. Its Variables part is empty while they cannot be known.
	Fingerprint Fingerprint
	// Sets that contribute, the Project's first.
	Sets []string
	// Unresolved lists the sources that are missing and are not optional.
	Unresolved []Unresolved
}

// Known reports whether the variables could be composed at all; without the Project they cannot.
func (i Inputs) Known() bool { return i.Fingerprint.Variables != "" }

// Unresolved is a source of variables that leads nowhere.
type Unresolved struct {
	// Variable that is without a value; empty where a whole VariableSet is missing.
	Variable string
	// Kind is Secret, ConfigMap or VariableSet.
	Kind string
	// Name of the object.
	Name string
	// Key within it; empty for a VariableSet.
	Key string
	// Reason is ResourceNotFound, KeyNotFound or Forbidden.
	Reason string
}

// Resolution is the answer to the question which commit the target revision is.
type Resolution struct {
	// Revision is the commit; empty where there is none, and then Reason and Message say why.
	Revision string
	// Reason is AwaitingRevision, RevisionNotFound, AmbiguousRevision or RefWatcherUnavailable.
	Reason string
	// Message is for people.
	Message string
}

// RunState is where one phase of a run stands, as the runner says.
type RunState string

// The states of a phase of a run.
const (
	// RunAbsent: no Job of it exists.
	RunAbsent RunState = "Absent"
	// RunPending: its Job exists and no container has run.
	RunPending RunState = "Pending"
	// RunRunning: a container runs or has run, or the pod is not proven ended.
	RunRunning RunState = "Running"
	// RunSucceeded: provably ended, with success.
	RunSucceeded RunState = "Succeeded"
	// RunFailed: provably ended, without success.
	RunFailed RunState = "Failed"
	// RunVoid: cancelled before any container ran; none ever will.
	RunVoid RunState = "Void"
)

// RunView is what the runner says of one phase of a run.
type RunView struct {
	// State is where it stands.
	State RunState
	// Reason and Message are the runner's; empty where the state says it all.
	Reason  string
	Message string
	// NeverStarted is whether a half that failed has done so without any container of it having run.
	NeverStarted bool
	// Plan is what a succeeded plan found.
	Plan *PlanView
}

// PlanView is what a succeeded plan found.
type PlanView struct {
	// Digest of what was sealed.
	Digest string
	// Empty is whether there is nothing to apply at all.
	Empty bool
	// Changes that it would make.
	Changes v1alpha1.Changes
	// Drifted are the first of the resources that were changed from outside, of DriftedTotal.
	Drifted      []string
	DriftedTotal int32
	// Warnings for the person who looks at it. They decide nothing.
	Warnings []string
	// Unreadable says why people cannot read it; empty where they can.
	Unreadable string
}

// Half names one of the two Jobs of a run.
type Half string

// The halves of a run.
const (
	// Plan is the plan Job.
	Plan Half = "plan"
	// Apply is the apply Job.
	Apply Half = "apply"
)

// InFlight names the half of the run of w that the runner has to be asked about, if there is one: it was asked for, and
// its end is not recorded yet.
func InFlight(w *v1alpha1.Workspace) (Half, bool) {
	run := w.Status.Run
	switch {
	case run == nil:
		return "", false
	case run.Phase == v1alpha1.RunPlanning && run.PlanStartedAt != nil:
		return Plan, true
	case run.Phase == v1alpha1.RunApplying:
		return Apply, true
	}
	return "", false
}
