package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The predicates of a Workspace at rest: no run lives, so the question is whether the next one may begin.

// grant answers for a want that waits for its turn. A drift plan that is not granted shows as nothing: what is applied
// stays applied.
func grant(s Snapshot, want *v1alpha1.Want) (Decision, bool) {
	if want == nil || want.Trigger == v1alpha1.TriggerDrift {
		return Decision{}, false
	}
	if g, ok := granted(s); ok && permitsPlan(g) {
		return Decision{}, false
	}
	if left := newFor(s, grantPatience); left > 0 && s.ProjectFound && !s.Ordered && s.Workspace.Status.Phase == "" {
		return Decision{Action: ActWait, Requeue: left}, true
	}
	d := Decision{Action: ActNone, Phase: v1alpha1.PhasePending}
	d.Reason, d.Message = withoutGrant(s)
	return d, true
}

func withoutGrant(s Snapshot) (v1alpha1.Reason, string) {
	project := s.Workspace.Spec.ProjectRef.Name
	if !s.ProjectFound {
		return v1alpha1.ReasonProjectNotFound, fmt.Sprintf("Project %q does not exist in this namespace: create it", project)
	}
	message := fmt.Sprintf("waits for Project %q to grant execution", project)
	if s.Ordered {
		message = fmt.Sprintf("waits for its turn in Rollout %q", project)
	}
	if f := s.Workspace.Status.Failures; f != nil && isFailing(s.Workspace) {
		message += fmt.Sprintf("; its last run failed: %s", f.LastReason)
	}
	return v1alpha1.ReasonAwaitingRollout, message
}

// inputs answers for a granted want whose variables are not complete.
func inputs(s Snapshot, want *v1alpha1.Want) (Decision, bool) {
	if want == nil || want.Trigger == v1alpha1.TriggerDrift || len(s.Inputs.Unresolved) == 0 {
		return Decision{}, false
	}
	d := Decision{
		Action: ActNone, Phase: v1alpha1.PhaseFailed, Reason: v1alpha1.ReasonUnresolvedVariables, Message: unresolvedMessage(s.Inputs.Unresolved),
	}
	if slices.ContainsFunc(s.Inputs.Unresolved, func(u Unresolved) bool { return u.Reason == v1alpha1.UnresolvedForbidden }) {
		// What appears announces itself; a right that is given does not.
		d.Requeue = safetyInterval
	}
	return d, true
}

// unresolvedMessage names what is missing, the first few in full.
func unresolvedMessage(unresolved []Unresolved) string {
	const named = 5
	parts := make([]string, 0, named+1)
	for i, u := range unresolved {
		if i == named {
			parts = append(parts, fmt.Sprintf("and %d more", len(unresolved)-named))
			break
		}
		if u.Key == "" {
			parts = append(parts, fmt.Sprintf("%s %s: %s", u.Kind, u.Name, u.Reason))
			continue
		}
		parts = append(parts, fmt.Sprintf("variable %s, key %s of %s %s: %s", u.Variable, u.Key, u.Kind, u.Name, u.Reason))
	}
	return "variables are missing: " + strings.Join(parts, "; ")
}

// revision answers for a granted want whose commit is not known.
func revision(s Snapshot, want *v1alpha1.Want) (Decision, bool) {
	if want == nil || want.Trigger == v1alpha1.TriggerDrift {
		return Decision{}, false
	}
	g, _ := granted(s)
	if commit(s, g) != "" {
		return Decision{}, false
	}
	if s.Resolution == nil {
		return Decision{Action: ActResolveRevision}, true
	}
	return Decision{
		Action: ActNone, Phase: v1alpha1.PhasePending,
		Reason:  or(s.Resolution.Reason, v1alpha1.ReasonAwaitingRevision),
		Message: or(s.Resolution.Message, "no commit is known yet for "+s.Workspace.Spec.Source.TargetRevision),
		Requeue: safetyInterval,
	}, true
}

// commit is the commit that a run under g uses: the granted one, the one that was resolved just now, or the detected one.
func commit(s Snapshot, g v1alpha1.Grant) string {
	switch {
	case g.Revision != "":
		return g.Revision
	case s.Resolution != nil:
		return s.Resolution.Revision
	}
	return v1alpha1.DetectedRevision(s.Workspace)
}

