package lifecycle

import (
	"fmt"
	"slices"

	"magosproject.io/api/v1alpha1"
)

// predicate answers with a decision, or leaves the answer to the next one.
type predicate func(Snapshot, *v1alpha1.Want) (Decision, bool)

// predicates in the order in which they are asked. A later one may rely on every earlier one having passed.
var predicates = []predicate{deletion, finalizer, litter, liveRun, gate, grant, inputs, revision, schedule}

// Decide names the one thing to do next. The same Snapshot always gives the same Decision.
func Decide(s Snapshot) Decision {
	want := wanted(s)
	for _, ask := range predicates {
		if d, answered := ask(s, want); answered {
			return d
		}
	}
	return rest(s, "")
}

// deletion lets a run end of which a container has run, gives up any other and starts nothing new.
func deletion(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	w := s.Workspace
	if w.DeletionTimestamp == nil {
		return Decision{}, false
	}
	d := Decision{Action: ActNone, Phase: w.Status.Phase}
	switch run := w.Status.Run; {
	case !slices.Contains(w.Finalizers, v1alpha1.FinalizerWorkspace):
	case !isLive(run):
		d.Action = ActRemoveFinalizer
	case run.Phase == v1alpha1.RunPlanned:
		d = end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the Workspace is being deleted")
	case run.Phase == v1alpha1.RunPlanning && run.PlanStartedAt == nil:
		d = cancel(Plan, end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the Workspace is being deleted"))
	default:
		d, _ = liveRun(s, nil)
	}
	return beingDeleted(s, d), true
}

// beingDeleted makes d say so if the Workspace is being deleted.
func beingDeleted(s Snapshot, d Decision) Decision {
	if s.Workspace.DeletionTimestamp == nil {
		return d
	}
	d.Reason, d.Message = v1alpha1.ReasonDeleting, "the Workspace is being deleted; a run that still lives is let end"
	if d.Phase == "" {
		d.Phase = v1alpha1.PhasePending
	}
	return d
}

// finalizer comes before any run: a Workspace that can vanish would leave its run without anyone to answer for it.
func finalizer(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	missing := !slices.Contains(s.Workspace.Finalizers, v1alpha1.FinalizerWorkspace)
	return Decision{Action: ActAddFinalizer}, missing
}

// litter removes an approval that was used or that approves nothing, so that it never meets a later plan.
func litter(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	st := &s.Workspace.Status
	value, set := s.Workspace.Annotations[v1alpha1.AnnotationApproved]
	if !set || (isAwaited(st) && value == st.Run.ID) {
		return Decision{}, false
	}
	d := Decision{Action: ActRemoveApproval}
	if st.Approval == nil || st.Approval.RunID != value {
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
