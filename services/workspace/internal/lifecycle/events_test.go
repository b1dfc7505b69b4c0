package lifecycle

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event is something that can happen next. It returns a violated law.
type event struct {
	name string
	do   func(*world) error
}

func change(name string, do func(*world)) event {
	return event{name, func(o *world) error {
		do(o)
		o.version++
		return nil
	}}
}

func setGrant(o *world, g v1alpha1.Grant) {
	for _, name := range v1alpha1.GrantAnnotations() {
		delete(o.w.Annotations, name)
	}
	if g.Scope != "" {
		g.For = v1alpha1.GrantSubject(o.w)
		maps.Copy(o.w.Annotations, g.Annotations())
	}
	o.touched = true
}

// podStarts lets the container of the live Job run, unless it was cancelled before.
func podStarts(o *world) error {
	for key, j := range o.jobs {
		if j.state == RunPending && !j.ending {
			j.state, o.ran[key] = RunRunning, true
			o.jobs[key] = j
		}
	}
	return nil
}

// jobEnds lets the live Job, if there is one, start and end in a way. One that was cancelled before it started is void.
func jobEnds(o *world, end job) error {
	if !end.never {
		_ = podStarts(o)
	}
	for key, j := range o.jobs {
		id, half, _ := strings.Cut(key, "/")
		switch {
		case j.state == RunPending && j.ending:
			o.jobs[key] = job{state: RunVoid}
		case j.state == RunPending || j.state == RunRunning && !end.never:
			if end.digest = "sealed-" + id; half == string(Plan) && end.state == RunSucceeded {
				o.sealed[id] = end.digest
			}
			o.jobs[key] = end
			if end.reason != "" && half == string(Apply) {
				end.reason = v1alpha1.ReasonStalePlan
				o.jobs[key] = end
			}
		}
	}
	return nil
}

// jobsVanish is what somebody with a force does.
func jobsVanish(o *world) error {
	for key, j := range o.jobs {
		if j.state != RunVoid {
			o.ran[key], o.lost[key] = true, true
			delete(o.jobs, key)
		}
	}
	return nil
}

