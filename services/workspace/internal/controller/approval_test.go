package controller

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
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

// The runner finds nothing to read of a plan that somebody has approved: it is not applied, and status says why and plans again.
func TestLaw3AnApprovedPlanWhoseRecordIsGoneIsPlannedAgain(t *testing.T) {
	h := newHarness(t)
	id := h.waitsForApproval()
	gone := rpcerr.New(codes.FailedPrecondition, rpcerr.ReviewUnavailable, "the configmap is gone")
	h.runner.RefuseOnly("StartRun apply", gone)
	h.annotate(v1alpha1.AnnotationApproved, id)
	w := h.until("given up", func(w *v1alpha1.Workspace) bool { return w.Status.Run.Phase.Terminal() })
	if st := w.Status; st.Run.ID != id || st.Run.Reason != v1alpha1.ReasonPlanUnreadable || !strings.Contains(st.Message, "the configmap is gone") || st.ObservedRevision != "" {
		t.Errorf("%s/%s %q, run %+v", st.Phase, st.Reason, st.Message, st.Run)
	}
	h.runner.Refuse(nil)
	w = h.until("awaiting approval again", func(w *v1alpha1.Workspace) bool { return w.Status.AwaitingApproval != nil })
	if w.Status.Run.ID == id {
		t.Errorf("the same plan is offered again: %+v", w.Status.Run)
	}
}

// A plan that the runner cannot show is not offered, in the runner's words.
func TestWhatTheRunnerCannotShowIsNotOffered(t *testing.T) {
	h := newHarness(t)
	off := false
	w := standing()
	w.Spec.AutoApply = &off
	h.create(project(), w)
	id := h.until("asked for", isAskedFor).Status.Run.ID
	h.runner.Succeed("plan "+id, false)
	h.runner.Set("plan "+id, func(run *runnerv1alpha1.Run) {
		run.Plan.Reviewable, run.Plan.UnreviewableBecause = false, "its log was rotated away"
	})
	w = h.until("given up", func(w *v1alpha1.Workspace) bool { return w.Status.Run.Phase.Terminal() })
	if st := w.Status; st.AwaitingApproval != nil || st.Reason != v1alpha1.ReasonPlanUnreadable || !strings.Contains(st.Message, "its log was rotated away") {
		t.Errorf("%s/%s %q", st.Phase, st.Reason, st.Message)
	}
}
