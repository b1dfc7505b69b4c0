package lifecycle

import (
	"hash/fnv"
	"time"

	"magosproject.io/api/v1alpha1"
)

// DriftPause is when a drift plan that is held is thought of again, at the earliest.
const DriftPause = 15 * time.Second

// driftDue is when reality is to be compared again. It follows from what is recorded and from the UID alone, so that a
// restart neither hurries nor bunches the drift plans of many Workspaces.
func driftDue(w *v1alpha1.Workspace) time.Time {
	interval := ReconcileInterval(w)
	due := w.Status.Applied.At.Add(interval)
	if f := w.Status.Failures; f != nil && isFailedDriftCheck(w.Status.Run) {
		due = f.LastAt.Add(max(interval, backOff(w, f.Count)))
	}
	if run := w.Status.Run; isCancelled(run) && run.Trigger == v1alpha1.TriggerDrift && run.FinishedAt.Add(interval).After(due) {
		due = run.FinishedAt.Add(interval)
	}
	return due.Add(jitter(string(w.UID), interval))
}

// jitter is at most a tenth of the interval, and always the same for the same UID.
func jitter(uid string, interval time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(uid))
	return time.Duration(h.Sum64() % uint64(interval/10+1))
}

// DriftDue is when the next drift plan of w is due; ok is false for a Workspace that has none.
func DriftDue(w *v1alpha1.Workspace) (at time.Time, ok bool) {
	if w.Status.Applied == nil {
		return time.Time{}, false
	}
	return driftDue(w), true
}

// IsDriftPlan reports whether the run of w is a drift plan that has not ended.
func IsDriftPlan(w *v1alpha1.Workspace) bool {
	run := w.Status.Run
	return run != nil && run.Trigger == v1alpha1.TriggerDrift && run.Phase == v1alpha1.RunPlanning
}

// isDriftDue: a suspended Workspace is not looked at, so it asks for no grant to do so.
func isDriftDue(s Snapshot) bool {
	w := s.Workspace
	return w.Status.Applied != nil && !w.Spec.Suspend && !s.Now.Before(driftDue(w))
}

// driftHeld is the answer for a drift plan that has to wait for a place. Status does not tell of it: it would be written for
// every Workspace that waits.
func driftHeld(s Snapshot) Decision {
	d := rest(s, "")
	d.Requeue = DriftPause + jitter(string(s.Workspace.UID), DriftPause*10)
	return d
}

// makesWay reports whether the drift plan of the present run keeps a run waiting that a person waits for. Nothing is lost
// when it is given up: it changes nothing, and what it looks for is looked for again.
func makesWay(s Snapshot) bool {
	if !IsDriftPlan(s.Workspace) || len(s.Inputs.Unresolved) > 0 {
		return false
	}
	g, ok := granted(s)
	if !ok || !permitsPlan(g) {
		return false
	}
	return hasFreshRequest(s.Workspace) || difference(s, commit(s, g)) != ""
}

const whyMakesWay = "the drift plan makes way for a run that somebody waits for"

// drifted is what status is to say of the drift that a plan has found.
func drifted(run *v1alpha1.WorkspaceRun, plan *PlanView, s Snapshot) *v1alpha1.Drift {
	if run.Trigger != v1alpha1.TriggerDrift && plan.DriftedTotal == 0 {
		return s.Workspace.Status.Drift
	}
	const longest = 20
	return &v1alpha1.Drift{
		DetectedAt: stamp(s), RunID: run.ID,
		Resources: plan.Drifted[:min(len(plan.Drifted), longest)], Total: max(plan.DriftedTotal, int32(min(len(plan.Drifted), longest))),
	}
}
