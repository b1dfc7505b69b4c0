package lifecycle

import (
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scenes are the states from which the walk sets out, so that a modest depth reaches every corner.
func scenes(tb testing.TB) map[string]*world {
	tb.Helper()
	all := map[string]*world{"new": newWorld()}
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	build := func(auto bool, steps int, pinned bool) *world {
		o := newWorld()
		o.w.Spec.AutoApply = &auto
		detect(o.w, "c1")
		g := v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass}
		if pinned {
			o.ordered, g = true, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p1", Revision: "c1"}
		}
		setGrant(o, g)
		for range steps {
			must(o.pass(noFault))
			must(jobEnds(o, job{state: RunSucceeded}))
		}
		return o
	}
	all["started"] = build(true, 3, false)
	all["planned"] = withoutGrantFor(tb, build(true, 3, false))
	all["applying"] = build(true, 4, true)
	all["plan pending"] = build(true, 2, false)
	must(all["plan pending"].pass(noFault))
	all["apply pending"] = build(true, 3, false)
	must(all["apply pending"].pass(noFault))
	all["applied"] = build(true, 8, false)
	all["applied in a pass"] = build(true, 8, true)
	looking := build(true, 8, true)
	looking.now = looking.now.Add(3 * time.Hour)
	setGrant(looking, v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "p2", Revision: "c1"})
	must(looking.pass(noFault))
	must(looking.pass(noFault))
	all["a drift plan in a later pass"] = looking
	all["awaiting approval"] = build(false, 6, false)
	all["awaiting approval in a pass"] = build(false, 6, true)
	discarding := build(false, 6, false)
	discarding.w.Spec.DiscardStalePlan = true
	all["awaiting approval, stale plans discarded"] = discarding
	destroying := func(auto bool, steps int) *world {
		o := build(auto, 8, false)
		if !auto {
			o.w.Annotations[v1alpha1.AnnotationApproved] = o.w.Status.Run.ID
			for range 4 {
				must(o.pass(noFault))
				must(jobEnds(o, job{state: RunSucceeded}))
			}
		}
		o.w.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
		deleteIt(o)
		for range steps {
			must(o.pass(noFault))
			must(jobEnds(o, job{state: RunSucceeded}))
		}
		return o
	}
	all["destroy applying"] = destroying(true, 4)
	all["destroy awaiting approval"] = destroying(false, 5)
	failed := build(true, 4, false)
	failed.w.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
	must(failed.pass(noFault))
	must(podStarts(failed))
	all["applying for the first time, to be destroyed"] = failed
	return all
}

// withoutGrantFor lets a plan end while its grant is away for a pass: with it, the plan would not rest at the gate.
func withoutGrantFor(tb testing.TB, o *world) *world {
	tb.Helper()
	g, _ := v1alpha1.ReadGrant(o.w, o.ordered)
	for _, name := range v1alpha1.GrantAnnotations() {
		delete(o.w.Annotations, name)
	}
	if err := o.pass(noFault); err != nil {
		tb.Fatal(err)
	}
	setGrant(o, g)
	o.version++
	if run := o.w.Status.Run; run.Phase != v1alpha1.RunPlanned {
		tb.Fatalf("the run is %s", run.Phase)
	}
	return o
}

func deleteIt(o *world) {
	now := metav1.NewTime(o.now)
	o.w.DeletionTimestamp = &now
	o.version++
}
