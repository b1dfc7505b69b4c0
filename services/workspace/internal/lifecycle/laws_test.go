package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each test is named after a law of the design; TestWalk asks most of them again in every state it reaches.

func pass(t *testing.T, o *world, faults ...fault) {
	t.Helper()
	if len(faults) == 0 {
		faults = []fault{noFault}
	}
	for _, f := range faults {
		if err := o.pass(f); err != nil {
			t.Fatal(err)
		}
	}
}

func succeed(t *testing.T, o *world) {
	t.Helper()
	if err := jobEnds(o, job{state: RunSucceeded}); err != nil {
		t.Fatal(err)
	}
}

func TestLaw1NoJobWithoutAGrantThatCoversIt(t *testing.T) {
	for name, c := range map[string]struct {
		ordered bool
		grant   v1alpha1.Grant
		starts  bool
	}{
		"no grant":                    {false, v1alpha1.Grant{}, false},
		"a standing grant":            {false, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass}, true},
		"a standing grant, ordered":   {true, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass}, false},
		"a grant of a pass":           {true, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p1", Revision: "c1"}, true},
		"a grant without a commit":    {true, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p1"}, false},
		"a grant to plan":             {true, v1alpha1.Grant{Scope: v1alpha1.ScopePlan, Pass: "p1", Revision: "c1"}, true},
		"a grant for drift":           {true, v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "p1", Revision: "c1"}, false},
		"a grant of an unknown scope": {true, v1alpha1.Grant{Scope: "Everything", Pass: "p1", Revision: "c1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newWorld()
			o.ordered = c.ordered
			detect(o.w, "c1")
			setGrant(o, c.grant)
			for range 5 {
				pass(t, o)
			}
			if started := len(o.jobs) > 0; started != c.starts {
				t.Errorf("started: %t, want %t", started, c.starts)
			}
		})
	}
	t.Run("a grant to plan applies nothing until it is one to run", func(t *testing.T) {
		o := newWorld()
		o.ordered = true
		detect(o.w, "c1")
		g := v1alpha1.Grant{Scope: v1alpha1.ScopePlan, Pass: "p1", Revision: "c1"}
		setGrant(o, g)
		for range 8 {
			pass(t, o)
			succeed(t, o)
		}
		run := o.w.Status.Run
		if st := o.w.Status; run.Phase != v1alpha1.RunPlanned || st.Phase != v1alpha1.PhasePlanned || st.Reason != v1alpha1.ReasonAwaitingBudget || len(o.applies) > 0 {
			t.Fatalf("%s/%s, run %+v, applies %v", st.Phase, st.Reason, run, o.applies)
		}
		g.Scope = v1alpha1.ScopeRun
		setGrant(o, g)
		o.version++
		pass(t, o, noFault, noFault)
		succeed(t, o)
		pass(t, o)
		if st := o.w.Status; st.Run.ID != run.ID || st.Run.Phase != v1alpha1.RunSucceeded || st.ObservedRevision != "c1" {
			t.Errorf("the same plan was not applied: %+v", st)
		}
	})
	t.Run("a grant for another source", func(t *testing.T) {
		o := scenes(t)["new"]
		setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
		o.w.Spec.Source.RepoURL = "https://git/other"
		for range 5 {
			pass(t, o)
		}
		if len(o.jobs) > 0 {
			t.Error("started with a grant that was given for another repository")
		}
	})
}

func TestLaw2AtMostOneRun(t *testing.T) {
	o := scenes(t)["applying"]
	run := o.w.Status.Run.ID
	o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now"
	detect(o.w, "c2")
	o.version++
	o.jobs[run+"/apply"] = job{state: RunRunning}
	o.w.Status.Run.Phase = v1alpha1.RunApplying
	o.now = o.now.Add(24 * time.Hour)
	for range 5 {
		pass(t, o)
	}
	if o.w.Status.Run.ID != run {
		t.Errorf("run %s began while %s lived", o.w.Status.Run.ID, run)
	}
}

