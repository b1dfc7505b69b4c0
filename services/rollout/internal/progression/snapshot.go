// Package progression decides, without doing anything, which Workspaces of a Project may run.
// Decide is a pure function of what was observed and the time; the reconciler carries out what it says.
package progression

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

// Key is what one commit is pinned for: all Workspaces that write the same repository and target
// revision receive the same commit within a pass.
type Key struct {
	RepoURL        string
	TargetRevision string
}

// KeyOf returns the Key of a Workspace.
func KeyOf(m *v1alpha1.Workspace) Key {
	return Key{RepoURL: m.Spec.Source.RepoURL, TargetRevision: m.Spec.Source.TargetRevision}
}

// Resolution is the answer of the refwatcher for one Key: a commit, or why there is none.
type Resolution struct {
	// Revision is the full commit SHA; empty when there is no answer.
	Revision string
	// Reason says why there is none; empty when there is one.
	Reason v1alpha1.Reason
	// Message has git's words for people.
	Message string
}

// Snapshot is everything that a decision is made from.
type Snapshot struct {
	// Project of the name that is decided on; nil when it does not exist.
	Project *v1alpha1.Project
	// Rollout of the same name; nil when it does not exist.
	Rollout *v1alpha1.Rollout
	// Members are the Workspaces that name the Project, in any order.
	Members []*v1alpha1.Workspace
	// Resolved has what the refwatcher answered to the NeedPins of an earlier Decide of the same pass
	// of the reconciler.
	Resolved map[Key]Resolution
}

// PinRequest asks for one ResolveRevision answer.
type PinRequest struct {
	// Key that needs a commit.
	Key Key
	// Member is a Workspace with this Key, by whose name the refwatcher is asked.
	Member string
	// Hint is set when the question only confirms that the commit named here is new: an annotation
	// can be older than the pin. Empty when the commit becomes a pin.
	Hint string
}

// Subject says whom an Event is about.
type Subject int

// The subjects of Events.
const (
	// AboutRollout is the Rollout.
	AboutRollout Subject = iota
	// AboutProject is the Project.
	AboutProject
)

// Event announces one transition.
type Event struct {
	// About says which object changed.
	About Subject
	// Warning is true when a person should look.
	Warning bool
	// Reason is the reason of the new status.
	Reason v1alpha1.Reason
	// Message is for people.
	Message string
}

// Decision is what shall be true next. Effects happen in this order: grants that are not in Grants are
// taken, NeedPins are asked (and Decide is called again), the statuses are recorded, Consumed is removed, Grants are given.
type Decision struct {
	// Grants holds the complete desired grant per Workspace name; a Workspace that is not in it holds none.
	Grants map[string]v1alpha1.Grant
	// NeedPins must be answered before the decision is complete.
	NeedPins []PinRequest
	// Rollout is the desired status; nil without a Rollout.
	Rollout *v1alpha1.RolloutStatus
	// Project is the desired status; nil without a Project.
	Project *v1alpha1.ProjectStatus
	// Consumed names the annotations of the Rollout that are obeyed once the status is recorded, or that are void.
	Consumed []string
	// Events of the transitions from the observed statuses to the desired ones.
	Events []Event
	// Requeue is when to decide again although nothing has changed; 0 means not at all.
	Requeue time.Duration
}
