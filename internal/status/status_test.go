package status_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/internal/testcluster"
	"magosproject.io/internal/testcluster/crash"
)

var config *rest.Config

func TestMain(m *testing.M) {
	testcluster.Main(m, func(c *rest.Config) { config = c })
}

// setUp makes a Project and a client that counts its writes.
func setUp(t *testing.T) (*crash.Client, *magosv1alpha1.Project) {
	t.Helper()
	c := testcluster.Client(t, config)
	project := &magosv1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: testcluster.Namespace(t, c), Name: "platform"}}
	if err := c.Create(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	return crash.New(c, 0, crash.Before), project
}

func TestPatchStatusWritesStatusAndNothingElse(t *testing.T) {
	c, project := setUp(t)
	after := project.DeepCopy()
	after.Spec.Description = "must not be written"
	status.SetCondition(&after.Status.Conditions, "Ready", metav1.ConditionTrue, "DefaultParallel", "all may run", project.Generation)
	if err := status.PatchStatus(t.Context(), c, project, after); err != nil {
		t.Fatal(err)
	}
	read := &magosv1alpha1.Project{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(project), read); err != nil {
		t.Fatal(err)
	}
	if len(read.Status.Conditions) != 1 || read.Status.Conditions[0].Reason != "DefaultParallel" {
		t.Errorf("conditions = %+v, want the one that was set", read.Status.Conditions)
	}
	if read.Spec.Description != "" {
		t.Errorf("description = %q: the spec was written", read.Spec.Description)
	}
	if after.ResourceVersion != read.ResourceVersion {
		t.Errorf("after has resourceVersion %s, want the server's %s", after.ResourceVersion, read.ResourceVersion)
	}
}

func TestNoDifferenceMakesNoCall(t *testing.T) {
	c, project := setUp(t)
	if err := status.PatchStatus(t.Context(), c, project, project.DeepCopy()); err != nil {
		t.Error(err)
	}
	if err := status.PatchAnnotations(t.Context(), c, project, nil, []string{"magosproject.io/approved"}); err != nil {
		t.Error(err)
	}
	if err := status.PatchFinalizers(t.Context(), c, project, nil); err != nil {
		t.Error(err)
	}
	if writes := c.Writes(); len(writes) != 0 {
		t.Errorf("writes = %v, want none", writes)
	}
}

func TestStaleVersionConflicts(t *testing.T) {
	c, stale := setUp(t)
	newer := stale.DeepCopy()
	if err := status.PatchAnnotations(t.Context(), c, newer, map[string]string{"someone": "else"}, nil); err != nil {
		t.Fatal(err)
	}
	expectAllConflict(t, c, stale)
}

// A successor of the same name is another object: a decision about the old one must not land on it.
func TestSuccessorConflicts(t *testing.T) {
	c, old := setUp(t)
	if err := c.Delete(t.Context(), old.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	successor := &magosv1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name}}
	if err := c.Create(t.Context(), successor); err != nil {
		t.Fatal(err)
	}
	expectAllConflict(t, c, old)

	// Even a mixed-up object, with the successor's own resourceVersion, is told apart by its uid.
	old.ResourceVersion = successor.ResourceVersion
	if err := status.PatchAnnotations(t.Context(), c, old, map[string]string{"a": "b"}, nil); !apierrors.IsInvalid(err) {
		t.Errorf("PatchAnnotations: %v, want it refused for the uid", err)
	}
}

func TestDeletedObjectIsNotCreated(t *testing.T) {
	c, project := setUp(t)
	if err := c.Delete(t.Context(), project.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	err := status.PatchAnnotations(t.Context(), c, project, map[string]string{"a": "b"}, nil)
	if !apierrors.IsNotFound(err) {
		t.Errorf("error = %v, want not found", err)
	}
}

func expectAllConflict(t *testing.T, c client.Client, project *magosv1alpha1.Project) {
	t.Helper()
	after := project.DeepCopy()
	after.Status.Conditions = nil
	status.SetCondition(&after.Status.Conditions, "Ready", metav1.ConditionTrue, "X", "", 1)
	if err := status.PatchStatus(t.Context(), c, project, after); !apierrors.IsConflict(err) {
		t.Errorf("PatchStatus: %v, want a conflict", err)
	}
	if err := status.PatchAnnotations(t.Context(), c, project.DeepCopy(), map[string]string{"a": "b"}, nil); !apierrors.IsConflict(err) {
		t.Errorf("PatchAnnotations: %v, want a conflict", err)
	}
	if err := status.PatchFinalizers(t.Context(), c, project.DeepCopy(), []string{"magosproject.io/workspace"}); !apierrors.IsConflict(err) {
		t.Errorf("PatchFinalizers: %v, want a conflict", err)
	}
}

func TestAnnotationsAreSetAndRemovedInOneWrite(t *testing.T) {
	c, project := setUp(t)
	if err := status.PatchAnnotations(t.Context(), c, project, map[string]string{"keep": "1", "drop": "1"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := status.PatchAnnotations(t.Context(), c, project, map[string]string{"keep": "2", "new": "1"}, []string{"drop", "absent"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"keep": "2", "new": "1"}
	for key, value := range want {
		if project.Annotations[key] != value {
			t.Errorf("annotation %s = %q, want %q", key, project.Annotations[key], value)
		}
	}
	if _, found := project.Annotations["drop"]; found {
		t.Error("annotation drop is still there")
	}
	if writes := c.Writes(); len(writes) != 2 {
		t.Errorf("writes = %v, want two", writes)
	}
}

func TestObjectThatWasNeverReadIsRefused(t *testing.T) {
	c, _ := setUp(t)
	made := &magosv1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	if err := status.PatchAnnotations(t.Context(), c, made, map[string]string{"a": "b"}, nil); err == nil {
		t.Error("a patch without uid and resourceVersion was sent")
	}
	if writes := c.Writes(); len(writes) != 0 {
		t.Errorf("writes = %v, want none", writes)
	}
}

func TestSetCondition(t *testing.T) {
	var conditions []metav1.Condition
	if !status.SetCondition(&conditions, "Ready", metav1.ConditionFalse, "A", "m", 1) {
		t.Error("a new condition changes nothing")
	}
	first := conditions[0].LastTransitionTime
	if status.SetCondition(&conditions, "Ready", metav1.ConditionFalse, "A", "m", 1) {
		t.Error("the same condition is a change")
	}
	if !status.SetCondition(&conditions, "Ready", metav1.ConditionFalse, "B", strings.Repeat("ä", 40000), 2) {
		t.Error("another reason is no change")
	}
	got := conditions[0]
	if got.Reason != "B" || got.ObservedGeneration != 2 || got.LastTransitionTime != first {
		t.Errorf("condition = %s %d %v, want reason B, generation 2, and the first transition time", got.Reason, got.ObservedGeneration, got.LastTransitionTime)
	}
	if length := len([]rune(got.Message)); length != 32768 {
		t.Errorf("the message has %d characters, want the 32768 that the schema takes", length)
	}
}