func events() []event {
	list := []event{
		{"the plan or apply succeeds, with changes", func(o *world) error { return jobEnds(o, job{state: RunSucceeded}) }},
		{"the plan succeeds, empty", func(o *world) error { return jobEnds(o, job{state: RunSucceeded, empty: true}) }},
		{"the job fails", func(o *world) error { return jobEnds(o, job{state: RunFailed}) }},
		{"the pod starts", podStarts},
		{"the job fails without having started", func(o *world) error { return jobEnds(o, job{state: RunFailed, never: true}) }},
		{"the tool finds the state locked, or its plan stale", func(o *world) error {
			return jobEnds(o, job{state: RunFailed, reason: v1alpha1.ReasonStateLocked})
		}},
		{"the jobs vanish", jobsVanish},
		{"the stalled RPC arrives", func(o *world) error {
			if c := o.pending; c != nil {
				o.pending = nil
				o.applies[c.id]++
				if o.applies[c.id] > 1 {
					return fmt.Errorf("law 4: the apply of run %s is asked for a second time", c.id)
				}
				o.startRun(*c)
			}
			return o.broken
		}},
		{"a leader stalls", func(o *world) error { o.stalled, o.stalledAt = o.w.DeepCopy(), o.version; return nil }},
		{"the stalled leader goes on", func(o *world) error {
			w, at := o.stalled, o.stalledAt
			if w == nil || o.gone {
				return nil
			}
			o.stalled = nil
			return o.passOn(w, at, noFault)
		}},
		{"time passes", func(o *world) error { o.now = o.now.Add(3 * time.Hour); return nil }},
		change("a standing grant", func(o *world) { setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass}) }),
		change("a pinned grant", func(o *world) { setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: "p1", Revision: "c1"}) }),
		change("a grant to plan", func(o *world) { setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopePlan, Pass: "p1", Revision: "c1"}) }),
		change("a grant for drift", func(o *world) { setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeDrift, Pass: "p1", Revision: "c1"}) }),
		change("the grant is taken", func(o *world) { setGrant(o, v1alpha1.Grant{}) }),
		change("a commit is detected", func(o *world) {
			next := map[string]string{"": "c1", "c1": "c2", "c2": "c1"}
			detect(o.w, next[o.w.Annotations[v1alpha1.AnnotationDetectedRevision]])
			if o.w.Spec.DiscardStalePlan {
				o.touched = true
			}
		}),
		change("variables rotate", func(o *world) {
			o.variables = 1 - o.variables
			if o.w.Spec.DiscardStalePlan {
				o.touched = true
			}
		}),
		change("a variable is lost or found", func(o *world) {
			o.missing = !o.missing
			if o.w.Spec.DiscardStalePlan {
				o.touched = true
			}
		}),
		change("the spec is edited", func(o *world) {
			next := map[string]string{"1.0.0": "1.1.0", "1.1.0": "1.0.0"}
			o.w.Spec.Terraform.Version = next[o.w.Spec.Terraform.Version]
			o.w.Generation++
			o.touched = true
		}),
		change("autoApply is turned over", func(o *world) {
			auto := !o.w.AppliesAutomatically()
			o.w.Spec.AutoApply = &auto
			o.w.Generation++
			o.touched = true
		}),
		change("the Workspace is suspended or resumed", func(o *world) {
			o.w.Spec.Suspend = !o.w.Spec.Suspend
			o.w.Generation++
			o.touched = true
		}),
		change("retries are limited or not", func(o *world) {
			limit := int32(1)
			if o.w.Spec.Retry.Limit != nil {
				o.w.Spec.Retry.Limit = nil
			} else {
				o.w.Spec.Retry.Limit = &limit
			}
			o.w.Generation++
			o.touched = true
		}),
		change("a run is requested", func(o *world) {
			o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = fmt.Sprint(o.version)
			o.touched = true
		}),
		change("the run is cancelled", func(o *world) {
			if o.w.Status.Run != nil {
				o.w.Annotations[v1alpha1.AnnotationCancel] = o.w.Status.Run.ID
				o.touched = true
			}
		}),
		change("the run is approved", func(o *world) {
			if o.w.Status.Run != nil {
				o.w.Annotations[v1alpha1.AnnotationApproved] = o.w.Status.Run.ID
			}
		}),
		change("another run is approved", func(o *world) { o.w.Annotations[v1alpha1.AnnotationApproved] = "u-1-old" }),
		change("the Project comes or goes", func(o *world) { o.project = !o.project }),
		change("the Rollout comes or goes", func(o *world) { o.ordered = !o.ordered }),
		change("the deletion policy becomes Retain", func(o *world) { o.touched = o.touched || o.w.Spec.DeletionPolicy != ""; o.w.Spec.DeletionPolicy = "" }),
		change("the destroy is abandoned", func(o *world) {
			if o.w.Spec.DeletionPolicy == v1alpha1.DeletionDestroy {
				o.w.Annotations[v1alpha1.AnnotationAbandon] = string(o.w.UID)
				o.touched = true
			}
		}),
		change("the namespace is being deleted, or not after all", func(o *world) {
			if OwesDestroy(o.w) {
				o.blocked = !o.blocked
			}
		}),
		change("the Workspace is deleted", func(o *world) {
			if o.gone = o.gone || len(o.w.Finalizers) == 0; o.w.DeletionTimestamp == nil {
				now := metav1.NewTime(o.now)
				o.w.DeletionTimestamp = &now
			}
			o.touched = true
		}),
	}
	for _, f := range []fault{noFault, lostBefore, lostAfter, crashed, writeLost, rpcHangs, startFailed} {
		list = append(list, event{"a pass; " + string(f), func(o *world) error { return o.pass(f) }})
	}
	return list
}
