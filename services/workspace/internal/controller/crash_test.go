package controller

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
	"magosproject.io/services/workspace/internal/peertest"
)

func metadataNamed(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// meddler lets somebody else write just before the status is.
type meddler struct {
	client.WithWatch
	before func()
}

func (m *meddler) Status() client.SubResourceWriter { return &meddlingWriter{m.WithWatch.Status(), m} }

type meddlingWriter struct {
	client.SubResourceWriter
	m *meddler
}

func (w *meddlingWriter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	w.m.before()
	return w.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// wantSameEnd asserts that a run that was disturbed once ended like one that was not: applied, once. A crash between the
// intent to apply and the apply itself costs the run, never the law: the next one plans again.
func wantSameEnd(h *harness) {
	h.Helper()
	w := h.until("applied", applied)
	if w.Status.ObservedRevision != commitA || w.Status.Failures != nil {
		h.Errorf("observed %s, failures %+v", w.Status.ObservedRevision, w.Status.Failures)
	}
	h.checkRuns(1)
	if plans := len(h.started("plan")); plans > 2 {
		h.Errorf("%d plans", plans)
	}
	if h.runner.Job("apply "+w.Status.Applied.RunID) == nil {
		h.Errorf("status names run %s, which was never applied", w.Status.Applied.RunID)
	}
}

func TestCrashAtEveryWrite(t *testing.T) {
	undisturbed := newHarness(t)
	undisturbed.runner.Auto = true
	undisturbed.create(project(), standing())
	undisturbed.until("applied", applied)
	writes := len(undisturbed.process.Writes())
	t.Logf("an undisturbed run takes %d writes: %v", writes, undisturbed.process.Writes())
	if plans := len(undisturbed.started("plan")); plans != 1 || writes < 5 {
		t.Fatalf("%d plans and %d writes without any crash", plans, writes)
	}
	for n := 1; n <= writes; n++ {
		for moment, side := range map[crash.Moment]string{crash.Before: "before", crash.After: "after"} {
			t.Run(fmt.Sprintf("%s write %d", side, n), func(t *testing.T) {
				h := newHarness(t)
				h.runner.Auto = true
				h.create(project(), standing())
				h.restart(n, moment)
				process := h.process
				wantSameEnd(h)
				if !process.Crashed() {
					t.Error("the process never crashed")
				}
			})
		}
	}
}

func TestLoseEveryRPC(t *testing.T) {
	undisturbed := newHarness(t)
	undisturbed.runner.Auto = true
	undisturbed.create(project(), standing())
	undisturbed.until("applied", applied)
	calls := len(undisturbed.runner.Calls())
	t.Logf("an undisturbed run takes %d calls: %v", calls, undisturbed.runner.Calls())
	if calls < 4 {
		t.Fatal("too few")
	}
	for k := 1; k <= calls; k++ {
		for side, what := range map[peertest.Side]string{peertest.Request: "request", peertest.Answer: "answer"} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("the %s of call %d is lost, restart %t", what, k, restart), func(t *testing.T) {
					h := newHarness(t)
					h.runner.Auto = true
					h.create(project(), standing())
					h.runner.Lose(k, side)
					if restart {
						h.until("the call is lost", func(*v1alpha1.Workspace) bool { return len(h.runner.Calls()) >= k })
						h.restart(0, crash.Before)
					}
					wantSameEnd(h)
				})
			}
		}
	}
}

func metadataWithAnnotation(name, key, value string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{key: value}}
}
