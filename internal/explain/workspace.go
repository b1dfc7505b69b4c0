package explain

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"magosproject.io/api/v1alpha1"
)

// workspaceChain begins with w and goes on with whoever it waits for.
func workspaceChain(s Scene, w *v1alpha1.Workspace) []link {
	own := workspaceLink(w)
	switch {
	case w.DeletionTimestamp == nil && w.Status.ObservedGeneration != w.Generation:
		return []link{own, unseen("Workspace", w.Name, "workspace")}
	case waitsForGrant(w):
		return append([]link{own}, grantChain(s, w)...)
	}
	return []link{own}
}

// unseen is the link to an edit that the service has not looked at: what status says is about the spec before it.
func unseen(kind, name, service string) link {
	return link{
		fact: Fact{Kind: kind, Name: name, Says: "the " + service + " service has not looked at its present spec yet"},
		wayOut: fmt.Sprintf("wait some seconds; if it stays so, look whether magos-%s runs and leads, "+
			"and whether it serves this namespace (the chart's value namespaces)", service),
	}
}

func workspaceLink(w *v1alpha1.Workspace) link {
	st := &w.Status
	l := link{fact: Fact{Kind: "Workspace", Name: w.Name, Phase: string(st.Phase), Reason: st.Reason, Message: st.Message}}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionDriftCheckFailed); c != nil && c.Status == "True" && st.Phase == v1alpha1.PhaseApplied {
		l.fact.Says = "Workspace " + w.Name + " is Applied, and whether reality still matches is not known since its last drift plan failed"
		l.fact.Reason, l.fact.Message = c.Reason, c.Message
		l.wayOut = wayOut(w, c.Reason)
		return l
	}
	l.fact.Says = "Workspace " + w.Name + " " + clauseOf(st.Reason, string(st.Phase))
	l.wayOut = wayOut(w, st.Reason)
	return l
}

// clauseOf is what a reason says, as the rest of a clause whose subject comes before.
func clauseOf(reason v1alpha1.Reason, phase string) string {
	if e, known := reasons[reason]; known {
		return e.says
	}
	if phase == "" {
		return "was not looked at yet"
	}
	return "is " + phase
}

// wayOut is what to do about the reason that w gives, with the names of w in it.
func wayOut(w *v1alpha1.Workspace, reason v1alpha1.Reason) string {
	text := namesOf(w).Replace(reasons[reason].wayOut)
	if text == "" {
		text = "read the message, mend what it names, and ask for a run: " + namesOf(w).Replace(askForRun)
	}
	failed := w.Status.Phase == v1alpha1.PhaseFailed || w.Status.Phase == v1alpha1.PhaseValidationFailed
	if due := w.Status.NextReconcileTime; due != nil && failed {
		text += "; it is tried again by itself at " + due.UTC().Format(time.RFC3339)
	}
	return text
}

// waitsForGrant reports whether it is somebody else's turn, as far as w knows.
func waitsForGrant(w *v1alpha1.Workspace) bool {
	reason := w.Status.Reason
	return w.DeletionTimestamp == nil && (reason == v1alpha1.ReasonAwaitingRollout || reason == v1alpha1.ReasonAwaitingBudget)
}

// grantChain says why w has no grant.
func grantChain(s Scene, w *v1alpha1.Workspace) []link {
	project := w.Spec.ProjectRef.Name
	switch {
	case s.Project == nil:
		return []link{missingProject(w.Namespace, project)}
	case s.Rollout != nil:
		return rolloutChain(s, w)
	case s.Project.Spec.Orchestration == v1alpha1.OrchestrationRollout:
		return []link{{
			fact: Fact{
				Kind: "Project", Name: project, Reason: v1alpha1.ReasonRolloutMissing, Message: s.Project.Status.Message,
				Says: "Project " + project + " " + reasons[v1alpha1.ReasonRolloutMissing].says,
			},
			wayOut: namesOf(w).Replace(reasons[v1alpha1.ReasonRolloutMissing].wayOut),
		}}
	}
	return []link{{
		fact: Fact{
			Kind: "Project", Name: project, Reason: s.Project.Status.Reason, Message: s.Project.Status.Message,
			Says: "Project " + project + " grants every Workspace at once, and has not granted this one yet",
		},
		wayOut: "wait some seconds; if it stays so, look whether magos-rollout runs and leads, and whether it serves this namespace (the chart's value namespaces)",
	}}
}

func missingProject(namespace, project string) link {
	return link{
		fact: Fact{
			Kind: "Project", Name: project, Reason: v1alpha1.ReasonProjectNotFound,
			Says: "Project " + project + " does not exist in namespace " + namespace,
		},
		wayOut: "create the Project " + project + " in namespace " + namespace,
	}
}
