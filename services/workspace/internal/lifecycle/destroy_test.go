package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

// TestWhatMayHaveBeenAppliedIsOwedADestroy: an apply that failed half-way leaves infrastructure, also where the status is that of a
// release that did not record which run was applied last.
func TestWhatMayHaveBeenAppliedIsOwedADestroy(t *testing.T) {
	now := metav1.Now()
	applied := &v1alpha1.AppliedState{RunID: "a", Revision: "1"}
	half := &v1alpha1.WorkspaceRun{ID: "b", Revision: "2", Phase: v1alpha1.RunFailed, ApplyRequestedAt: &now}
	for name, test := range map[string]struct {
		status v1alpha1.WorkspaceStatus
		want   string
	}{
		"nothing ever ran":                         {},
		"a plan failed":                            {status: v1alpha1.WorkspaceStatus{Run: &v1alpha1.WorkspaceRun{ID: "b", Phase: v1alpha1.RunFailed}}},
		"a plan was given up":                      {status: v1alpha1.WorkspaceStatus{Run: &v1alpha1.WorkspaceRun{ID: "b", Phase: v1alpha1.RunDiscarded}}},
		"something was applied":                    {status: v1alpha1.WorkspaceStatus{Applied: applied}, want: "a"},
		"the first apply failed":                   {status: v1alpha1.WorkspaceStatus{Run: half}, want: "b"},
		"a later apply failed":                     {status: v1alpha1.WorkspaceStatus{Applied: applied, Run: half}, want: "b"},
		"a plan failed after something applied":    {status: v1alpha1.WorkspaceStatus{Applied: applied, Run: &v1alpha1.WorkspaceRun{ID: "b", Phase: v1alpha1.RunFailed}}, want: "a"},
		"which run it was is recorded":             {status: v1alpha1.WorkspaceStatus{Applied: applied, LastApply: &v1alpha1.LastApply{RunID: "c"}, Run: half}, want: "c"},
		"the destroy failed, and nothing else was": {status: v1alpha1.WorkspaceStatus{Run: &v1alpha1.WorkspaceRun{ID: "b", Phase: v1alpha1.RunFailed, ApplyRequestedAt: &now, Trigger: v1alpha1.TriggerDestroy}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: test.status}
			w.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
			last, _ := LastApply(w)
			if last.RunID != test.want || OwesDestroy(w) != (test.want != "") {
				t.Errorf("run %q was applied last, and a destroy is owed: %t; want run %q", last.RunID, OwesDestroy(w), test.want)
			}
			w.Spec.DeletionPolicy = v1alpha1.DeletionRetain
			if OwesDestroy(w) {
				t.Error("a destroy is owed although what was applied is to be retained")
			}
		})
	}
}

// TestADestroyThatWasGivenUpIsToldOfAsBlocked: nothing goes on by itself after a cancel.
func TestADestroyThatWasGivenUpIsToldOfAsBlocked(t *testing.T) {
	now := metav1.Now()
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{UID: "u", DeletionTimestamp: &now}}
	w.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
	w.Status.LastApply = &v1alpha1.LastApply{RunID: "a", Revision: "1"}
	st := w.Status.DeepCopy()
	st.Run = &v1alpha1.WorkspaceRun{ID: "b", Phase: v1alpha1.RunDiscarded, Trigger: v1alpha1.TriggerDestroy, CancelledAt: &now, Reason: v1alpha1.ReasonCancelled}
	destroyBlocked(st, Snapshot{Workspace: w, Destroy: &Destruction{}})
	if len(st.Conditions) != 1 {
		t.Fatalf("conditions %+v", st.Conditions)
	}
	c := st.Conditions[0]
	if c.Type != v1alpha1.ConditionDestroyBlocked || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonCancelled || !strings.Contains(c.Message, v1alpha1.AnnotationAbandon) {
		t.Errorf("condition %+v", c)
	}
}