// schedule begins the run that is wanted, granted and complete, unless it is too early for it.
func schedule(s Snapshot, want *v1alpha1.Want) (Decision, bool) {
	w := s.Workspace
	if want == nil {
		return rest(s, ""), true
	}
	g, ok := granted(s)
	if want.Trigger == v1alpha1.TriggerDrift {
		if !ok || !coversDrift(g, w.Status.Applied) || len(s.Inputs.Unresolved) > 0 {
			return rest(s, "; a drift plan is due and waits for its grant"), true
		}
		if rests(s, w.Status.Applied.Revision) {
			d := rest(s, "; the last drift plan was given up ("+w.Status.Run.Reason+") and is tried again shortly")
			d.Requeue = until(s.Now, w.Status.Run.RetryAt.Time)
			return d, true
		}
		if s.DriftHeld {
			return driftHeld(s), true
		}
		return mint(s, g, v1alpha1.TriggerDrift, w.Status.Applied.Revision), true
	}
	target := commit(s, g)
	trigger := triggerAt(s, target)
	if trigger == "" || trigger == v1alpha1.TriggerDrift {
		if w.Status.Applied.Pass == g.Pass {
			return provenInPass(s, g), true
		}
		// The pass has not seen this Workspace at its commit yet: run once, so that the pass can count on it.
		trigger = want.Trigger
	}
	if run := w.Status.Run; run == nil || !isFreshAttempt(g, run) {
		if restsCancelled(s, target) {
			return cancelled(s), true
		}
		if d, waits := awaitsRetry(s, trigger); waits {
			return d, true
		}
	}
	if rests(s, target) {
		return resting(s), true
	}
	return mint(s, g, trigger, target), true
}

// awaitsRetry is the answer for inputs that have failed and rest, for a while or for good.
func awaitsRetry(s Snapshot, trigger v1alpha1.Trigger) (Decision, bool) {
	w := s.Workspace
	f := w.Status.Failures
	if trigger != v1alpha1.TriggerRetry || !isFailing(w) {
		return Decision{}, false
	}
	d := Decision{Action: ActNone, Phase: v1alpha1.PhaseFailed, Reason: f.LastReason, Message: f.Message}
	if isExhausted(w) {
		d.Reason = v1alpha1.ReasonRetriesExhausted
		d.Message = fmt.Sprintf("failed %d times with the same inputs, and retry.limit is %d: mend them, or set the annotation %s to a fresh value; it failed with %s: %s",
			f.Count, *w.Spec.Retry.Limit, v1alpha1.AnnotationReconcileRequest, f.LastReason, f.Message)
		return d, true
	}
	due := retryDue(w)
	d.Requeue = until(s.Now, due)
	return d, s.Now.Before(due)
}

// provenInPass is the answer for a Workspace that is done in the pass that grants it and wants something newer.
func provenInPass(s Snapshot, g v1alpha1.Grant) Decision {
	if g.Revision == "" {
		return rest(s, "")
	}
	return Decision{
		Action: ActNone, Phase: v1alpha1.PhasePending, Reason: v1alpha1.ReasonAwaitingRollout,
		Message: "is done at " + short(g.Revision) + " in the present pass; what is newer waits for the next one",
	}
}

// rest is the answer when nothing is to be done before the next date.
func rest(s Snapshot, note string) Decision {
	st := &s.Workspace.Status
	d := Decision{Action: ActNone, Phase: v1alpha1.PhaseApplied, Reason: v1alpha1.ReasonApplySucceeded, Message: appliedMessage(st.Applied) + note}
	if st.Run != nil && st.Run.Phase == v1alpha1.RunSucceeded && st.Run.ApplyRequestedAt == nil {
		d.Reason, d.Message = v1alpha1.ReasonNoChanges, nothingToChange(st.Applied.Revision, st.Applied.At)+note
	}
	if st.Applied == nil {
		d.Phase, d.Reason, d.Message = v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout, "waits"
	}
	if due, ok := nextDue(s.Workspace); ok && due.After(s.Now) {
		d.Requeue = until(s.Now, due)
	}
	return d
}

func appliedMessage(applied *v1alpha1.AppliedState) string {
	if applied == nil {
		return ""
	}
	return inForce(applied.Revision)
}

// nothingToChange says when a plan has looked.
func nothingToChange(revision string, at metav1.Time) string {
	return inForce(revision) + "; a plan found nothing to change at " + at.UTC().Format(time.RFC3339)
}

func inForce(revision string) string { return "commit " + short(revision) + " is in force" }
