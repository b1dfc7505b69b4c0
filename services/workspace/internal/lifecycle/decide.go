package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"magosproject.io/api/v1alpha1"
)

// predicate answers with a decision, or leaves the answer to the next one.
type predicate func(Snapshot, *v1alpha1.Want) (Decision, bool)

// predicates in the order in which they are asked. A later one may rely on every earlier one having passed.
var predicates = []predicate{cancelLitter, cancellation, deletion, finalizer, litter, suspension, liveRun, gate, grant, inputs, revision, schedule}

// Decide names the one thing to do next. The same Snapshot always gives the same Decision.
func Decide(s Snapshot) Decision {
	d := decide(s)
	if d.Action == ActRecordPlanned {
		return throughGate(s, d)
	}
	return d
}

// throughGate saves a record: where the next pass, on what planned records, would ask for the apply, this one does.
func throughGate(s Snapshot, planned Decision) Decision {
	next := s
	next.Workspace = s.Workspace.DeepCopy()
	next.Workspace.Status = Status(s, planned, Outcome{Kind: OutcomeDone})
	next.Run = nil
	d := decide(next)
	if d.Action != ActRequestApply {
		return planned
	}
	d.PlanEnded, d.Drift = true, planned.Drift
	return d
}

func decide(s Snapshot) Decision {
	want := wanted(s)
	for _, ask := range predicates {
		if d, answered := ask(s, want); answered {
			return d
		}
	}
	return rest(s, "")
}

// finalizer comes before any run: a Workspace that can vanish would leave its run without anyone to answer for it. It comes after
// the watcher's first word on a new Workspace, and before the grant: three writers at once would be in each other's way.
func finalizer(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	if slices.Contains(s.Workspace.Finalizers, v1alpha1.FinalizerWorkspace) {
		return Decision{}, false
	}
	if left := newFor(s, watcherPatience); left > 0 && v1alpha1.DetectedRevision(s.Workspace) == "" {
		return Decision{Action: ActWait, Requeue: left}, true
	}
	return Decision{Action: ActAddFinalizer}, true
}

const (
	// watcherPatience is how long a new Workspace waits for the watcher's first word. The watcher writes at once where it knows the remote.
	watcherPatience = time.Second
	// grantPatience is how long a new Workspace waits for a standing grant before it says that it has none.
	grantPatience = 3 * time.Second
)

// newFor is how much longer the Workspace is younger than patience; clocks that differ make it old.
func newFor(s Snapshot, patience time.Duration) time.Duration {
	age := s.Now.Sub(s.Workspace.CreationTimestamp.Time)
	if age < 0 {
		return 0
	}
	return max(0, patience-age)
}

// litter removes an approval that was used or that approves nothing, so that it never meets a later plan. What says by whom
// it was goes with it, and never stays behind to be taken for the name of a later approver.
func litter(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	st := &s.Workspace.Status
	value, set := s.Workspace.Annotations[v1alpha1.AnnotationApproved]
	_, named := s.Workspace.Annotations[v1alpha1.AnnotationApprovedBy]
	if !set {
		return Decision{Action: ActRemoveApproval}, named
	}
	if isAwaited(st) && value == st.Run.ID {
		return Decision{}, false
	}
	d := Decision{Action: ActRemoveApproval}
	if wasUsed := st.Approval != nil && st.Approval.RunID == value && st.Run != nil && st.Run.ID == value; !wasUsed {
		d.Void = voidMessage(st, value)
	}
	return d, true
}

func voidMessage(st *v1alpha1.WorkspaceStatus, value string) string {
	if isAwaited(st) {
		return fmt.Sprintf("the approval of %q was removed: the plan that waits is that of run %s", value, st.Run.ID)
	}
	return fmt.Sprintf("the approval of %q was removed: no plan waits for one", value)
}

// isAwaited reports whether status says that the plan of the present run waits for a person. Only then an approval
// counts: nobody can have seen a plan before.
func isAwaited(st *v1alpha1.WorkspaceStatus) bool {
	return st.Run != nil && st.Run.Phase == v1alpha1.RunPlanned &&
		st.AwaitingApproval != nil && st.AwaitingApproval.RunID == st.Run.ID
}
