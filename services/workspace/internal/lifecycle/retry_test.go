package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The tests of law 8: how failures of the same inputs are tried again, and what is no failure at all.

// fails lets every run of o fail until it rests, and returns how many began.
func fails(t *testing.T, o *world, passes int) int {
	t.Helper()
	before := len(o.revisions)
	for range passes {
		pass(t, o)
		_ = jobEnds(o, job{state: RunFailed})
		if isFailing(o.w) {
			o.now = o.now.Add(2 * time.Hour)
		}
	}
	return len(o.revisions) - before
}

func TestLaw8RetriesAreExhausted(t *testing.T) {
	exhausted := func(t *testing.T, limit int32) *world {
		o := newWorld()
		detect(o.w, "c1")
		setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
		o.w.Spec.Retry.Limit = &limit
		if runs := fails(t, o, 40); runs != int(limit)+1 {
			t.Fatalf("%d runs with a limit of %d", runs, limit)
		}
		st := o.w.Status
		if st.Phase != v1alpha1.PhaseFailed || st.Reason != v1alpha1.ReasonRetriesExhausted || st.NextReconcileTime != nil || st.Wants == nil || st.Wants.Trigger != v1alpha1.TriggerRetry {
			t.Fatalf("%s/%s, next %v, wants %+v", st.Phase, st.Reason, st.NextReconcileTime, st.Wants)
		}
		for _, word := range []string{v1alpha1.AnnotationReconcileRequest, v1alpha1.ReasonPlanFailed} {
			if !strings.Contains(st.Message, word) {
				t.Errorf("message %q does not say %q", st.Message, word)
			}
		}
		return o
	}
	for _, limit := range []int32{0, 1, 3} {
		exhausted(t, limit)
	}
	for name, c := range map[string]struct {
		do   func(*world)
		runs int
	}{
		"time":              {func(o *world) { o.now = o.now.Add(1000 * time.Hour) }, 0},
		"a request":         {func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now" }, 1},
		"a new commit":      {func(o *world) { detect(o.w, "c2") }, 2},
		"changed variables": {func(o *world) { o.variables = 1 }, 2},
		"a spec edit":       {func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ }, 2},
		"a higher limit":    {func(o *world) { more := int32(4); o.w.Spec.Retry.Limit = &more; o.w.Generation++ }, 3},
		"no limit any more": {func(o *world) { o.w.Spec.Retry.Limit = nil; o.w.Generation++ }, 14},
	} {
		t.Run(name, func(t *testing.T) {
			o := exhausted(t, 1)
			c.do(o)
			o.version++
			if runs := fails(t, o, 40); runs != c.runs {
				t.Errorf("%d more runs, want %d", runs, c.runs)
			}
		})
	}
}

func TestLaw8DriftChecksHaveNoLimit(t *testing.T) {
	o := scenes(t)["applied"]
	limit := int32(0)
	o.w.Spec.Retry.Limit = &limit
	for range 40 {
		pass(t, o)
		_ = jobEnds(o, job{state: RunFailed})
		o.now = o.now.Add(2 * time.Hour)
	}
	if f := o.w.Status.Failures; f == nil || f.Count < 3 || o.w.Status.Phase != v1alpha1.PhaseApplied {
		t.Errorf("%s, failures %+v", o.w.Status.Phase, f)
	}
}

func setBackBy(t *testing.T, o *world, reason string) {
	t.Helper()
	for key, j := range o.jobs {
		if j.live() {
			o.ran[key] = true
			o.jobs[key] = job{state: RunFailed, reason: reason}
		}
	}
}

func TestLaw8ALockOfTheStateIsWaitedForAndIsNoFailure(t *testing.T) {
	for half, build := range map[Half]func(*testing.T) (*world, string){Plan: pendingPlan, Apply: pendingApply} {
		t.Run(string(half), func(t *testing.T) {
			o, first := build(t)
			var pauses []time.Duration
			for range 7 {
				setBackBy(t, o, v1alpha1.ReasonStateLocked)
				pass(t, o, noFault, noFault)
				st := o.w.Status
				if st.Phase != v1alpha1.PhaseFailed || st.Reason != v1alpha1.ReasonStateLocked || st.Run.Phase != v1alpha1.RunDiscarded || st.Failures != nil || st.Wants == nil {
					t.Fatalf("%s/%s, run %+v, failures %+v, wants %+v", st.Phase, st.Reason, st.Run, st.Failures, st.Wants)
				}
				pause := st.NextReconcileTime.Sub(o.now.Truncate(time.Second))
				pauses = append(pauses, pause)
				o.now = o.now.Add(pause)
				for o.w.Status.Run.Phase == v1alpha1.RunDiscarded || o.w.Status.Run.PlanStartedAt == nil {
					pass(t, o)
				}
			}
			minute := time.Minute
			if want := []time.Duration{minute, 2 * minute, 4 * minute, 8 * minute, 15 * minute, 15 * minute, 15 * minute}; !slices.Equal(pauses, want) {
				t.Errorf("pauses %v, want %v", pauses, want)
			}
			for range 4 {
				succeed(t, o)
				pass(t, o)
			}
			if st := o.w.Status; st.ObservedRevision != "c1" || st.Run.ID == first {
				t.Errorf("it does not go on when the lock is gone: %+v", st)
			}
		})
	}
}

