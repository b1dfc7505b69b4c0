package controller

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// plannedForReview is the record of a plan whose review stands in the log of its pod.
func (w *world) plannedForReview(pod *corev1.Pod, run string) string {
	packed, err := runspec.Review{
		Version: runspec.Version, RunID: run, Digest: digest, Total: 1, Text: "Plan: 1 to add\n", TextBytes: 15,
		Changes: []runspec.ResourceChange{{Address: "a.b", Actions: []string{"create"}}},
	}.Encode()
	w.must(err)
	w.logs[pod.Name] = func() ([]byte, error) { return runspec.ReviewFrames(packed), nil }
	record := runspec.Record{
		Version: runspec.Version, RunID: run, Outcome: runspec.OutcomePlanned, Digest: digest, Changes: runspec.Changes{Add: 1},
		Review: runspec.ReviewSum(packed), Drifted: []string{"a.c"}, DriftedTotal: 7,
	}
	data, err := json.Marshal(record)
	w.must(err)
	return string(data)
}

func (w *world) review(run string) (runspec.Review, error) {
	return w.runs().Review(w.t.Context(), w.request(run, runspec.PhasePlan, "").Key)
}

func (w *world) unreadable(what, run, part string) {
	w.t.Helper()
	_, err := w.review(run)
	w.refused(what, err, codes.FailedPrecondition, rpcerr.ReviewUnavailable)
	if err != nil && !strings.Contains(err.Error(), part) {
		w.t.Errorf("%s: %q does not say %q", what, err, part)
	}
	if got := w.get(run, runspec.PhasePlan); got.Plan == nil || got.Plan.Review != "" || got.Plan.Unreadable == "" {
		w.t.Errorf("%s: the plan counts as one that can be read: %+v", what, got.Plan)
	}
}

func TestAPlanIsKeptForPeopleToRead(t *testing.T) {
	w := newWorld(t)
	run := w.runID("r1")
	pod := w.makePod(w.startPlan(run))
	w.kubelet(pod, corev1.PodSucceeded, exited(0, w.plannedForReview(pod, run)))
	w.must(w.settle())
	got := w.get(run, runspec.PhasePlan)
	if got.Plan == nil || got.Plan.Review == "" || got.Plan.Unreadable != "" || got.Plan.DriftedTotal != 7 || len(got.Plan.Drifted) != 1 {
		t.Fatalf("the plan is %+v", got.Plan)
	}
	// The pod and its log are needed no more.
	delete(w.logs, pod.Name)
	review, err := w.review(run)
	if err != nil || review.Text != "Plan: 1 to add\n" || len(review.Changes) != 1 {
		t.Errorf("%+v, %v", review, err)
	}
	list, err := w.runs().List(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "vpc"})
	if err != nil || len(list) != 1 || list[0].RunID != run {
		t.Errorf("the runs are %+v, %v", list, err)
	}
	if list, err = w.runs().List(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "other"}); err != nil || len(list) != 0 {
		t.Errorf("of a Workspace that does not exist: %+v, %v", list, err)
	}

	// Somebody puts another text in its place.
	config := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: w.namespace, Name: execution.ReviewName(run, got.Plan.Review)}
	w.must(w.admin.Get(t.Context(), name, config))
	if !ptr.Deref(config.Immutable, false) {
		t.Error("the record can be changed")
	}
	w.must(w.admin.Delete(t.Context(), config))
	forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, BinaryData: map[string][]byte{}}
	for key := range config.BinaryData {
		packed, err := runspec.Review{Version: runspec.Version, RunID: run, Digest: digest, Text: "No changes.\n"}.Encode()
		w.must(err)
		forged.BinaryData[key] = packed
	}
	w.must(w.admin.Create(t.Context(), forged))
	// What somebody approved by now may be the other text, so that it is not applied either.
	w.record(run, v1alpha1.RunApplying, digest)
	ws := w.workspace()
	ws.Status.Run.AutoApply = false
	w.must(w.admin.Status().Update(t.Context(), ws))
	refused := func(what string) {
		t.Helper()
		_, err := w.review(run)
		w.refused(what, err, codes.FailedPrecondition, rpcerr.ReviewUnavailable)
		_, err = w.start(run, runspec.PhaseApply, digest)
		w.refused(what+", and approved", err, codes.FailedPrecondition, rpcerr.ReviewUnavailable)
	}
	refused("a forged record")
	w.must(w.admin.Delete(t.Context(), forged))
	refused("a record that is gone")
	config.ResourceVersion, config.UID = "", ""
	w.must(w.admin.Create(t.Context(), config))
	_, err = w.start(run, runspec.PhaseApply, digest)
	w.must(err)
	_, err = w.review(w.runID("r9"))
	w.refused("a run that does not exist", err, codes.NotFound, rpcerr.RunNotFound)
}

