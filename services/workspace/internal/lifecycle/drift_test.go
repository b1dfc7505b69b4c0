package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

// driftPlanning is an applied Workspace whose drift plan exists.
func driftPlanning(t *testing.T) *world {
	t.Helper()
	o := scenes(t)["applied"]
	for !IsDriftPlan(o.w) || o.w.Status.Run.PlanStartedAt == nil {
		o.now = o.now.Add(10 * time.Minute)
		pass(t, o)
	}
	return o
}

func TestADriftPlanMakesWayForARunThatSomebodyWaitsFor(t *testing.T) {
	whatever := map[string]func(*world){
		"a new commit":      func(o *world) { detect(o.w, "c2") },
		"changed variables": func(o *world) { o.variables = 1 },
		"a spec edit":       func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ },
		"a request":         func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now" },
	}
	for name, do := range whatever {
		for _, isRunning := range []bool{false, true} {
			o := driftPlanning(t)
			id := o.w.Status.Run.ID
			if isRunning {
				_ = podStarts(o)
			}
			do(o)
			o.version++
			pass(t, o)
			if j := o.jobs[id+"/plan"]; !j.ending {
				t.Errorf("%s, running %t: the drift plan goes on: %+v", name, isRunning, j)
			}
			_ = jobEnds(o, job{state: RunFailed})
			pass(t, o, noFault, noFault)
			if st := o.w.Status; st.Run.ID == id || st.Run.Trigger == v1alpha1.TriggerDrift || st.Failures != nil {
				t.Errorf("%s, running %t: run %+v, failures %+v", name, isRunning, st.Run, st.Failures)
			}
		}
	}
	t.Run("not for what is not granted", func(t *testing.T) {
		o := driftPlanning(t)
		_ = podStarts(o)
		o.ordered = true
		setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "p1", Revision: "c1"})
		detect(o.w, "c2")
		o.version++
		pass(t, o)
		if j := o.jobs[o.w.Status.Run.ID+"/plan"]; j.ending {
			t.Error("it was asked to end for a run that may not begin")
		}
	})
	t.Run("not for nothing", func(t *testing.T) {
		o := driftPlanning(t)
		_ = podStarts(o)
		o.now = o.now.Add(time.Hour)
		pass(t, o, noFault, noFault)
		if j := o.jobs[o.w.Status.Run.ID+"/plan"]; j.ending {
			t.Error("it was asked to end")
		}
	})
}

func TestAHeldDriftPlanWritesNothingAndIsThoughtOfAgain(t *testing.T) {
	s := scene(in(time.Hour), func(s *Snapshot) { s.DriftHeld = true })
	d := Decide(s)
	if d.Action != ActNone || d.Phase != v1alpha1.PhaseApplied || d.Requeue < DriftPause || d.Requeue > 3*DriftPause {
		t.Fatalf("%s %s, requeue %s", d.Action, d.Phase, d.Requeue)
	}
	once := Status(s, d, Outcome{Kind: OutcomeDone})
	s.Workspace.Status, s.Now = once, s.Now.Add(time.Hour)
	if twice := Status(s, Decide(s), Outcome{Kind: OutcomeDone}); twice.Message != once.Message || !twice.Wants.Since.Equal(&once.Wants.Since) {
		t.Errorf("%q, then %q", once.Message, twice.Message)
	}
	if d := Decide(scene(func(s *Snapshot) { s.DriftHeld = true; detect(s.Workspace, "c2") })); d.Action != ActRecordRun {
		t.Errorf("a run that a person waits for is held, too: %s", d.Action)
	}
}

