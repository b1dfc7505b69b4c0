package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

// The tests of law 9: who suspends or deletes a Workspace starts nothing new and lets a live run end.

func TestLaw9DeletingStartsNothingAndLetsALiveRunEnd(t *testing.T) {
	for name, o := range scenes(t) {
		if len(o.w.Finalizers) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			o.touched = true
			o.w.Spec.DeletionPolicy = v1alpha1.DeletionRetain
			jobs := len(o.jobs)
			deleting := events()[slices.IndexFunc(events(), func(e event) bool { return e.name == "the Workspace is deleted" })]
			if err := deleting.do(o); err != nil {
				t.Fatal(err)
			}
			for range 6 {
				live := slices.ContainsFunc(slices.Collect(maps.Values(o.jobs)), func(j job) bool { return j.live() })
				if pass(t, o); o.gone && live {
					t.Fatal("the finalizer went while a pod lived")
				}
				succeed(t, o)
			}
			started := 0
			for _, j := range o.jobs {
				if j.state != RunVoid {
					started++
				}
			}
			if !o.gone || started > jobs {
				t.Errorf("gone: %t, Jobs before %d and after %d", o.gone, jobs, started)
			}
		})
	}
}

func TestLaw9SuspendingStartsNothingAndLetsALiveRunEnd(t *testing.T) {
	for name, o := range scenes(t) {
		if o.w.DeletionTimestamp != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			jobs, runs := len(o.jobs), len(o.revisions)
			o.touched = true
			o.w.Spec.Suspend = true
			o.w.Generation++
			o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now"
			detect(o.w, "c2")
			o.version++
			for range 8 {
				running := false
				for key, j := range o.jobs {
					running = running || j.state == RunRunning
					if j.ending && j.state == RunRunning {
						t.Fatalf("%s runs and was asked to end", key)
					}
				}
				pass(t, o)
				if st := o.w.Status; running && !isLive(st.Run) {
					t.Fatalf("the run is over while its pod lives: %+v", st.Run)
				}
				_ = jobEnds(o, job{state: RunSucceeded})
				o.now = o.now.Add(time.Hour)
			}
			started := 0
			for _, j := range o.jobs {
				if j.state != RunVoid {
					started++
				}
			}
			st := &o.w.Status
			if started > jobs || len(o.revisions) > runs || isLive(st.Run) {
				t.Errorf("Jobs before %d and after %d, runs %d and %d", jobs, started, runs, len(o.revisions))
			}
			if st.Reason != v1alpha1.ReasonSuspended || st.Wants == nil || st.NextReconcileTime != nil {
				t.Errorf("%s/%s, wants %+v, next %v", st.Phase, st.Reason, st.Wants, st.NextReconcileTime)
			}
			o.w.Spec.Suspend = false
			o.w.Generation++
			setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
			o.ordered = false
			o.version++
			if pass(t, o); len(o.revisions) != runs+1 {
				t.Errorf("it does not go on: %+v", o.w.Status)
			}
		})
	}
}

// A run that may never end by itself is told of whatever it is that waits for its end.
func TestALostNodeIsToldOfWhileARunIsCancelledOrItsWorkspaceDeleted(t *testing.T) {
	const how = "the pod has not provably ended: set confirm-ended"
	lost := RunView{State: RunRunning, Reason: v1alpha1.ReasonNodeLost, Message: how}
	told := func(s Snapshot, view RunView) v1alpha1.WorkspaceStatus {
		s.Run = &view
		d := Decide(s)
		if d.Action == ActCancelRun {
			d = Cancelled(s, d, view)
		}
		return Status(s, d, Outcome{Kind: OutcomeDone})
	}
	for half, build := range map[Half]func(*testing.T) (*world, string){Plan: pendingPlan, Apply: pendingApply} {
		for name, wait := range map[string]func(*world){
			"cancelled": func(o *world) { at := stamp(o.snapshot(o.w)); o.w.Status.Run.CancelledAt = &at },
			"deleted":   func(o *world) { at := stamp(o.snapshot(o.w)); o.w.DeletionTimestamp = &at },
			"both": func(o *world) {
				at := stamp(o.snapshot(o.w))
				o.w.DeletionTimestamp, o.w.Status.Run.CancelledAt = &at, &at
			},
			"suspended": func(o *world) { o.w.Spec.Suspend = true },
		} {
			o := running(t, build)
			wait(o)
			for range 3 {
				o.w.Status = told(o.snapshot(o.w), lost)
				if st := o.w.Status; st.Reason != v1alpha1.ReasonNodeLost || strings.Count(st.Message, how) != 1 || !isLive(st.Run) {
					t.Fatalf("%s %s: %s %q", half, name, st.Reason, st.Message)
				}
			}
			if st := o.w.Status; name == "deleted" && strings.Count(st.Message, whyDeleted) != 1 {
				t.Errorf("%s %s: %q", half, name, st.Message)
			}
			if st := told(o.snapshot(o.w), RunView{State: RunRunning}); st.Reason == v1alpha1.ReasonNodeLost || strings.Contains(st.Message, how) {
				t.Errorf("%s %s: its node is back: %s %q", half, name, st.Reason, st.Message)
			}
		}
	}
}
