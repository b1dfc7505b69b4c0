package lifecycle

import (
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

func cancelRun(o *world) string {
	id := o.w.Status.Run.ID
	o.w.Annotations[v1alpha1.AnnotationCancel] = id
	o.touched = true
	o.version++
	return id
}

func running(t *testing.T, build func(*testing.T) (*world, string)) *world {
	t.Helper()
	o, _ := build(t)
	_ = podStarts(o)
	pass(t, o)
	return o
}

func TestACancelledRunEndsAndItsInputsRest(t *testing.T) {
	for name, c := range map[string]struct {
		build func(t *testing.T) *world
		end   job
		phase v1alpha1.RunPhase
		shown v1alpha1.Phase
	}{
		"a plan that was not asked for yet": {func(t *testing.T) *world {
			o := scenes(t)["plan pending"]
			o.w.Status.Run.PlanStartedAt = nil
			clear(o.jobs)
			return o
		}, job{}, v1alpha1.RunDiscarded, v1alpha1.PhasePending},
		"a plan whose pod waits":    {func(t *testing.T) *world { o, _ := pendingPlan(t); return o }, job{}, v1alpha1.RunDiscarded, v1alpha1.PhasePending},
		"a plan that runs":          {func(t *testing.T) *world { return running(t, pendingPlan) }, job{state: RunFailed}, v1alpha1.RunDiscarded, v1alpha1.PhasePending},
		"a plan that ends well":     {func(t *testing.T) *world { return running(t, pendingPlan) }, job{state: RunSucceeded}, v1alpha1.RunDiscarded, v1alpha1.PhasePending},
		"a plan that waits":         {func(t *testing.T) *world { return scenes(t)["awaiting approval"] }, job{}, v1alpha1.RunDiscarded, v1alpha1.PhasePending},
		"an apply whose pod waits":  {func(t *testing.T) *world { o, _ := pendingApply(t); return o }, job{}, v1alpha1.RunDiscarded, v1alpha1.PhasePending},
		"an apply that runs":        {func(t *testing.T) *world { return running(t, pendingApply) }, job{state: RunFailed}, v1alpha1.RunFailed, v1alpha1.PhaseFailed},
		"an apply that ends well":   {func(t *testing.T) *world { return running(t, pendingApply) }, job{state: RunSucceeded}, v1alpha1.RunSucceeded, v1alpha1.PhaseApplied},
		"a plan that ends up empty": {func(t *testing.T) *world { return running(t, pendingPlan) }, job{state: RunSucceeded, empty: true}, v1alpha1.RunSucceeded, v1alpha1.PhaseApplied},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.build(t)
			id, runs := cancelRun(o), len(o.revisions)
			pass(t, o)
			if run := o.w.Status.Run; run.CancelledAt == nil || run.ID != id {
				t.Fatalf("the cancel is not recorded: %+v", run)
			}
			for range 6 {
				pass(t, o)
				for _, j := range o.jobs {
					if j.live() && j.ending {
						_ = jobEnds(o, c.end)
					}
				}
			}
			st := o.w.Status
			if _, left := o.w.Annotations[v1alpha1.AnnotationCancel]; left || st.Run.ID != id || st.Run.Phase != c.phase || st.Phase != c.shown {
				t.Fatalf("%s/%s, run %+v, annotation left %t", st.Phase, st.Reason, st.Run, left)
			}
			if c.phase == v1alpha1.RunSucceeded {
				return
			}
			if st.Reason != v1alpha1.ReasonCancelled || !strings.Contains(st.Message, v1alpha1.AnnotationReconcileRequest) || st.NextReconcileTime != nil {
				t.Errorf("%s %q, next %v", st.Reason, st.Message, st.NextReconcileTime)
			}
			o.now = o.now.Add(1000 * time.Hour)
			if pass(t, o, noFault, noFault); len(o.revisions) != runs {
				t.Fatalf("what was cancelled begins again by itself: %+v", o.w.Status.Run)
			}
			for what, do := range map[string]func(*world){
				"a request":         func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "again" },
				"a new commit":      func(o *world) { detect(o.w, "c2") },
				"changed variables": func(o *world) { o.variables = 1 },
				"a spec edit":       func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ },
			} {
				o := o.clone()
				o.ordered = false
				setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
				do(o)
				o.version++
				if pass(t, o); len(o.revisions) != runs+1 {
					t.Errorf("%s starts nothing: %+v", what, o.w.Status)
				}
			}
		})
	}
}