func TestDriftThatIsFoundIsRecordedUntilItIsMended(t *testing.T) {
	o := driftPlanning(t)
	id := o.w.Status.Run.ID
	many := make([]string, 25)
	for i := range many {
		many[i] = "null_resource.a[" + string(rune('a'+i)) + "]"
	}
	s := o.snapshot(o.w.DeepCopy())
	s.Run = &RunView{State: RunSucceeded, Plan: &PlanView{Digest: "sealed-" + id, Drifted: many, DriftedTotal: 30}}
	d := Decide(s)
	st := Status(s, d, Outcome{Kind: OutcomeDone})
	if drift := st.Drift; drift == nil || drift.RunID != id || !slices.Equal(drift.Resources, many[:20]) || drift.Total != 30 || !drift.DetectedAt.Time.Equal(o.now) {
		t.Fatalf("drift %+v", st.Drift)
	}
	s.Workspace.Status = st
	s.Workspace.Status.Run.Phase, s.Workspace.Status.Run.ApplyRequestedAt = v1alpha1.RunApplying, st.Run.PlanStartedAt
	s.Run = &RunView{State: RunSucceeded}
	if st := Status(s, Decide(s), Outcome{Kind: OutcomeDone}); st.Drift != nil || st.Phase != v1alpha1.PhaseApplied {
		t.Errorf("%s, drift %+v", st.Phase, st.Drift)
	}
}

func TestAnEmptyDriftPlanSaysWhenItLooked(t *testing.T) {
	o := driftPlanning(t)
	_ = jobEnds(o, job{state: RunSucceeded, empty: true})
	pass(t, o)
	said := o.w.Status.Message
	if at := o.now.UTC().Format(time.RFC3339); !strings.Contains(said, at) || o.w.Status.Reason != v1alpha1.ReasonNoChanges || len(o.applies) > 1 {
		t.Errorf("%s %q does not say %s", o.w.Status.Reason, said, at)
	}
	version := o.version
	o.now = o.now.Add(time.Minute)
	if pass(t, o); o.w.Status.Message != said || o.version != version {
		t.Errorf("then %q", o.w.Status.Message)
	}
}

// TestADriftRunClaimsNoPass: the step of a pass would count as done by it, also where the run that the pass brings was given up.
func TestADriftRunClaimsNoPass(t *testing.T) {
	for name, found := range map[string]job{"nothing": {state: RunSucceeded, empty: true}, "drift, which is applied": {state: RunSucceeded}} {
		t.Run(name, func(t *testing.T) {
			o := scenes(t)["a drift plan in a later pass"]
			drift := o.w.Status.Run.ID
			setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p2", Revision: "c1"})
			o.version++
			for o.w.Status.Run.Phase != v1alpha1.RunSucceeded {
				_ = jobEnds(o, found)
				pass(t, o)
			}
			if a := o.w.Status.Applied; a.RunID != drift || a.Pass != "p1" {
				t.Fatalf("applied %+v, want it of run %s, in the pass that brought it", a, drift)
			}
			o.variables = 1
			pass(t, o, noFault, noFault)
			o.w.Annotations[v1alpha1.AnnotationCancel] = o.w.Status.Run.ID
			o.version++
			for o.w.Status.Run.Phase != v1alpha1.RunDiscarded {
				pass(t, o)
				_ = jobEnds(o, job{state: RunFailed})
			}
			pass(t, o)
			if st := o.w.Status; st.Applied.Pass != "p1" || st.Wants == nil || st.Wants.Trigger != v1alpha1.TriggerVariables {
				t.Errorf("applied %+v, wants %+v: the pass would count the run that was given up as done", st.Applied, st.Wants)
			}
		})
	}
}

// TestAFailedDriftCheckIsNoFailureOfTheRunThatFollows: the pass would count its step as failed while the run that mends it lives.
func TestAFailedDriftCheckIsNoFailureOfTheRunThatFollows(t *testing.T) {
	o := driftPlanning(t)
	_ = jobEnds(o, job{state: RunFailed})
	pass(t, o)
	if f := o.w.Status.Failures; f == nil || !isFailedDriftCheck(o.w.Status.Run) {
		t.Fatalf("the drift check has not failed: %+v, failures %+v", o.w.Status.Run, f)
	}
	o.variables = 1
	pass(t, o)
	if st := o.w.Status; st.Run.Trigger != v1alpha1.TriggerVariables || st.Failures != nil {
		t.Errorf("run %+v, failures %+v", st.Run, st.Failures)
	}
}
