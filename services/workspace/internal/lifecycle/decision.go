package lifecycle

import (
	"time"

	"magosproject.io/api/v1alpha1"
)

// Action is what one pass does outside. There is no other.
type Action string

// The actions. Each but ActResolveRevision ends the pass with at most one write to the Workspace.
const (
	// ActNone records status, if it differs.
	ActNone Action = "None"
	// ActWait writes nothing at all: what another service is about to write comes first, as a rule within a moment.
	ActWait Action = "Wait"
	// ActAddFinalizer adds the workspace finalizer; before it is there no run is recorded.
	ActAddFinalizer Action = "AddFinalizer"
	// ActRemoveFinalizer lets a deleted Workspace go.
	ActRemoveFinalizer Action = "RemoveFinalizer"
	// ActRemoveApproval removes an approval that was used or that approves nothing, and what says by whom it was.
	ActRemoveApproval Action = "RemoveApproval"
	// ActRemoveCancel removes a cancel that was seen or that names no live run.
	ActRemoveCancel Action = "RemoveCancel"
	// ActResolveRevision asks the refwatcher, and then decides again with its answer.
	ActResolveRevision Action = "ResolveRevision"
	// ActRecordRun records a new run, before anything of it exists outside.
	ActRecordRun Action = "RecordRun"
	// ActStartPlan asks for the plan Job, then records that the runner took it.
	ActStartPlan Action = "StartPlan"
	// ActRecordPlanned records what the plan found.
	ActRecordPlanned Action = "RecordPlanned"
	// ActRequestApply records the intent to apply, and only then asks for the apply Job. It is the only action
	// whose record comes first: a Job that was asked for without a record could be asked for twice. Where the plan waits for
	// nobody, what it found is recorded with the intent.
	ActRequestApply Action = "RequestApply"
	// ActRecordEnd records a run as ended; nothing of it exists any more that could still start.
	ActRecordEnd Action = "RecordEnd"
	// ActCancelRun asks the runner to make sure that the half Half of the run never starts, and then records what
	// Cancelled makes of the answer. A pod that runs goes on, unless Interrupts.
	ActCancelRun Action = "CancelRun"
)

// Decision is one action with what is to be recorded when it succeeds.
type Decision struct {
	// Action to take.
	Action Action
	// Half that ActCancelRun is about.
	Half Half
	// Interrupts is whether ActCancelRun also ends a pod that runs.
	Interrupts bool
	// Run as it is recorded when the action succeeds; nil leaves it as it is.
	Run *v1alpha1.WorkspaceRun
	// End says why Run ends, where it does.
	End *End
	// PlanEnded is whether this records what the plan found, with Drift.
	PlanEnded bool
	Drift     *v1alpha1.Drift
	// Phase, Reason and Message as they are recorded when the action succeeds.
	Phase   v1alpha1.Phase
	Reason  v1alpha1.Reason
	Message string
	// Awaits is whether the plan waits for a person, with the Warnings for that person.
	Awaits   bool
	Warnings []string
	// Approved is whether a person's approval is what lets the apply go ahead.
	Approved bool
	// Void says why an approval or a cancel is removed; empty where it was used.
	Void string
	// Requeue is when to look again if nothing happens before; 0 means only when something happens.
	Requeue time.Duration
}

// End says why a run ended.
type End struct {
	// Reason is a reason of the API.
	Reason v1alpha1.Reason
	// Message is for people.
	Message string
}

// Outcome is how the outside took an action.
type Outcome struct {
	// Kind of outcome.
	Kind OutcomeKind
	// Reason and Message of an outcome other than OutcomeDone.
	Reason  v1alpha1.Reason
	Message string
}

// OutcomeKind is a kind of Outcome.
type OutcomeKind string

// The kinds of outcome. An error that is none of them is no outcome: nothing is recorded, and the pass is repeated.
const (
	// OutcomeDone: the action succeeded, or there was nothing to do outside.
	OutcomeDone OutcomeKind = "Done"
	// OutcomeWaiting: it was refused for now, or the peer cannot be reached; the same action is taken again later.
	OutcomeWaiting OutcomeKind = "Waiting"
	// OutcomeVoid: this half of the run was cancelled before it existed; the run is given up.
	OutcomeVoid OutcomeKind = "Void"
	// OutcomeRefused: the request can never succeed; the run fails.
	OutcomeRefused OutcomeKind = "Refused"
)