func TestLaw3OnlyAnApprovalOfThisRunReleasesItsPlan(t *testing.T) {
	for name, c := range map[string]struct {
		value   func(o *world) string
		applies bool
	}{
		"this run":      {func(o *world) string { return o.w.Status.Run.ID }, true},
		"an older run":  {func(*world) string { return "u-1-old" }, false},
		"a part of it":  {func(o *world) string { return o.w.Status.Run.ID[:5] }, false},
		"the word true": {func(*world) string { return "true" }, false},
		"nothing":       {func(*world) string { return "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := scenes(t)["awaiting approval"]
			o.w.Annotations[v1alpha1.AnnotationApproved] = c.value(o)
			o.version++
			for range 4 {
				pass(t, o)
			}
			if applied := o.applies[o.w.Status.Run.ID] == 1; applied != c.applies {
				t.Errorf("applied: %t, want %t", applied, c.applies)
			}
			if _, left := o.w.Annotations[v1alpha1.AnnotationApproved]; left {
				t.Error("the approval is still there")
			}
		})
	}
}

func TestLaw4AnApplyIsNeverRetriedWithTheSamePlan(t *testing.T) {
	for _, f := range []fault{lostBefore, lostAfter, writeLost, rpcHangs, startFailed} {
		t.Run(string(f), func(t *testing.T) {
			o := scenes(t)["planned"]
			for o.w.Status.Run.Phase != v1alpha1.RunPlanned {
				pass(t, o)
			}
			first := o.w.Status.Run.ID
			pass(t, o, f)
			if o.w.Status.Run.Phase != v1alpha1.RunApplying {
				t.Fatalf("the intent is not recorded: %s", o.w.Status.Run.Phase)
			}
			for range 12 {
				pass(t, o)
				succeed(t, o)
				o.now = o.now.Add(3 * time.Minute)
			}
			if o.applies[first] > 1 {
				t.Errorf("the apply was asked for %d times", o.applies[first])
			}
			if o.pending != nil {
				c := *o.pending
				if outcome := o.startRun(c); outcome.Kind != OutcomeVoid {
					t.Errorf("a StartRun that was still on its way found no tombstone: %+v", outcome)
				}
			}
			if o.w.Status.ObservedRevision != "c1" {
				t.Errorf("the next attempt did not get there: %+v", o.w.Status)
			}
		})
	}
}

func TestLaw5PlanAndApplyUseOneCommitAndStatusNamesIt(t *testing.T) {
	o := scenes(t)["planned"]
	detect(o.w, "c2")
	o.version++
	run := o.w.Status.Run.ID
	for o.w.Status.Run.ID == run && !o.w.Status.Run.Phase.Terminal() {
		if o.w.Status.ObservedRevision != "" {
			t.Fatal("observedRevision before the success")
		}
		pass(t, o)
		succeed(t, o)
	}
	if o.w.Status.ObservedRevision != "c1" || o.w.Status.Applied.Revision != "c1" {
		t.Errorf("observed %s, applied %s, want c1, which was planned", o.w.Status.ObservedRevision, o.w.Status.Applied.Revision)
	}
	if w := o.w.Status.Wants; w == nil || w.Trigger != v1alpha1.TriggerRevision || w.Revision != "c2" {
		t.Errorf("wants %+v, want the newer commit afterwards", w)
	}
}

func TestLaw6WhatDiscardsAWaitingPlan(t *testing.T) {
	newCommit := func(o *world) { detect(o.w, "c2") }
	rotated := func(o *world) { o.variables = 1 }
	for name, c := range map[string]struct {
		scene    string
		do       func(*world)
		discards bool
		warnings int
	}{
		"a new commit":                          {"awaiting approval", newCommit, false, 1},
		"rotated variables":                     {"awaiting approval", rotated, false, 1},
		"both":                                  {"awaiting approval", func(o *world) { newCommit(o); rotated(o) }, false, 2},
		"a new commit, stale plans discarded":   {"awaiting approval, stale plans discarded", newCommit, true, 0},
		"new variables, stale plans discarded":  {"awaiting approval, stale plans discarded", rotated, true, 0},
		"a newer commit than the pass promotes": {"awaiting approval in a pass", newCommit, false, 1},
		"a drift tick":                          {"awaiting approval", func(o *world) { o.now = o.now.Add(100 * time.Hour) }, false, 0},
		"an edit of what a run does":            {"awaiting approval", func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ }, true, 0},
		"an edit of something else": {"awaiting approval", func(o *world) {
			seconds := int64(60)
			o.w.Spec.Plan.TimeoutSeconds = &seconds
			o.w.Generation++
		}, true, 0},
		"a request": {"awaiting approval", func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now" }, true, 0},
		"autoApply turned on": {"awaiting approval", func(o *world) {
			o.w.Spec.AutoApply = nil
			o.w.Generation++
		}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := scenes(t)[c.scene]
			if !isAwaited(&o.w.Status) {
				t.Fatal("the scene has no waiting plan")
			}
			run := o.w.Status.Run.ID
			o.touched = c.discards
			c.do(o)
			o.version++
			pass(t, o)
			if discarded := o.w.Status.Run.Phase == v1alpha1.RunDiscarded; discarded != c.discards {
				t.Fatalf("discarded: %t, want %t", discarded, c.discards)
			}
			if !c.discards && len(o.w.Status.AwaitingApproval.Warnings) != c.warnings {
				t.Errorf("warnings %v, want %d", o.w.Status.AwaitingApproval.Warnings, c.warnings)
			}
			if pass(t, o); c.discards && (o.w.Status.Run.ID == run || o.w.Status.Run.Phase != v1alpha1.RunPlanning) {
				t.Errorf("it does not plan again: %+v", o.w.Status.Run)
			}
		})
	}
}