// A plan that nobody can read succeeds, and says that it is one and why; a trouble that passes is waited for, but not for ever.
func TestAPlanThatCannotBeReadSaysSo(t *testing.T) {
	plan := func(t *testing.T, log func() ([]byte, error)) (*world, string) {
		w := newWorld(t)
		run := w.runID("r1")
		pod := w.makePod(w.startPlan(run))
		record := w.plannedForReview(pod, run)
		w.logs[pod.Name] = log
		w.kubelet(pod, corev1.PodSucceeded, exited(0, record))
		return w, run
	}
	t.Run("keeper left none", func(t *testing.T) {
		w := newWorld(t)
		run := w.runID("r1")
		w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
		w.must(w.settle())
		w.unreadable("no record", run, "left nothing")
	})
	t.Run("the log is gone", func(t *testing.T) {
		w, run := plan(t, nil)
		w.must(w.settle())
		w.unreadable("no log", run, "cannot be read")
	})
	t.Run("the log was rotated away", func(t *testing.T) {
		w, run := plan(t, func() ([]byte, error) { return []byte("level=INFO msg=planned\n"), nil })
		w.must(w.settle())
		w.unreadable("a cut log", run, "does not hold it")
	})
	t.Run("the kubelet does not answer", func(t *testing.T) {
		w, run := plan(t, func() ([]byte, error) { return nil, errors.New("dial tcp: no route to host") })
		if err := w.settle(); err == nil {
			t.Error("the trouble was not reported")
		}
		if got := w.get(run, runspec.PhasePlan); got.State != execution.StateRunning {
			t.Errorf("the plan is %s while its log may still be read", got.State)
		}
		w.later(3 * time.Minute)
		w.unreadable("a kubelet that never answered", run, "no route to host")
	})
	t.Run("it has not ended", func(t *testing.T) {
		w := newWorld(t)
		run := w.runID("r1")
		w.startPlan(run)
		_, err := w.review(run)
		w.refused("a plan that runs", err, codes.FailedPrecondition, rpcerr.ReviewUnavailable)
	})
	t.Run("nobody could have approved it", func(t *testing.T) {
		for name, parked := range map[string]func(*v1alpha1.Workspace){
			"the run was to be approved": func(ws *v1alpha1.Workspace) { ws.Status.Run.AutoApply = false },
			"it is to be approved now":   func(ws *v1alpha1.Workspace) { ws.Spec.AutoApply = ptr.To(false) },
		} {
			w, run := plan(t, nil)
			w.must(w.settle())
			w.record(run, v1alpha1.RunApplying, digest)
			ws := w.workspace()
			parked(ws)
			st := ws.Status
			w.must(w.admin.Update(t.Context(), ws))
			ws.Status = st
			w.must(w.admin.Status().Update(t.Context(), ws))
			_, err := w.start(run, runspec.PhaseApply, digest)
			w.refused(name, err, codes.FailedPrecondition, rpcerr.ReviewUnavailable)
		}
	})
	t.Run("it was applied by itself all the same", func(t *testing.T) {
		w, run := plan(t, nil)
		w.must(w.settle())
		w.record(run, v1alpha1.RunApplying, digest)
		_, err := w.start(run, runspec.PhaseApply, digest)
		w.must(err)
	})
}
