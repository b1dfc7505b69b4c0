package controller

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
)

// Only what the runner knows never to have begun is no failure.
func TestLaw7OnlyWhatNeverStartedIsNoFailure(t *testing.T) {
	for name, c := range map[string]struct {
		run   *runnerv1alpha1.Run
		never bool
	}{
		"it never began":              {&runnerv1alpha1.Run{Reason: v1alpha1.ReasonUnschedulable}, true},
		"it began, nobody knows when": {&runnerv1alpha1.Run{Reason: v1alpha1.ReasonInterrupted, Started: true}, false},
		"a runner of before":          {&runnerv1alpha1.Run{Reason: v1alpha1.ReasonApplyFailed, StartedAt: timestamppb.New(began)}, false},
		"it was lost":                 {&runnerv1alpha1.Run{Reason: v1alpha1.ReasonRunLost}, false},
	} {
		c.run.State = runnerv1alpha1.RunState_RUN_STATE_FAILED
		view, err := viewOf(c.run)
		if err != nil || view.NeverStarted != c.never {
			t.Errorf("%s: never started %v, %v", name, view.NeverStarted, err)
		}
	}
}