func TestLaw8FailuresOfTheSameInputsBackOff(t *testing.T) {
	o := newWorld()
	detect(o.w, "c1")
	setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
	var waits []time.Duration
	var last time.Time
	for len(waits) < 8 {
		runs := len(o.revisions)
		pass(t, o)
		_ = jobEnds(o, job{state: RunFailed})
		if len(o.revisions) > runs {
			if !last.IsZero() {
				waits = append(waits, o.now.Sub(last).Round(time.Minute))
			}
			last = o.now
		}
		if isFailing(o.w) {
			o.now = o.now.Add(20 * time.Second)
		}
	}
	minutes := func(m ...int) (list []time.Duration) {
		for _, n := range m {
			list = append(list, time.Duration(n)*time.Minute)
		}
		return list
	}
	if want := minutes(3, 6, 12, 24, 48, 60, 60, 60); !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if o.w.Status.Failures.Count < 8 || o.w.Status.NextReconcileTime == nil && isFailing(o.w) {
		t.Errorf("failures %+v", o.w.Status.Failures)
	}
	for name, hurry := range map[string]func(*world){
		"a request":    func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now" },
		"a new commit": func(o *world) { detect(o.w, "c2") },
		"variables":    func(o *world) { o.variables = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := o.clone()
			for !isFailing(o.w) {
				pass(t, o)
				_ = jobEnds(o, job{state: RunFailed})
			}
			runs := len(o.revisions)
			hurry(o)
			o.version++
			if pass(t, o); len(o.revisions) != runs+1 {
				t.Error("it still rests")
			}
		})
	}
}

func TestLaw10StatusSaysOnlyWhatHasHappened(t *testing.T) {
	t.Run("a StartRun that did not get through is not recorded as started", func(t *testing.T) {
		for _, f := range []fault{lostBefore, lostAfter, crashed} {
			o := scenes(t)["new"]
			setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
			pass(t, o)
			pass(t, o)
			if pass(t, o, f); o.w.Status.Run.PlanStartedAt != nil {
				t.Errorf("%s: recorded as started", f)
			}
			if pass(t, o); o.w.Status.Run.PlanStartedAt == nil || len(o.jobs) != 1 {
				t.Errorf("%s: the next pass did not mend it: %+v", f, o.w.Status.Run)
			}
		}
	})
	t.Run("a runner that is down is a reason, not a failure", func(t *testing.T) {
		o := scenes(t)["new"]
		setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
		pass(t, o, noFault, noFault, startFailed)
		st := o.w.Status
		if st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonRunnerUnavailable || st.Failures != nil {
			t.Errorf("%s/%s, failures %+v", st.Phase, st.Reason, st.Failures)
		}
		was := Unavailable(o.w, o.now, v1alpha1.ReasonRunnerUnavailable, "down")
		if fmt.Sprint(was.Run) != fmt.Sprint(st.Run) || was.Reason != v1alpha1.ReasonRunnerUnavailable {
			t.Errorf("a peer that cannot be asked changed the run: %+v", was)
		}
	})
	t.Run("a failed drift plan is a condition", func(t *testing.T) {
		o := scenes(t)["applied"]
		for o.w.Status.Run.Trigger != v1alpha1.TriggerDrift || o.w.Status.Run.Phase != v1alpha1.RunFailed {
			o.now = o.now.Add(10 * time.Minute)
			pass(t, o)
			_ = jobEnds(o, job{state: RunFailed})
		}
		st := o.w.Status
		failed := slices.ContainsFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionDriftCheckFailed })
		if st.Phase != v1alpha1.PhaseApplied || !failed || st.ObservedRevision != "c1" {
			t.Errorf("phase %s, condition %t", st.Phase, failed)
		}
	})
}
