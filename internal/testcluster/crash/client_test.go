package crash_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"magosproject.io/internal/testcluster/crash"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func exists(ctx context.Context, t *testing.T, c client.Client, name string) bool {
	t.Helper()
	err := c.Get(ctx, client.ObjectKeyFromObject(configMap(name)), &corev1.ConfigMap{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func TestCrashAtTheChosenWrite(t *testing.T) {
	for name, test := range map[string]struct {
		moment  crash.Moment
		written bool
	}{
		"before: the write is lost": {crash.Before, false},
		"after: only the answer is": {crash.After, true},
	} {
		t.Run(name, func(t *testing.T) {
			inner := fake.NewClientBuilder().Build()
			c := crash.New(inner, 2, test.moment)
			if err := c.Create(t.Context(), configMap("first")); err != nil {
				t.Fatal(err)
			}
			if err := c.Create(t.Context(), configMap("second")); !errors.Is(err, crash.ErrCrashed) {
				t.Errorf("second write: %v, want the crash", err)
			}
			if err := c.Create(t.Context(), configMap("third")); !errors.Is(err, crash.ErrCrashed) {
				t.Errorf("write after the crash: %v, want it refused", err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(configMap("first")), &corev1.ConfigMap{}); !errors.Is(err, crash.ErrCrashed) {
				t.Errorf("read after the crash: %v, want it refused", err)
			}
			if got := exists(t.Context(), t, inner, "second"); got != test.written {
				t.Errorf("second exists = %t, want %t", got, test.written)
			}
			if exists(t.Context(), t, inner, "third") {
				t.Error("a write after the crash was done")
			}
			if !c.Crashed() || len(c.Writes()) != 2 {
				t.Errorf("crashed = %t, writes = %v; want the crash and two writes", c.Crashed(), c.Writes())
			}
		})
	}
}

func TestWithoutACrashWritesAreCounted(t *testing.T) {
	inner := fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).Build()
	c := crash.New(inner, 0, crash.Before)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Reason = "x"
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	want := []string{"create *v1.Pod default/p", "update status *v1.Pod default/p", "delete *v1.Pod default/p"}
	got := c.Writes()
	if len(got) != len(want) {
		t.Fatalf("writes = %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("write %d = %q, want %q", i+1, got[i], want[i])
		}
	}
}
