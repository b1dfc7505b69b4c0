package lifecycle

import (
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

// The tests of law 7: a run has started when a container of it has run, and what has not counts as no failure.

func pendingPlan(t *testing.T) (*world, string) {
	t.Helper()
	o := scenes(t)["plan pending"]
	run := o.w.Status.Run
	if j := o.jobs[run.ID+"/plan"]; j.state != RunPending || run.PlanStartedAt == nil {
		t.Fatalf("the plan is %s: %+v", j.state, run)
	}
	return o, run.ID
}

func pendingApply(t *testing.T) (*world, string) {
	t.Helper()
	o := scenes(t)["apply pending"]
	pass(t, o)
	run := o.w.Status.Run
	if j := o.jobs[run.ID+"/apply"]; j.state != RunPending || run.ApplyStartedAt == nil {
		t.Fatalf("the apply is %s: %+v", j.state, run)
	}
	return o, run.ID
}

// A pass that sees a half as pending may be late: whatever makes it give the half up, one that has started by then goes on.
// Only a person's cancel ends it, and a drift plan for which somebody waits.
func TestLaw9GivingUpWhatHasNotStartedLeavesWhatHasAlone(t *testing.T) {
	for half, build := range map[Half]func(*testing.T) (*world, string){Plan: pendingPlan, Apply: pendingApply} {
		for name, do := range map[string]func(*world){
			"the spec is edited":    func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ },
			"a run is requested":    func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "again" },
			"it is suspended":       func(o *world) { o.w.Spec.Suspend = true; o.w.Generation++ },
			"it is deleted":         func(o *world) { at := stamp(o.snapshot(o.w)); o.w.DeletionTimestamp = &at },
			"its time is over":      func(o *world) { o.now = o.now.Add(StartDeadline) },
			"its Job is not there":  func(o *world) { clear(o.jobs); o.w.Status.Run.ApplyStartedAt = nil },
			"a person cancelled it": func(o *world) { at := stamp(o.snapshot(o.w)); o.w.Status.Run.CancelledAt = &at },
		} {
			o, id := build(t)
			do(o)
			o.touched = true
			d := Decide(o.snapshot(o.w.DeepCopy()))
			if d.Action != ActCancelRun {
				t.Fatalf("%s: %s: %s", half, name, d.Action)
			}
			o.jobs[id+"/"+string(half)] = job{state: RunRunning}
			o.cancelRun(d.Run.ID, d.Half, d.Interrupts)
			if ended := o.jobs[id+"/"+string(half)].ending; ended != (name == "a person cancelled it") {
				t.Errorf("%s: %s: the pod that runs is asked to end: %t", half, name, ended)
			}
			if after := Cancelled(o.snapshot(o.w), d, *o.view(id, half)); after.Action != ActNone || after.Run != nil {
				t.Errorf("%s: %s: %s records %+v while its pod runs", half, name, after.Action, after.Run)
			}
		}
	}
}

func TestLaw7WhatNeverStartedIsNoFailureAndHoldsNothingUp(t *testing.T) {
	for half, build := range map[Half]func(*testing.T) (*world, string){Plan: pendingPlan, Apply: pendingApply} {
		for name, c := range map[string]struct {
			do    func(*world)
			pause time.Duration
			gone  bool
		}{
			"the Workspace is deleted": {do: func(o *world) { now := stamp(o.snapshot(o.w)); o.w.DeletionTimestamp = &now }, gone: true},
			"the spec is edited":       {do: func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ }},
			"a run is requested":       {do: func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now" }},
			"it takes too long":        {do: func(o *world) { o.now = o.now.Add(StartDeadline) }, pause: setbackPause},
		} {
			t.Run(string(half)+", "+name, func(t *testing.T) {
				o, id := build(t)
				c.do(o)
				o.version++
				pass(t, o, noFault, noFault)
				if st := o.w.Status; st.Run.ID != id || st.Run.Phase.Terminal() {
					t.Fatalf("the run is over before its Job is: %+v", st.Run)
				}
				_ = podStarts(o)
				_ = jobEnds(o, job{state: RunSucceeded})
				if j := o.jobs[id+"/"+string(half)]; j.state != RunVoid {
					t.Fatalf("the %s was not cancelled: %+v", half, j)
				}
				pass(t, o)
				if st := o.w.Status; st.Run.Phase != v1alpha1.RunDiscarded || st.Failures != nil {
					t.Fatalf("run %+v, failures %+v", st.Run, st.Failures)
				}
				if pass(t, o); c.gone != o.gone {
					t.Fatalf("gone: %t", o.gone)
				}
				if c.pause > 0 {
					if o.w.Status.Run.ID != id {
						t.Fatal("the next run begins without a rest")
					}
					o.now = o.now.Add(c.pause)
					pass(t, o)
				}
				if !c.gone && (o.w.Status.Run.ID == id || o.w.Status.Run.Phase != v1alpha1.RunPlanning) {
					t.Errorf("it does not plan again: %+v", o.w.Status)
				}
			})
		}
	}
}

