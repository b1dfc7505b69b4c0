package explain

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"magosproject.io/api/v1alpha1"
)

// rolloutChain begins with the Rollout of s and goes on with the member that its step waits for. waiting is the Workspace
// that waits for its turn; nil when the Rollout itself is asked about.
func rolloutChain(s Scene, waiting *v1alpha1.Workspace) []link {
	r := s.Rollout
	if waiting != nil && stepOf(r, waiting) < 0 {
		return []link{unmatched(r, waiting)}
	}
	own := rolloutLink(s, waiting)
	switch {
	case s.Project == nil:
		return []link{own, missingProject(r.Namespace, r.Spec.ProjectRef)}
	case r.Status.ObservedGeneration != r.Generation:
		return []link{own, unseen("Rollout", r.Name, "rollout")}
	case reasons[r.Status.Reason].members:
		if m := blocking(s, waiting); m != nil {
			// What the member waits for in turn is this Rollout: the chain ends with it.
			return []link{own, workspaceLink(m)}
		}
	}
	return []link{own}
}

func rolloutLink(s Scene, waiting *v1alpha1.Workspace) link {
	r := s.Rollout
	st := &r.Status
	says := "Rollout " + r.Name
	if step, ok := currentStep(r); ok && !isAtRest(r) {
		says += fmt.Sprintf(" in step %s (%d of %d)", step.Name, st.CurrentStep+1, len(st.Steps))
	}
	says += " " + clauseOf(st.Reason, string(st.Phase))
	if own := ownStep(r, waiting); own != "" {
		says += ", and step " + own + " comes later"
	}
	return link{
		fact:   Fact{Kind: "Rollout", Name: r.Name, Phase: string(st.Phase), Reason: st.Reason, Message: st.Message, Says: says},
		wayOut: rolloutWayOut(r),
	}
}

// rolloutWayOut is what to do about the reason that r gives. Some reasons are those of a member, which the message names.
func rolloutWayOut(r *v1alpha1.Rollout) string {
	if e, own := rollouts[r.Status.Reason]; own {
		return rolloutNames(r).Replace(e.wayOut)
	}
	member := v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "<workspace>"}}
	member.Spec.ProjectRef.Name = r.Spec.ProjectRef
	if text := namesOf(&member).Replace(reasons[r.Status.Reason].wayOut); text != "" {
		return text
	}
	return "read the message, and mend what it names"
}

// unmatched is the link to a Rollout that never grants the Workspace.
func unmatched(r *v1alpha1.Rollout, w *v1alpha1.Workspace) link {
	return link{
		fact: Fact{
			Kind: "Rollout", Name: r.Name, Phase: string(r.Status.Phase), Reason: r.Status.Reason,
			Says: "no step of Rollout " + r.Name + " matches its labels",
		},
		wayOut: fmt.Sprintf("label the Workspace as a selector of spec.strategy.steps wants it, or mend the selector: kubectl -n %s edit rollout %s", w.Namespace, r.Name),
	}
}

// ownStep names the step of the waiting Workspace where the Rollout has not come that far.
func ownStep(r *v1alpha1.Rollout, waiting *v1alpha1.Workspace) string {
	if waiting == nil || isAtRest(r) {
		return ""
	}
	if i := stepOf(r, waiting); i > int(r.Status.CurrentStep) {
		return steps(r)[i].Name
	}
	return ""
}

// isAtRest reports whether no pass is moving.
func isAtRest(r *v1alpha1.Rollout) bool {
	return r.Status.Pass == nil || r.Status.Pass.FinishedAt != nil
}

func currentStep(r *v1alpha1.Rollout) (v1alpha1.RolloutStepStatus, bool) {
	i := int(r.Status.CurrentStep)
	if i < 0 || i >= len(r.Status.Steps) {
		return v1alpha1.RolloutStepStatus{}, false
	}
	return r.Status.Steps[i], true
}

// steps are those that the moving pass uses, else those of the spec.
func steps(r *v1alpha1.Rollout) []v1alpha1.RolloutStep {
	if !isAtRest(r) && len(r.Status.Pass.Steps) > 0 {
		return r.Status.Pass.Steps
	}
	return r.Spec.Strategy.Steps
}

// stepOf is the index of the step that w belongs to, its first match; -1 where it is in none.
func stepOf(r *v1alpha1.Rollout, w *v1alpha1.Workspace) int {
	return slices.IndexFunc(steps(r), func(step v1alpha1.RolloutStep) bool {
		selector, err := metav1.LabelSelectorAsSelector(&step.Selector)
		return err == nil && selector.Matches(labels.Set(w.Labels))
	})
}

// blocking is the member of the current step that holds it most: one that failed, else one that waits for a person, else one
// that is not done. Among equals the first by name.
func blocking(s Scene, except *v1alpha1.Workspace) *v1alpha1.Workspace {
	if isAtRest(s.Rollout) {
		return nil
	}
	members := slices.Clone(s.Members)
	slices.SortFunc(members, func(a, b *v1alpha1.Workspace) int { return strings.Compare(a.Name, b.Name) })
	var worst *v1alpha1.Workspace
	for _, m := range members {
		if except != nil && m.Name == except.Name || stepOf(s.Rollout, m) != int(s.Rollout.Status.CurrentStep) {
			continue
		}
		if rank := rankOf(s.Rollout, m); rank > 0 && (worst == nil || rank > rankOf(s.Rollout, worst)) {
			worst = m
		}
	}
	return worst
}

// rankOf says how much a member holds its step; 0 where it does not.
func rankOf(r *v1alpha1.Rollout, m *v1alpha1.Workspace) int {
	st := &m.Status
	switch {
	case st.Phase == v1alpha1.PhaseFailed || st.Phase == v1alpha1.PhaseValidationFailed:
		return 3
	case isDone(r, m):
		return 0
	case st.AwaitingApproval != nil:
		return 2
	}
	return 1
}

// isDone reports whether the pass has nothing left to do for m, as far as status tells.
func isDone(r *v1alpha1.Rollout, m *v1alpha1.Workspace) bool {
	st := &m.Status
	if st.Applied == nil || st.Phase != v1alpha1.PhaseApplied {
		return false
	}
	return st.Applied.Pass == r.Status.Pass.ID || st.Wants == nil || st.Wants.Trigger == v1alpha1.TriggerDrift
}
