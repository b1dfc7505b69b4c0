package lifecycle

import (
	"strconv"
	"strings"
	"time"

	"magosproject.io/api/v1alpha1"
)

// nextRunID makes the ID of the next run of w: its UID and the time. It is later than that of the run before even
// where the clock was set back or two runs begin in the same millisecond, so that no ID is ever used twice.
func nextRunID(w *v1alpha1.Workspace, now time.Time) string {
	stamp := now.UnixMilli()
	if w.Status.Run != nil {
		if last, ok := runStamp(w.Status.Run.ID); ok {
			stamp = max(stamp, last+1)
		}
	}
	return string(w.UID) + "-" + strconv.FormatInt(stamp, 36)
}

func runStamp(id string) (int64, bool) {
	stamp, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 36, 64)
	return stamp, err == nil
}

// mint is the decision to record a new run.
func mint(s Snapshot, g v1alpha1.Grant, trigger v1alpha1.Trigger, revision string) Decision {
	w := s.Workspace
	return Decision{
		Action: ActRecordRun,
		Run: &v1alpha1.WorkspaceRun{
			ID: nextRunID(w, s.Now), Trigger: trigger, Pass: g.Pass, Scope: g.Scope, Attempt: g.Attempt, Revision: revision,
			Fingerprint: s.Inputs.Fingerprint.String(), AutoApply: w.AppliesAutomatically(),
			Request: w.Annotations[v1alpha1.AnnotationReconcileRequest],
			Phase:   v1alpha1.RunPlanning, StartedAt: stamp(s), Setbacks: setbacks(s, revision),
		},
		Phase: v1alpha1.PhasePending, Reason: v1alpha1.ReasonRunPending, Message: "the plan of " + short(revision) + " is about to start",
	}
}

// short is how people write a commit.
func short(revision string) string {
	if len(revision) > 10 {
		return revision[:10]
	}
	return revision
}