func TestACancelOfAnotherRunDoesNothingAndIsToldOf(t *testing.T) {
	for _, value := range []string{"", " ", "u-1-old", "true"} {
		o := running(t, pendingApply)
		o.w.Annotations[v1alpha1.AnnotationCancel] = value
		d := Decide(o.snapshot(o.w))
		if d.Action != ActRemoveCancel || d.Void == "" {
			t.Errorf("%q: %s, told %q", value, d.Action, d.Void)
		}
	}
	o := scenes(t)["applied"]
	for isLive(o.w.Status.Run) {
		pass(t, o)
		succeed(t, o)
	}
	o.w.Annotations[v1alpha1.AnnotationCancel] = o.w.Status.Run.ID
	if d := Decide(o.snapshot(o.w)); d.Action != ActRemoveCancel || d.Void == "" {
		t.Errorf("an ended run: %s, told %q", d.Action, d.Void)
	}
}

func TestACancelSpeedsADeletionUp(t *testing.T) {
	o := running(t, pendingApply)
	now := stamp(o.snapshot(o.w))
	o.w.DeletionTimestamp = &now
	id := cancelRun(o)
	pass(t, o, noFault, noFault, noFault)
	if j := o.jobs[id+"/apply"]; !j.ending {
		t.Fatalf("the apply is not asked to end: %+v", j)
	}
	_ = jobEnds(o, job{state: RunFailed})
	if pass(t, o, noFault, noFault); !o.gone {
		t.Errorf("it does not go: %+v", o.w.Status)
	}
}

func TestACancelledDriftPlanIsLookedForAgainAnIntervalLater(t *testing.T) {
	o := scenes(t)["applied"]
	for !IsDriftPlan(o.w) || o.w.Status.Run.PlanStartedAt == nil {
		o.now = o.now.Add(10 * time.Minute)
		pass(t, o)
	}
	id := cancelRun(o)
	_ = podStarts(o)
	pass(t, o, noFault, noFault, noFault)
	_ = jobEnds(o, job{state: RunFailed})
	pass(t, o, noFault, noFault)
	st := o.w.Status
	if st.Run.ID != id || st.Phase != v1alpha1.PhaseApplied || st.Failures != nil || st.NextReconcileTime == nil || st.NextReconcileTime.Before(&st.Run.StartedAt) {
		t.Fatalf("%s/%s, run %+v, next %v", st.Phase, st.Reason, st.Run, st.NextReconcileTime)
	}
	o.now = st.NextReconcileTime.Add(time.Second)
	if pass(t, o); o.w.Status.Run.ID == id || !IsDriftPlan(o.w) {
		t.Errorf("it is not looked at again: %+v", o.w.Status.Run)
	}
}

// TestACancelledRunIsTriedAgainByAFreshAttempt: the pass that asks for one would wait for it for ever.
func TestACancelledRunIsTriedAgainByAFreshAttempt(t *testing.T) {
	for half, build := range map[Half]func(*testing.T) (*world, string){Plan: pendingPlan, Apply: pendingApply} {
		for name, g := range map[string]v1alpha1.Grant{
			"of the same pass": {Scope: v1alpha1.ScopeRun, Pass: "p1", Revision: "c1", Attempt: 1},
			"of another pass":  {Scope: v1alpha1.ScopeRun, Pass: "p2", Revision: "c1"},
		} {
			t.Run(string(half)+", "+name, func(t *testing.T) {
				o := running(t, build)
				o.ordered = true
				setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p1", Revision: "c1"})
				o.w.Status.Run.Pass = "p1"
				id := cancelRun(o)
				for range 4 {
					pass(t, o)
					_ = jobEnds(o, job{state: RunFailed})
				}
				if st := o.w.Status; st.Run.ID != id || !isCancelled(st.Run) {
					t.Fatalf("it does not rest: %+v", st.Run)
				}
				setGrant(o, g)
				o.version++
				if pass(t, o); o.w.Status.Run.ID == id || o.w.Status.Run.Pass != g.Pass || o.w.Status.Run.Attempt != g.Attempt {
					t.Errorf("no fresh attempt begins: %+v", o.w.Status.Run)
				}
			})
		}
	}
}
