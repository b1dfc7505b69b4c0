package progression

import "magosproject.io/api/v1alpha1"

// superseded reports whether the pass makes way for the next: its steps were edited, or a commit is newer than its own.
// Only a pass that is stuck does: nothing of its step runs, and a member has failed, is overdue or was cancelled, or has no commit, or there is no member, or the pass itself is overdue.
// With onNewRevision Restart a new commit needs no stuck pass: what runs of the old one loses its grant, so that a plan is not applied any more, and an apply is let end.
func (w *walk) superseded(c current, members cohorts) bool {
	if w.hold != nil {
		return false
	}
	if w.rollout.Spec.Strategy.OnNewRevision == v1alpha1.NewRevisionRestart && w.usableSteps() && w.newCommit(members) {
		return true
	}
	stuck := len(c.members) == 0 || c.count(failed)+c.count(overdue) > 0 || w.refused(c) || w.late || len(w.cancelled(c)) > 0
	if !stuck || c.live() {
		return false
	}
	return w.usableSteps() && (!sameSteps(w.rollout.Spec.Strategy.Steps, w.status.Pass.Steps) || w.newCommit(members))
}

// usableSteps reports whether a pass could begin with the steps of the spec.
func (w *walk) usableSteps() bool {
	steps := w.rollout.Spec.Strategy.Steps
	_, err := assign(steps, nil)
	return err == nil && checkSteps(steps) == nil
}

// cancelled names the members of the step that rest because a person cancelled their run, and were given no fresh attempt since.
func (w *walk) cancelled(c current) []string {
	var names []string
	for i, m := range c.members {
		if c.standings[i] == waiting && wasCancelled(m, w.status.Pass.ID) && w.hasSpent(c, i) {
			names = append(names, m.Name)
		}
	}
	return names
}

// commitAfterAbort reports whether there is a commit that the aborted pass did not have: where it had one for a Workspace, the remote has to confirm
// another, else the Workspace began to want it later. A Workspace whose target revision was edited since is one for which the pass had none.
func (w *walk) commitAfterAbort(members cohorts) bool {
	if w.newCommit(members) {
		return true
	}
	for _, m := range members.outside(-1) {
		if w.recorded(KeyOf(m)) == "" && w.wantsSinceAbort(m) && w.confirmed(m) {
			return true
		}
	}
	return false
}

// wantsSinceAbort reports whether m has come to want a commit that is known since the pass was aborted.
func (w *walk) wantsSinceAbort(m *v1alpha1.Workspace) bool {
	want := m.Status.Wants
	if want == nil || want.Revision == "" || !want.Since.After(w.status.Pass.FinishedAt.Time) {
		return false
	}
	return want.Trigger == v1alpha1.TriggerRevision || want.Trigger == v1alpha1.TriggerSpec
}

// refused reports whether the refwatcher has no commit for a member of the step.
func (w *walk) refused(c current) bool {
	for i, m := range c.members {
		if _, answered := w.unanswered[KeyOf(m)]; answered && c.standings[i] == unpinned {
			return true
		}
	}
	return false
}

// newCommit reports whether a commit is newer than the pin of the pass. The annotation of a member only hints at it,
// for it can be older than the pin, which was asked for when the pass began: the remote has to confirm it.
func (w *walk) newCommit(members cohorts) bool {
	for _, m := range members.outside(-1) {
		key := KeyOf(m)
		pin, hint := w.recorded(key), v1alpha1.DetectedRevision(m)
		if pin == "" || hint == "" || hint == pin {
			continue
		}
		answer, answered := w.resolved[key]
		if answered && answer.Revision != "" && answer.Revision != pin {
			return true
		}
		if !answered {
			w.need(PinRequest{Key: key, Member: m.Name, Hint: hint})
		}
	}
	return false
}

// recorded returns the commit that the pass has for a key, empty while there is none.
func (w *walk) recorded(key Key) string {
	for _, r := range w.status.Pass.Revisions {
		if r.RepoURL == key.RepoURL && r.TargetRevision == key.TargetRevision {
			return r.Revision
		}
	}
	return ""
}

// pin returns the commit of the pass for m. A key that has none yet takes the refwatcher's answer, or
// asks for it; the first answer stands for the whole pass.
func (w *walk) pin(m *v1alpha1.Workspace) string {
	key := KeyOf(m)
	if revision := w.recorded(key); revision != "" {
		return revision
	}
	answer, answered := w.resolved[key]
	switch {
	case !answered:
		w.need(PinRequest{Key: key, Member: m.Name})
		return ""
	case answer.Revision == "":
		w.unanswered[key] = answer
		return ""
	}
	w.status.Pass.Revisions = append(w.status.Pass.Revisions, v1alpha1.PinnedRevision{
		RepoURL: key.RepoURL, TargetRevision: key.TargetRevision, Revision: answer.Revision,
	})
	return answer.Revision
}

// need asks once per key.
func (w *walk) need(request PinRequest) {
	for _, n := range w.needs {
		if n.Key == request.Key {
			return
		}
	}
	w.needs = append(w.needs, request)
}
