package controller

import (
	"strings"
	"testing"

	"magosproject.io/api/v1alpha1"
)

// TestLaw3WhatApprovesNothingIsRemovedAndToldOf: an approval is the ID of the run that waits, to the letter.
func TestLaw3WhatApprovesNothingIsRemovedAndToldOf(t *testing.T) {
	h := newHarness(t)
	id := h.waitsForApproval()
	h.heard("")
	for name, value := range map[string]string{
		"nothing": "", "white space": " \t\n", "the run and a blank": id + " ", "a blank and the run": " " + id, "the run in quotes": `"` + id + `"`,
		"a part of the run": id[:len(id)-1], "more than the run": id + "x", "the run in capitals": strings.ToUpper(id), "an older run": "u-1-old",
		"the word true": "true", "a run of another Workspace": "00000000-0000-0000-0000-000000000000-" + id[strings.LastIndex(id, "-")+1:],
		"the digest of the plan": h.workspace().Status.AwaitingApproval.PlanDigest,
	} {
		t.Run(name, func(t *testing.T) {
			h.edit(func(w *v1alpha1.Workspace) {
				w.Annotations[v1alpha1.AnnotationApproved], w.Annotations[v1alpha1.AnnotationApprovedBy] = value, "ann"
			})
			h.passes(3)
			w := h.workspace()
			for _, key := range []string{v1alpha1.AnnotationApproved, v1alpha1.AnnotationApprovedBy} {
				if _, left := w.Annotations[key]; left {
					t.Errorf("%s is still there", key)
				}
			}
			if told := h.heard(v1alpha1.ReasonApprovalVoid); len(told) != 1 || !strings.Contains(told[0], id) {
				t.Errorf("told %q, want one Event that names the run that waits", told)
			}
			if w.Status.Run.ID != id || w.Status.Run.Phase != v1alpha1.RunPlanned || w.Status.AwaitingApproval == nil || w.Status.Approval != nil {
				t.Errorf("the plan moved: %+v", w.Status)
			}
		})
	}
	h.checkRuns(0)
}
