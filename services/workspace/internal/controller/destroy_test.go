package controller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster/crash"
)

// blockedBy is a Workspace whose destroy is held, which its condition says too.
func blockedBy(reason string) func(*v1alpha1.Workspace) bool {
	return func(w *v1alpha1.Workspace) bool {
		c := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionDestroyBlocked)
		return w.Status.Reason == reason && c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
	}
}

// isGone reports whether the workspace service has let the Workspace go: what is left waits for the runner, which this harness has not.
func (h *harness) isGone() bool {
	h.Helper()
	return !slices.Contains(h.workspace().Finalizers, v1alpha1.FinalizerWorkspace)
}

func (h *harness) deleteAll(objects ...client.Object) {
	h.Helper()
	for _, o := range objects {
		if err := h.admin.Delete(h.Context(), o); err != nil {
			h.Fatal(err)
		}
	}
}

// untilGone passes until the Workspace is no more.
func (h *harness) untilGone() {
	h.Helper()
	for range 50 {
		if h.isGone() {
			return
		}
		pause, err := h.pass()
		if err != nil {
			h.Fatal(err)
		}
		h.advance(pause)
	}
	h.Fatalf("it stays: %+v", h.workspace().Status)
}

// toBeDestroyed brings a Workspace to Applied whose deletion destroys what it has applied.
func (h *harness) toBeDestroyed(others ...client.Object) {
	h.Helper()
	h.runner.Auto = true
	w := standing()
	w.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
	if len(others) > 0 {
		w.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "shared"}}
	}
	h.create(append(others, project(), w)...)
	h.until("applied", applied)
}

// TestDestroyUsesWhatWasAppliedLast goes through the whole deletion: Project, VariableSet and Secret are gone and the spec says
// something else; what is missing is said and waited for; crashes are survived; the plan waits for approval.
func TestDestroyUsesWhatWasAppliedLast(t *testing.T) {
	h := newHarness(t)
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Namespace: h.namespace}, Data: map[string][]byte{"token": []byte(value)}}
	}
	set := &v1alpha1.VariableSet{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	set.Spec.Variables = []v1alpha1.Variable{
		{Name: "region", Value: ptr.To("eu")},
		{Name: "token", ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "cloud", Key: "token"}}},
	}
	h.toBeDestroyed(secret("x"), set)
	planned := h.runner.Job("plan " + h.workspace().Status.Run.ID).Request
	h.edit(func(w *v1alpha1.Workspace) {
		w.Spec.Source.RepoURL, w.Spec.Terraform.Version, w.Spec.AutoApply = "https://git.example.com/other.git", "1.0.0", ptr.To(false)
	})
	parent := project()
	parent.Namespace = h.namespace
	h.deleteAll(secret(""), set, parent, h.workspace())
	h.until("blocked by the missing Secret", blockedBy(v1alpha1.ReasonUnresolvedVariables))
	if started := h.runner.Started(); len(started) != 2 {
		t.Fatalf("started %v", started)
	}
	h.create(secret("y"))
	for _, moment := range []crash.Moment{crash.Before, crash.After, crash.Before, crash.After} {
		h.restart(1, moment)
		_, _ = h.pass()
	}
	h.restart(0, crash.Before)
	waits := h.until("awaiting approval", func(w *v1alpha1.Workspace) bool { return w.Status.AwaitingApproval != nil })
	run := waits.Status.Run
	request := h.runner.Job("plan " + run.ID).Request
	if run.Trigger != v1alpha1.TriggerDestroy || !request.GetDestroy() {
		t.Fatalf("the run is %+v", run)
	}
	if request.GetSource().String() != planned.GetSource().String() || request.GetTool().String() != planned.GetTool().String() || len(request.GetVariables()) != 2 ||
		request.GetVariables()[0].String() != planned.GetVariables()[0].String() || request.GetVariables()[1].String() != planned.GetVariables()[1].String() {
		t.Errorf("the destroy is given\n%v\nand not what was applied:\n%v", request, planned)
	}
	h.annotate(v1alpha1.AnnotationApproved, run.ID)
	h.untilGone()
	h.checkRuns(2)
	if apply := h.runner.Job("apply " + run.ID).Request; !apply.GetDestroy() || apply.GetSource().String() != planned.GetSource().String() {
		t.Errorf("the apply is given %v", apply)
	}
}

// TestDestroyWaitsVisiblyUntilItIsAbandoned: nothing is started in a namespace that is being deleted or with inputs that nobody
// knows, and no word but the Workspace's UID abandons it.
func TestDestroyWaitsVisiblyUntilItIsAbandoned(t *testing.T) {
	for reason, hinder := range map[string]func(h *harness){
		v1alpha1.ReasonInputsLost: func(h *harness) { h.runner.Delete("plan " + h.workspace().Status.Run.ID) },
		v1alpha1.ReasonNamespaceTerminating: func(h *harness) {
			h.deleteAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
		},
	} {
		t.Run(reason, func(t *testing.T) {
			h := newHarness(t)
			h.toBeDestroyed()
			hinder(h)
			h.deleteAll(h.workspace())
			h.until("blocked", blockedBy(reason))
			h.annotate(v1alpha1.AnnotationAbandon, "true")
			h.passes(5)
			if h.isGone() {
				t.Fatal("any word abandons it")
			}
			h.annotate(v1alpha1.AnnotationAbandon, string(h.workspace().UID))
			h.untilGone()
			h.checkRuns(1)
		})
	}
}

// TestDestroyOfWhatNeverAppliedStartsNothing: there is nothing to destroy.
func TestDestroyOfWhatNeverAppliedStartsNothing(t *testing.T) {
	h := newHarness(t)
	w := standing()
	w.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
	h.create(project(), w)
	h.until("planning", in(v1alpha1.RunPlanning))
	h.deleteAll(h.workspace())
	h.untilGone()
	if started := h.runner.Started(); len(started) > 0 {
		t.Errorf("started %v", started)
	}
}
