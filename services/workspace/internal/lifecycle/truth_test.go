package lifecycle

import (
	"fmt"
	"strings"

	"magosproject.io/api/v1alpha1"
)

// checkRecord compares what status is about to claim with what is true.
func (o *world) checkRecord(old, next *v1alpha1.WorkspaceStatus, d Decision) error {
	run := next.Run
	if run == nil {
		return nil
	}
	if d.Action == ActRecordRun {
		if _, used := o.revisions[run.ID]; used {
			return fmt.Errorf("run ID %s is used twice", run.ID)
		}
		if isLive(old.Run) {
			return fmt.Errorf("law 2: run %s is recorded while %s lives", run.ID, old.Run.ID)
		}
		if err := o.checkRecordedDestroy(run); err != nil {
			return err
		}
		if why := standsStill(o.w); why != "" && !isDestroy(run) {
			return fmt.Errorf("law 9: a run is recorded although %s", why)
		}
		if limit := o.w.Spec.Retry.Limit; run.Trigger == v1alpha1.TriggerRetry && limit != nil && old.Failures.Count > *limit && run.Pass == old.Run.Pass && run.Attempt <= old.Run.Attempt {
			return fmt.Errorf("law 8: a run of what failed %d times is recorded although it is tried again %d times only", old.Failures.Count, *limit)
		}
		if run.Trigger != v1alpha1.TriggerDrift && isFailedDriftCheck(old.Run) && next.Failures != nil {
			return fmt.Errorf("run %s begins as a failure, and only a look for drift had failed", run.ID)
		}
		o.revisions[run.ID] = run.Revision
	}
	if old.Run != nil && old.Run.ID == run.ID && old.Run.Phase.Terminal() && old.Run.Phase != run.Phase {
		return fmt.Errorf("an ended run changed its end from %s to %s", old.Run.Phase, run.Phase)
	}
	news := old.Run == nil || old.Run.Phase != run.Phase
	plan, apply := o.jobs[run.ID+"/plan"], o.jobs[run.ID+"/apply"]
	switch {
	case news && run.Phase.Terminal() && (plan.live() || apply.live()):
		return fmt.Errorf("law 10: run %s is recorded as %s while a Job of it lives", run.ID, run.Phase)
	case news && run.Phase == v1alpha1.RunFailed && !o.ran[run.ID+"/"+string(lastHalf(run))]:
		return fmt.Errorf("law 7: run %s counts as failed, and no container of it has run: %s", run.ID, next.Message)
	case news && run.Phase == v1alpha1.RunFailed && o.jobs[run.ID+"/"+string(lastHalf(run))].reason != "":
		return fmt.Errorf("law 8: run %s counts as failed, and the tool only waits", run.ID)
	case news && run.Phase == v1alpha1.RunDiscarded && (apply.state == RunSucceeded || apply.state == RunFailed && !apply.never && apply.reason == ""):
		return fmt.Errorf("law 10: run %s is given up although it was applied", run.ID)
	case news && run.Phase == v1alpha1.RunDiscarded && run.ApplyStartedAt != nil && o.lost[run.ID+"/apply"]:
		return fmt.Errorf("law 10: run %s is given up although its apply was seen and is lost", run.ID)
	case news && run.Phase == v1alpha1.RunSucceeded && apply.state != RunSucceeded && (plan.state != RunSucceeded || !plan.empty):
		return fmt.Errorf("law 10: status claims a success that never was")
	case news && run.Phase == v1alpha1.RunPlanned && plan.state != RunSucceeded:
		return fmt.Errorf("law 10: status claims a plan that never was")
	case next.ObservedRevision != old.ObservedRevision && (!isDestroy(run) || next.ObservedRevision != "" || run.Phase != v1alpha1.RunSucceeded) && (run.Phase != v1alpha1.RunSucceeded || next.ObservedRevision != run.Revision):
		return fmt.Errorf("law 5: observedRevision changed to %s without a success at it", next.ObservedRevision)
	case run.Trigger == v1alpha1.TriggerDrift && proven(old.Applied) != proven(next.Applied):
		return fmt.Errorf("a drift run changed what is proven from %v to %v", proven(old.Applied), proven(next.Applied))
	case next.Phase == v1alpha1.PhaseApplied && next.Applied == nil:
		return fmt.Errorf("law 10: Applied without anything applied")
	case isAwaited(old) && run.Phase == v1alpha1.RunDiscarded && !o.touched:
		return fmt.Errorf("law 6: a waiting plan was given up although nothing discards it: %s", next.Message)
	}
	if isAwaited(next) && !isAwaited(old) {
		o.touched = false
	}
	return nil
}

// proven is what a Rollout reads from what is applied.
func proven(a *v1alpha1.AppliedState) (what struct{ pass, revision, fingerprint string }) {
	if a != nil {
		what.pass, what.revision, what.fingerprint = a.Pass, a.Revision, a.Fingerprint
	}
	return what
}

func lastHalf(run *v1alpha1.WorkspaceRun) Half {
	if run.ApplyRequestedAt != nil {
		return Apply
	}
	return Plan
}

// checkDestroy: a run that is asked for destroys if, and only if, the object that is decided on says so.
func (o *world) checkDestroy(s Snapshot, run *v1alpha1.WorkspaceRun) error {
	w := s.Workspace
	permitted := w.DeletionTimestamp != nil && w.Spec.DeletionPolicy == v1alpha1.DeletionDestroy && w.Annotations[v1alpha1.AnnotationAbandon] != string(w.UID)
	switch {
	case isDestroy(run) != o.destroys[run.ID]:
		return fmt.Errorf("law 9: run %s was recorded to do something else", run.ID)
	case isDestroy(run) && !permitted:
		return fmt.Errorf("law 9: run %s destroys, and nobody asks for that", run.ID)
	case isDestroy(run) && o.blocked:
		return fmt.Errorf("law 9: run %s destroys in a namespace that is being deleted", run.ID)
	}
	return nil
}

// checkRecordedDestroy: only what may have been applied is destroyed.
func (o *world) checkRecordedDestroy(run *v1alpha1.WorkspaceRun) error {
	if !isDestroy(run) {
		return nil
	}
	o.destroys[run.ID] = true
	may := o.w.Status.Applied != nil
	for key := range o.ran {
		id, half, _ := strings.Cut(key, "/")
		may = may || half == string(Apply) && !o.destroys[id]
	}
	if !may {
		return fmt.Errorf("law 9: run %s destroys for a Workspace that never applied anything", run.ID)
	}
	if o.w.DeletionTimestamp == nil || o.w.Spec.Suspend || o.blocked {
		return fmt.Errorf("law 9: run %s is recorded although nothing may be destroyed", run.ID)
	}
	return nil
}

// checkGone: a Workspace that owes a destroy goes only once one has succeeded.
func (o *world) checkGone() error {
	if o.w.Spec.DeletionPolicy != v1alpha1.DeletionDestroy || o.w.Annotations[v1alpha1.AnnotationAbandon] == string(o.w.UID) {
		return nil
	}
	applied, isDone := "", false
	for key, j := range o.jobs {
		id, half, _ := strings.Cut(key, "/")
		switch {
		case o.destroys[id]:
			isDone = isDone || j.state == RunSucceeded && (half == string(Apply) || j.empty)
		case half == string(Apply) && (j.state == RunSucceeded || j.state == RunFailed && !j.never && j.reason == ""):
			applied = id
		}
	}
	if applied != "" && !isDone {
		return fmt.Errorf("law 9: the Workspace goes although run %s applied something and nothing has destroyed it", applied)
	}
	return nil
}
