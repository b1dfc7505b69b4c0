package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// GrantScope says how far a granted run may go.
type GrantScope string

// The scopes of a grant.
const (
	// ScopeRun: plan and apply.
	ScopeRun GrantScope = "Run"
	// ScopePlan: plan; what it finds waits (AwaitingBudget) until the scope becomes Run.
	ScopePlan GrantScope = "Plan"
	// ScopeDrift: plan only, at the applied commit; what it finds waits until the scope becomes Run.
	ScopeDrift GrantScope = "Drift"
)

// StandingPass is the pass of a grant that holds while no Rollout orders the Project.
const StandingPass = "standing"

// Grant is the permission to run that the rollout service gives to one Workspace.
// The zero value permits nothing.
type Grant struct {
	// Scope is how far the run may go.
	Scope GrantScope
	// Pass is the ID of the pass, or StandingPass.
	Pass string
	// Revision is the commit that the run must use; empty leaves it to the detected revision.
	Revision string
	// For is the GrantSubject that was granted.
	For string
	// Attempt numbers the fresh attempts of a pass: a run that failed under a lower number is tried again at once. 0 is the first run.
	Attempt int32
}

// GrantSubject identifies what a grant for w is a grant for. A Workspace that was pointed at another
// repository or revision since has another subject, and its old grant permits nothing.
func GrantSubject(w *Workspace) string {
	sum := sha256.New()
	for _, part := range []string{w.Spec.ProjectRef.Name, w.Spec.Source.RepoURL, w.Spec.Source.TargetRevision} {
		sum.Write([]byte(part))
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Annotations returns the complete set of grant annotations for g.
func (g Grant) Annotations() map[string]string {
	a := map[string]string{
		AnnotationExecutionAllowed: "true",
		AnnotationGrantedScope:     string(g.Scope),
		AnnotationGrantedPass:      g.Pass,
		AnnotationGrantedFor:       g.For,
	}
	if g.Revision != "" {
		a[AnnotationGrantedRevision] = g.Revision
	}
	if g.Attempt > 0 {
		a[AnnotationGrantedAttempt] = strconv.Itoa(int(g.Attempt))
	}
	return a
}

// GrantAnnotations lists every annotation that a grant can consist of. Revoking removes all of them.
func GrantAnnotations() []string {
	return []string{
		AnnotationExecutionAllowed, AnnotationGrantedScope, AnnotationGrantedPass,
		AnnotationGrantedRevision, AnnotationGrantedFor, AnnotationGrantedAttempt,
	}
}

// ReadGrant returns the grant that w holds, and whether it holds one. A grant that is incomplete, has an
// unknown scope or an attempt that is no number, or was given for another subject is none. A bare execution-allowed: "true", which people may set
// by hand, means ScopeRun, but only while nothing orders the
// Project (ordered is false: it has no Rollout and does not ask for one).
func ReadGrant(w *Workspace, ordered bool) (Grant, bool) {
	a := w.Annotations
	if a[AnnotationExecutionAllowed] != "true" {
		return Grant{}, false
	}
	g := Grant{
		Scope:    GrantScope(a[AnnotationGrantedScope]),
		Pass:     a[AnnotationGrantedPass],
		Revision: a[AnnotationGrantedRevision],
		For:      a[AnnotationGrantedFor],
	}
	if g == (Grant{}) {
		if ordered {
			return Grant{}, false
		}
		return Grant{Scope: ScopeRun, Pass: StandingPass, For: GrantSubject(w)}, true
	}
	if attempt := a[AnnotationGrantedAttempt]; attempt != "" {
		n, err := strconv.ParseInt(attempt, 10, 32)
		if err != nil || n < 1 {
			return Grant{}, false
		}
		g.Attempt = int32(n)
	}
	known := g.Scope == ScopeRun || g.Scope == ScopePlan || g.Scope == ScopeDrift
	if !known || g.Pass == "" || g.For != GrantSubject(w) {
		return Grant{}, false
	}
	if ordered && (g.Pass == StandingPass || g.Revision == "") {
		return Grant{}, false
	}
	return g, true
}

// DetectedRevision returns the commit that the refwatcher found for the present source of w, empty where it found none yet.
// A commit that was found for what the source was before an edit does not count.
func DetectedRevision(w *Workspace) string {
	if w.Annotations[AnnotationDetectedFor] != GrantSubject(w) {
		return ""
	}
	return w.Annotations[AnnotationDetectedRevision]
}
