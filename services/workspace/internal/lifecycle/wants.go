package lifecycle

import "magosproject.io/api/v1alpha1"

// wanted is what the Workspace would run if it were granted; nil means nothing.
func wanted(s Snapshot) *v1alpha1.Want {
	w := s.Workspace
	if w.DeletionTimestamp != nil {
		return nil
	}
	revision := v1alpha1.DetectedRevision(w)
	trigger := triggerAt(s, revision)
	// A pass may already know a newer commit than the watcher has seen. It counts, or the pass would wait for the next poll.
	if g, ok := granted(s); ok && permitsPlan(g) && g.Revision != "" && (trigger == "" || trigger == v1alpha1.TriggerDrift) {
		if t := triggerAt(s, g.Revision); t != "" && t != v1alpha1.TriggerDrift {
			trigger, revision = t, g.Revision
		}
	}
	if trigger == "" {
		return nil
	}
	if trigger == v1alpha1.TriggerDrift {
		revision = w.Status.Applied.Revision
	}
	want := &v1alpha1.Want{Trigger: trigger, Revision: revision, Fingerprint: s.Inputs.Fingerprint.String(), Since: stamp(s)}
	if old := w.Status.Wants; old != nil && old.Trigger == want.Trigger && old.Revision == want.Revision && old.Fingerprint == want.Fingerprint {
		want.Since = old.Since
	}
	return want
}

// triggerAt is why the Workspace would run if target were the commit to use; empty where there is no reason.
// target may be empty while no commit is known.
func triggerAt(s Snapshot, target string) v1alpha1.Trigger {
	st := &s.Workspace.Status
	if isLive(st.Run) {
		if t := difference(s, target); t != "" {
			return t
		}
		return st.Run.Trigger
	}
	if isFailing(s.Workspace) {
		return triggerAfterFailure(s, target)
	}
	if t := difference(s, target); t != "" {
		return t
	}
	switch {
	case hasFreshRequest(s.Workspace):
		return v1alpha1.TriggerManual
	case st.Run != nil && st.Run.Phase == v1alpha1.RunDiscarded && st.Run.Trigger != v1alpha1.TriggerDrift:
		// What was asked for once and consumed is owed until a run has ended.
		return st.Run.Trigger
	case isDriftDue(s):
		return v1alpha1.TriggerDrift
	}
	return ""
}

func triggerAfterFailure(s Snapshot, target string) v1alpha1.Trigger {
	if hasFreshRequest(s.Workspace) {
		return v1alpha1.TriggerManual
	}
	if failedAlready(s, target) {
		return v1alpha1.TriggerRetry
	}
	if t := difference(s, target); t != "" {
		return t
	}
	// Back to what was applied before: the failed run may have changed something on its way.
	f := s.Workspace.Status.Failures
	failed := ParseFingerprint(f.Fingerprint)
	switch {
	case s.Inputs.Fingerprint.Spec != failed.Spec:
		return v1alpha1.TriggerSpec
	case target != "" && target != f.Revision:
		return v1alpha1.TriggerRevision
	}
	return v1alpha1.TriggerVariables
}

// difference is what differs between what is applied and what would be run at target.
func difference(s Snapshot, target string) v1alpha1.Trigger {
	applied := s.Workspace.Status.Applied
	if applied == nil {
		return v1alpha1.TriggerSpec
	}
	now, then := s.Inputs.Fingerprint, ParseFingerprint(applied.Fingerprint)
	switch {
	case now.Spec != then.Spec:
		return v1alpha1.TriggerSpec
	case target != "" && target != applied.Revision:
		return v1alpha1.TriggerRevision
	case s.Inputs.Known() && now.Variables != then.Variables:
		return v1alpha1.TriggerVariables
	}
	return ""
}

// failedAlready reports whether the inputs, with target as the commit, are those that failed last.
func failedAlready(s Snapshot, target string) bool {
	f := s.Workspace.Status.Failures
	failed := ParseFingerprint(f.Fingerprint)
	sameVariables := !s.Inputs.Known() || s.Inputs.Fingerprint.Variables == failed.Variables
	return s.Inputs.Fingerprint.Spec == failed.Spec && sameVariables && (target == "" || target == f.Revision)
}

// hasFreshRequest reports whether somebody asked for a run that no run has answered.
func hasFreshRequest(w *v1alpha1.Workspace) bool {
	request := w.Annotations[v1alpha1.AnnotationReconcileRequest]
	return request != "" && request != w.Status.HandledRequest
}

func isLive(run *v1alpha1.WorkspaceRun) bool {
	return run != nil && !run.Phase.Terminal()
}

// isFailedDriftCheck reports whether run was a drift plan that could not be made. One that failed while it applied what it
// had found is an ordinary failure: something may have changed.
func isFailedDriftCheck(run *v1alpha1.WorkspaceRun) bool {
	return run != nil && run.Phase == v1alpha1.RunFailed && run.Trigger == v1alpha1.TriggerDrift && run.ApplyRequestedAt == nil
}

// isFailing reports whether the last run of w failed in a way that holds the Workspace back.
func isFailing(w *v1alpha1.Workspace) bool {
	run := w.Status.Run
	return run != nil && run.Phase == v1alpha1.RunFailed && w.Status.Failures != nil && !isFailedDriftCheck(run)
}
