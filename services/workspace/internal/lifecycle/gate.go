package lifecycle

import (
	"fmt"
	"slices"

	"magosproject.io/api/v1alpha1"
)

// gate holds a plan until it may be applied, or gives it up.
func gate(s Snapshot, _ *v1alpha1.Want) (Decision, bool) {
	run := s.Workspace.Status.Run
	if run == nil || run.Phase != v1alpha1.RunPlanned {
		return Decision{}, false
	}
	if why := discardReason(s); why != "" {
		return end(s, v1alpha1.RunDiscarded, v1alpha1.ReasonRunDiscarded, "the plan was given up: "+why), true
	}
	needsApproval := needsApproval(s.Workspace)
	if needsApproval && run.Unreadable != "" {
		// Nobody could know what they approve.
		return setBack(s, v1alpha1.ReasonPlanUnreadable, "the plan has to be approved, and nobody can read it: "+run.Unreadable+"; it is planned again", 0), true
	}
	approved := isAwaited(&s.Workspace.Status) && s.Workspace.Annotations[v1alpha1.AnnotationApproved] == run.ID
	d := Decision{Action: ActNone, Phase: v1alpha1.PhasePlanned, Awaits: needsApproval}
	if needsApproval {
		d.Warnings = append(slices.Clone(run.Warnings), changedSince(s)...)
		if !approved {
			d.Reason = v1alpha1.ReasonAwaitingApproval
			d.Message = fmt.Sprintf("the plan waits for approval: set the annotation %s to %s", v1alpha1.AnnotationApproved, run.ID)
			return d, true
		}
	}
	if isDestroy(run) {
		// What the variables refer to may be gone by now: the plan has their values.
		if reason, message := obstacle(s); reason != "" && reason != v1alpha1.ReasonUnresolvedVariables {
			d.Reason, d.Message, d.Requeue = reason, message, safetyInterval
			return d, true
		}
	} else if g, ok := granted(s); !ok || !coversApply(g, run) {
		d.Reason, d.Message = withoutGrant(s)
		if ok && g.Scope == v1alpha1.ScopePlan {
			d.Reason, d.Message = v1alpha1.ReasonAwaitingBudget, awaitsBudget(run)
		}
		return d, true
	}
	next := run.DeepCopy()
	next.Phase = v1alpha1.RunApplying
	now := stamp(s)
	next.ApplyRequestedAt = &now
	return Decision{
		Action: ActRequestApply, Run: next, Approved: needsApproval,
		Phase: v1alpha1.PhaseApplying, Reason: v1alpha1.ReasonRunPending, Message: "the apply of " + short(run.Revision) + " is asked for",
		Requeue: safetyInterval,
	}, true
}

// awaitsBudget says what is counted.
func awaitsBudget(run *v1alpha1.WorkspaceRun) string {
	text := "the plan waits for the budget of its Rollout"
	if c := run.Changes; c != nil {
		text += fmt.Sprintf(": it destroys %d and replaces %d", c.Destroy, c.Replace)
	}
	return text
}

// needsApproval reports whether a person decides about the plan of the present run. A plan that was parked for a person
// stays parked: it was made while somebody meant to look at it.
func needsApproval(w *v1alpha1.Workspace) bool {
	return !w.Status.Run.AutoApply || !w.AppliesAutomatically()
}

// discardReason says why the plan must be given up; empty while it may stay. A passing of time never is a reason.
func discardReason(s Snapshot) string {
	w, run := s.Workspace, s.Workspace.Status.Run
	if !run.AutoApply && w.AppliesAutomatically() {
		return "autoApply was turned on, and it applies what is planned from then on"
	}
	if s.Inputs.Fingerprint.Spec != ParseFingerprint(run.Fingerprint).Spec {
		return "the spec was edited"
	}
	if isAwaited(&w.Status) && w.Status.ObservedGeneration != w.Generation {
		return "the spec was edited while it waited"
	}
	if hasFreshRequest(w) {
		return "a fresh run was requested"
	}
	if isDestroy(run) {
		return ""
	}
	g, ok := granted(s)
	if ok && (g.Pass != run.Pass || g.Revision != "" && g.Revision != run.Revision) {
		return "the grant is for another pass or commit"
	}
	if w.Spec.DiscardStalePlan && needsApproval(w) && isStale(s, g) {
		return "newer inputs appeared and discardStalePlan is set"
	}
	return ""
}

// isStale reports whether a new plan would be one of other inputs. Under a pinned grant a newer commit is not due yet:
// planning the same commit again would help nobody and never end. Without a grant what is detected counts.
func isStale(s Snapshot, g v1alpha1.Grant) bool {
	run := s.Workspace.Status.Run
	target := or(g.Revision, v1alpha1.DetectedRevision(s.Workspace))
	return target != "" && target != run.Revision || haveVariablesChanged(s)
}

func haveVariablesChanged(s Snapshot) bool {
	return s.Inputs.Known() && s.Inputs.Fingerprint.Variables != ParseFingerprint(s.Workspace.Status.Run.Fingerprint).Variables
}

// changedSince tells an approver what is newer than the plan.
func changedSince(s Snapshot) []string {
	var warnings []string
	if isDestroy(s.Workspace.Status.Run) {
		return []string{"approving it destroys what the Workspace has applied"}
	}
	detected := v1alpha1.DetectedRevision(s.Workspace)
	if detected != "" && detected != s.Workspace.Status.Run.Revision {
		warnings = append(warnings, "commit "+detected+" was detected after the plan was made; it runs afterwards")
	}
	if haveVariablesChanged(s) {
		warnings = append(warnings, "variables changed after the plan was made; the new ones run afterwards")
	}
	return warnings
}
