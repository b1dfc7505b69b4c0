package lifecycle

import "magosproject.io/api/v1alpha1"

// granted returns the grant on the object version that is decided on. Without its Project a Workspace has none.
func granted(s Snapshot) (v1alpha1.Grant, bool) {
	if !s.ProjectFound {
		return v1alpha1.Grant{}, false
	}
	return v1alpha1.ReadGrant(s.Workspace, s.Ordered)
}

// permitsPlan reports whether g lets a run begin that is no drift plan. Whether it may be applied is another question.
func permitsPlan(g v1alpha1.Grant) bool {
	return g.Scope == v1alpha1.ScopeRun || g.Scope == v1alpha1.ScopePlan
}

// covers reports whether g permits the plan of run to go on as it was recorded.
func covers(g v1alpha1.Grant, run *v1alpha1.WorkspaceRun) bool {
	sameCommit := g.Revision == "" || g.Revision == run.Revision
	return g.Pass == run.Pass && sameCommit && (permitsPlan(g) || run.Scope == v1alpha1.ScopeDrift)
}

// coversApply reports whether g permits what the plan of run has sealed to be applied: the scope of the run does not count,
// only that of the grant that is there now.
func coversApply(g v1alpha1.Grant, run *v1alpha1.WorkspaceRun) bool {
	return g.Scope == v1alpha1.ScopeRun && covers(g, run)
}

// coversDrift reports whether g permits a drift plan of what is applied: at that commit and no other.
func coversDrift(g v1alpha1.Grant, applied *v1alpha1.AppliedState) bool {
	if g.Scope == v1alpha1.ScopeRun && g.Revision == "" {
		return true
	}
	return g.Revision == applied.Revision
}

// isFreshAttempt reports whether the pass asks for an attempt at once after failed, the last run: one of an earlier pass, or with a lower number. Either is
// spent by the run that takes it.
func isFreshAttempt(g v1alpha1.Grant, failed *v1alpha1.WorkspaceRun) bool {
	return g.Pass != failed.Pass || g.Attempt > failed.Attempt
}
