package progression

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"magosproject.io/api/v1alpha1"
)

// standing is where a member of the current step stands in the present pass.
type standing int

const (
	// unpinned has no commit yet.
	unpinned standing = iota
	// waiting has not begun, or says nothing yet about what it is granted.
	waiting
	// running has a live run.
	running
	// failed stops the pass until it is healed.
	failed
	// overdue has not become done by its deadline, and stops the pass until it does.
	overdue
	// retrying has failed, or was overdue, and been given a fresh attempt that has not ended.
	retrying
	// passedOver has failed or is overdue, and the pass goes on without it.
	passedOver
	// done has what the pass brings.
	done
)

// standingOf judges by what the run and the proof in applied say, never by status.phase.
// A failure counts before a proof: the proof may be older.
func standingOf(m *v1alpha1.Workspace, pass, pin string) standing {
	switch {
	case pin == "":
		return unpinned
	case runFailed(m, pass, pin):
		return failed
	case isLive(m) && !isDriftRun(m):
		return running
	case isDone(m, pass, pin):
		return done
	case inputsMissing(m):
		return failed
	case isLive(m):
		return running
	}
	return waiting
}

// isLive reports whether a run was recorded that is not terminal.
func isLive(m *v1alpha1.Workspace) bool {
	return m.Status.Run != nil && !m.Status.Run.Phase.Terminal()
}

// wasCancelled reports whether a person gave up m's last run of the pass before it changed anything. The same inputs then rest, and nothing of the pass
// brings them back. An apply that was cancelled has failed, and counts as that.
func wasCancelled(m *v1alpha1.Workspace, pass string) bool {
	run := m.Status.Run
	return run != nil && run.Phase == v1alpha1.RunDiscarded && run.CancelledAt != nil && run.Pass == pass && !isDriftRun(m)
}

// isDriftRun reports whether the present or last run only looked for drift.
func isDriftRun(m *v1alpha1.Workspace) bool {
	return m.Status.Run != nil && m.Status.Run.Trigger == v1alpha1.TriggerDrift
}

// runFailed reports whether the commit of the pass has failed for m and has not succeeded since, also
// while a further attempt runs. A drift plan that failed is a condition of its own and no failure; a drift apply that failed is one.
func runFailed(m *v1alpha1.Workspace, pass, pin string) bool {
	run, failures := m.Status.Run, m.Status.Failures
	if run != nil && isDriftRun(m) && run.ApplyRequestedAt == nil {
		return false
	}
	if failures != nil && failures.Count > 0 && failures.Revision == pin {
		return true
	}
	return run != nil && run.Phase == v1alpha1.RunFailed && run.Pass == pass && run.Revision == pin
}

// inputsMissing reports whether m cannot begin for want of a variable.
func inputsMissing(m *v1alpha1.Workspace) bool {
	return meta.IsStatusConditionFalse(m.Status.Conditions, v1alpha1.ConditionInputsResolved)
}

// isDone reports whether m has the commit of the pass and was brought to it by the pass, which no drift run claims, or wants
// nothing at it.
func isDone(m *v1alpha1.Workspace, pass, pin string) bool {
	a := m.Status.Applied
	if a == nil || a.Revision != pin {
		return false
	}
	if a.Pass == pass {
		return true
	}
	return !wantsAtPin(m) && m.Status.ObservedGeneration == m.Generation
}

// wantsAtPin reports whether m, whose applied commit is that of the pass, wants more at this commit. A want of
// another commit is for the next pass: it also comes back as soon as the grant, which pins the commit, is taken.
func wantsAtPin(m *v1alpha1.Workspace) bool {
	want := m.Status.Wants
	return want != nil && want.Trigger != v1alpha1.TriggerDrift && !wantsCommit(m)
}

// wantsCommit reports whether all that m wants is another commit than the applied one, or a further attempt at one. A want for the
// applied commit itself is more: a run that was given up, or failed, and is owed. So is one of other inputs, of which the trigger
// names the commit alone where both have changed.
func wantsCommit(m *v1alpha1.Workspace) bool {
	want, a := m.Status.Wants, m.Status.Applied
	if want == nil || a == nil || want.Revision == a.Revision || !sameInputs(want.Fingerprint, a.Fingerprint) {
		return false
	}
	return want.Trigger == v1alpha1.TriggerRevision || want.Trigger == v1alpha1.TriggerRetry
}

// sameInputs reports whether what is wanted differs in its commit at most from what is applied. Variables that cannot be known yet, for which
// the fingerprint has nothing behind its hyphen, count as those that are applied, as they do for the want itself.
func sameInputs(wanted, applied string) bool {
	return wanted == applied || wanted == "" || strings.HasSuffix(wanted, "-") && strings.HasPrefix(applied, wanted)
}

// wantsRun reports whether m wants something that a pass brings. A run that began under an earlier grant and
// has not come to its apply counts: without a grant it would be parked for ever.
func wantsRun(m *v1alpha1.Workspace) bool {
	if isLive(m) && !isDriftRun(m) && m.Status.Run.Phase != v1alpha1.RunApplying {
		return true
	}
	return m.Status.Wants != nil && m.Status.Wants.Trigger != v1alpha1.TriggerDrift
}

// wantsDrift reports whether a drift plan is due or runs.
func wantsDrift(m *v1alpha1.Workspace) bool {
	if isLive(m) {
		return isDriftRun(m)
	}
	return m.Status.Wants != nil && m.Status.Wants.Trigger == v1alpha1.TriggerDrift
}

// driftGrant returns the grant for m's drift plan, or for the apply of what it found, and whether there is one.
// A live run keeps the pass and commit that it began with. What it found is applied only while no pass
// is moving: the apply could get in the way of a step.
func driftGrant(m *v1alpha1.Workspace, pass string, moving bool) (v1alpha1.Grant, bool) {
	if !wantsDrift(m) || m.Status.Applied == nil {
		return v1alpha1.Grant{}, false
	}
	g := v1alpha1.Grant{
		Scope: v1alpha1.ScopeDrift, Pass: pass, Revision: m.Status.Applied.Revision, For: v1alpha1.GrantSubject(m),
	}
	run := m.Status.Run
	if !isLive(m) {
		return g, true
	}
	g.Revision = run.Revision
	if run.Pass != v1alpha1.StandingPass {
		g.Pass = run.Pass
	}
	if !moving && (run.Phase == v1alpha1.RunPlanned || run.Phase == v1alpha1.RunApplying) {
		g.Scope = v1alpha1.ScopeRun
	}
	return g, true
}
