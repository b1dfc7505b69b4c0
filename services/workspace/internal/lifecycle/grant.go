package lifecycle

import "magosproject.io/api/v1alpha1"

// granted returns the grant on the object version that is decided on. Without its Project a Workspace has none.
func granted(s Snapshot) (v1alpha1.Grant, bool) {
	if !s.ProjectFound {
		return v1alpha1.Grant{}, false
	}
	return v1alpha1.ReadGrant(s.Workspace, s.Ordered)
}

// covers reports whether g permits run to go on as it was recorded.
func covers(g v1alpha1.Grant, run *v1alpha1.WorkspaceRun) bool {
	sameCommit := g.Revision == "" || g.Revision == run.Revision
	enough := g.Scope == v1alpha1.ScopeRun || run.Scope == v1alpha1.ScopeDrift
	return g.Pass == run.Pass && sameCommit && enough
}

// coversDrift reports whether g permits a drift plan of what is applied: at that commit and no other.
func coversDrift(g v1alpha1.Grant, applied *v1alpha1.AppliedState) bool {
	if g.Scope == v1alpha1.ScopeRun && g.Revision == "" {
		return true
	}
	return g.Revision == applied.Revision
}