func TestLaw7WhatKeptItFromStartingStaysVisible(t *testing.T) {
	o, id := pendingPlan(t)
	seen := func(view RunView) {
		t.Helper()
		s := o.snapshot(o.w.DeepCopy())
		if s.Run != nil {
			s.Run = &view
		}
		d := Decide(s)
		if d.Action == ActCancelRun {
			// The runner has voided the Job, and Kubernetes has not taken note yet.
			d = Cancelled(s, d, RunView{State: RunPending, Message: "cancelled"})
		}
		o.record(s, d, Outcome{Kind: OutcomeDone}, o.version)
		if st := o.w.Status; st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonQuotaExceeded || !strings.Contains(st.Message, "exceeded quota") {
			t.Fatalf("%s/%s %q", st.Phase, st.Reason, st.Message)
		}
	}
	seen(RunView{State: RunPending, Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"})
	o.now = o.now.Add(StartDeadline)
	seen(RunView{State: RunPending, Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota"})
	seen(RunView{State: RunPending, Reason: v1alpha1.ReasonRunPending, Message: "cancelled"})
	o.jobs[id+"/plan"] = job{state: RunVoid}
	seen(RunView{State: RunVoid, Message: "void"})
	seen(RunView{})
	if st := o.w.Status; st.Run.Phase != v1alpha1.RunDiscarded || st.NextReconcileTime == nil || !st.NextReconcileTime.Equal(st.Run.RetryAt) || st.Wants == nil {
		t.Errorf("run %+v, next %s", st.Run, st.NextReconcileTime)
	}
	detect(o.w, "c2")
	o.version++
	if pass(t, o); o.w.Status.Run.ID == id {
		t.Error("a new commit rests")
	}
}

func TestARunnerThatIsDownAtTheApplyCostsNoFailure(t *testing.T) {
	for _, f := range []fault{lostBefore, startFailed, writeLost} {
		o, first := pendingPlan(t)
		succeed(t, o)
		pass(t, o, f, noFault)
		if st := o.w.Status; st.Run.ID != first || st.Run.Phase != v1alpha1.RunDiscarded || st.Failures != nil || st.Wants == nil {
			t.Fatalf("%s: run %+v, failures %+v", f, st.Run, st.Failures)
		}
		if pass(t, o); o.w.Status.Run.ID == first || o.applies[first] > 1 {
			t.Errorf("%s: run %+v, asked for %d times", f, o.w.Status.Run, o.applies[first])
		}
	}
}

func TestAnApplyThatWasSeenAndIsGoneIsLost(t *testing.T) {
	for _, f := range []fault{noFault, lostAfter, crashed} {
		o, id := pendingApply(t)
		_ = jobsVanish(o)
		pass(t, o, noFault, f, noFault)
		if st := o.w.Status; st.Run.ID != id || st.Run.Phase != v1alpha1.RunFailed || st.Failures == nil || st.Reason != v1alpha1.ReasonRunLost {
			t.Errorf("%s: %s, run %+v", f, st.Reason, st.Run)
		}
	}
}

func TestWhatACancelFinds(t *testing.T) {
	for name, c := range map[string]struct {
		half   Half
		view   RunView
		phase  v1alpha1.RunPhase
		action Action
	}{
		"nothing, for good":             {Plan, RunView{State: RunVoid}, v1alpha1.RunDiscarded, ActCancelRun},
		"a plan that runs":              {Plan, RunView{State: RunRunning}, "", ActNone},
		"a plan that is not void yet":   {Plan, RunView{State: RunPending}, "", ActNone},
		"a plan that failed":            {Plan, RunView{State: RunFailed}, v1alpha1.RunDiscarded, ActCancelRun},
		"a plan that succeeded":         {Plan, RunView{State: RunSucceeded, Plan: &PlanView{Digest: "d"}}, v1alpha1.RunPlanned, ActRecordPlanned},
		"an apply that runs":            {Apply, RunView{State: RunRunning}, "", ActNone},
		"an apply that failed":          {Apply, RunView{State: RunFailed}, v1alpha1.RunFailed, ActRecordEnd},
		"an apply that succeeded":       {Apply, RunView{State: RunSucceeded}, v1alpha1.RunSucceeded, ActRecordEnd},
		"an apply that could not start": {Apply, RunView{State: RunFailed, NeverStarted: true}, v1alpha1.RunDiscarded, ActRecordEnd},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(at(v1alpha1.RunPlanning), grantedAs(v1alpha1.Grant{}))
			if c.half == Apply {
				s = scene(at(v1alpha1.RunApplying), sees(RunAbsent))
			}
			d := Decide(s)
			if d.Action != ActCancelRun || d.Half != c.half {
				t.Fatalf("decided %+v", d)
			}
			d = Cancelled(s, d, c.view)
			if d.Action != c.action || c.phase == "" && (d.Run != nil || d.Requeue == 0) || c.phase != "" && d.Run.Phase != c.phase {
				t.Errorf("%s, run %+v, requeue %s", d.Action, d.Run, d.Requeue)
			}
		})
	}
}