func TestLaw8AStalePlanIsPlannedAgainAndIsNoFailure(t *testing.T) {
	o, first := pendingApply(t)
	setBackBy(t, o, v1alpha1.ReasonStalePlan)
	pass(t, o, noFault, noFault)
	st := o.w.Status
	if st.Run.ID == first || st.Run.Phase != v1alpha1.RunPlanning || st.Failures != nil {
		t.Fatalf("it does not plan again at once: run %+v, failures %+v", st.Run, st.Failures)
	}
	for o.w.Status.Run.ApplyStartedAt == nil {
		pass(t, o)
		if o.w.Status.Run.ApplyRequestedAt == nil {
			succeed(t, o)
		}
	}
	setBackBy(t, o, v1alpha1.ReasonStalePlan)
	pass(t, o, noFault, noFault)
	if st := o.w.Status; st.Run.Phase != v1alpha1.RunDiscarded || st.Run.RetryAt == nil || st.Phase != v1alpha1.PhasePending || st.Reason != v1alpha1.ReasonStalePlan {
		t.Errorf("the second in a row does not rest: %s/%s, run %+v", st.Phase, st.Reason, st.Run)
	}
}

func TestLaw8ADriftPlanThatMeetsALockIsSkipped(t *testing.T) {
	o := scenes(t)["applied"]
	for o.w.Status.Run.Trigger != v1alpha1.TriggerDrift || o.w.Status.Run.Phase != v1alpha1.RunDiscarded {
		o.now = o.now.Add(10 * time.Minute)
		pass(t, o)
		setBackBy(t, o, v1alpha1.ReasonStateLocked)
	}
	pass(t, o)
	st := o.w.Status
	failed := slices.ContainsFunc(st.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionDriftCheckFailed })
	if st.Phase != v1alpha1.PhaseApplied || st.Failures != nil || failed || !strings.Contains(st.Message, v1alpha1.ReasonStateLocked) {
		t.Errorf("%s/%s %q, failures %+v, DriftCheckFailed %t", st.Phase, st.Reason, st.Message, st.Failures, failed)
	}
}

// TestANewPassTriesWhatFailedInAnEarlierOneOnce: neither the back-off nor retry.limit holds it up, and it makes no storm.
func TestANewPassTriesWhatFailedInAnEarlierOneOnce(t *testing.T) {
	o := newWorld()
	o.ordered = true
	detect(o.w, "c1")
	never := int32(0)
	o.w.Spec.Retry.Limit = &never
	runs := func(g v1alpha1.Grant) int {
		g.Scope, g.Revision = v1alpha1.ScopeRun, "c1"
		setGrant(o, g)
		o.version++
		before := len(o.revisions)
		for range 12 {
			pass(t, o)
			_ = jobEnds(o, job{state: RunFailed})
		}
		if f := o.w.Status.Failures; !isFailing(o.w) || int(f.Count) != len(o.revisions) {
			t.Fatalf("run %+v, failures %+v", o.w.Status.Run, f)
		}
		return len(o.revisions) - before
	}
	for _, c := range []struct {
		grant v1alpha1.Grant
		runs  int
	}{
		{v1alpha1.Grant{Pass: "p1"}, 1}, {v1alpha1.Grant{Pass: "p1"}, 0}, {v1alpha1.Grant{Pass: "p1", Attempt: 1}, 1}, {v1alpha1.Grant{Pass: "p1", Attempt: 1}, 0},
		{v1alpha1.Grant{Pass: "p2"}, 1}, {v1alpha1.Grant{Pass: "p2"}, 0}, {v1alpha1.Grant{Pass: "p2", Attempt: 1}, 1},
	} {
		if n := runs(c.grant); n != c.runs {
			t.Errorf("pass %s, attempt %d: %d runs, want %d", c.grant.Pass, c.grant.Attempt, n, c.runs)
		}
	}
}
