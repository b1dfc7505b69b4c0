package chart

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster"
)

const (
	byRollout    = "system:serviceaccount:magos-system:magos-rollout"
	byWorkspace  = "system:serviceaccount:magos-system:magos-workspace"
	byRefwatcher = "system:serviceaccount:magos-system:magos-refwatcher"
	byRunner     = "system:serviceaccount:magos-system:magos-runner"
	editor       = "somebody-who-edits"
)

// installed is an API server that has the whole chart.
type installed struct {
	config    *rest.Config
	admin     client.Client
	namespace string
}

// install creates every object of the chart, and so also proves that a real API server takes each of them as it is written.
func install(t *testing.T) installed {
	t.Helper()
	// No cluster is asked while it is rendered.
	objects := render(t, map[string]any{"policies": map[string]any{"stampApprover": "Always"}})
	config := testcluster.Start(t)
	admin := testcluster.Client(t, config)
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	home := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
	if err := admin.Create(t.Context(), home); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		err := admin.Create(t.Context(), object, strict)
		if object.GetKind() == "CustomResourceDefinition" {
			err = client.IgnoreAlreadyExists(err) // testcluster has them.
		}
		if err != nil {
			t.Errorf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	s := installed{config: config, admin: admin, namespace: testcluster.Namespace(t, admin)}
	s.bind(t, "magos-editor", editor)
	s.awaitStamps(t)
	s.awaitPolicies(t)
	return s
}

func (s installed) bind(t *testing.T, role, user string) {
	t.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": map[string]any{"name": role + "-" + user, "namespace": s.namespace},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	}}
	if err := s.admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// as is a client of another user.
func (s installed) as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(s.config)
	config.Impersonate.UserName = user
	return testcluster.Client(t, config)
}

// awaitPolicies waits until each policy refuses what it is for: the API server takes them up one by one, a little later.
func (s installed) awaitPolicies(t *testing.T) {
	t.Helper()
	probe := s.workspace(t, "probe", nil)
	for policy, refused := range map[string]func() error{
		"service-annotations": func() error {
			return s.annotate(s.admin, probe, map[string]any{magosv1alpha1.AnnotationDetectedRevision: "x"}, client.DryRunAll)
		},
		"durations": func() error {
			return s.annotate(s.admin, probe, map[string]any{magosv1alpha1.AnnotationReconcileInterval: "x"}, client.DryRunAll)
		},
		"approval": func() error {
			return s.annotate(s.as(t, editor), probe, map[string]any{magosv1alpha1.AnnotationApproved: "x"}, client.DryRunAll)
		},
		"steering": func() error {
			return merge(s.as(t, editor), s.rollout(t), metadata("annotations", "magosproject.io/approved-step", "p/s"), client.DryRunAll)
		},
		"status-by-workspace": func() error { return s.patchStatus(s.admin, probe) },
		"status-by-rollout":   func() error { return s.patchStatus(s.admin, s.project(t)) },
		"run-jobs":            func() error { return s.admin.Create(t.Context(), s.job(runLabels, nil, nil), client.DryRunAll) },
		"run-pods":            func() error { return s.admin.Create(t.Context(), s.pod(runLabels), client.DryRunAll) },
	} {
		deadline := time.Now().Add(3 * time.Minute)
		for refused() == nil {
			if time.Now().After(deadline) {
				t.Fatalf("the policy %s does nothing", policy)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (s installed) workspace(t *testing.T, name string, annotations map[string]string) *magosv1alpha1.Workspace {
	t.Helper()
	workspace := newWorkspace(s.namespace, name, annotations)
	if err := s.admin.Create(t.Context(), workspace); err != nil {
		t.Fatal(err)
	}
	return workspace
}

func newWorkspace(namespace, name string, annotations map[string]string) *magosv1alpha1.Workspace {
	return &magosv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec: magosv1alpha1.WorkspaceSpec{
			ProjectRef: magosv1alpha1.ProjectReference{Name: "p"},
			Source:     magosv1alpha1.WorkspaceSource{RepoURL: "https://git.test/infra.git", TargetRevision: "main"},
			Terraform:  magosv1alpha1.TerraformSpec{Version: "1.14.8"},
		},
	}
}

func (s installed) project(t *testing.T) *magosv1alpha1.Project {
	t.Helper()
	project := &magosv1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "p-"}}
	if err := s.admin.Create(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	return project
}

// rollout creates a Rollout with a name of its own.
func (s installed) rollout(t *testing.T) *magosv1alpha1.Rollout {
	t.Helper()
	rollout := newRollout(s.namespace, "r-"+rand.String(8), nil)
	if err := s.admin.Create(t.Context(), rollout); err != nil {
		t.Fatal(err)
	}
	return rollout
}

func newRollout(namespace, name string, annotations map[string]string) *magosv1alpha1.Rollout {
	rollout := &magosv1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations}}
	rollout.Spec.ProjectRef = name
	rollout.Spec.Strategy.Steps = []magosv1alpha1.RolloutStep{{Name: "dev"}}
	return rollout
}

// errStamped says that a name was stamped.
var errStamped = errors.New("stamped")

// stamped returns errStamped where an approval by the administrator is given that one's name, and nil where it is not. Some
// seconds after a CustomResourceDefinition was made, the API server refuses what it would have to stamp.
func (s installed) stamped(annotation string, object client.Object) error {
	object = object.DeepCopyObject().(client.Object)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"magosproject.io/`+annotation+`":"p/s"}}}`))
	if err := s.admin.Patch(context.Background(), object, patch, client.DryRunAll); err != nil {
		return err
	}
	if object.GetAnnotations()[magosv1alpha1.AnnotationApprovedBy] != "" {
		return errStamped
	}
	return nil
}

// awaitStamps waits until approvals of both kinds are stamped.
func (s installed) awaitStamps(t *testing.T) {
	t.Helper()
	workspace, rollout := s.workspace(t, "probe-of-stamps", nil), s.rollout(t)
	deadline := time.Now().Add(3 * time.Minute)
	for {
		ofWorkspace, ofRollout := s.stamped("approved", workspace), s.stamped("approved-step", rollout)
		if errors.Is(ofWorkspace, errStamped) && errors.Is(ofRollout, errStamped) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("approvers are not stamped: %v, %v", ofWorkspace, ofRollout)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// annotate patches annotations; nil removes one.
func (s installed) annotate(c client.Client, w *magosv1alpha1.Workspace, annotations map[string]any, options ...client.PatchOption) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	return c.Patch(context.Background(), w.DeepCopy(), client.RawPatch(types.MergePatchType, patch), options...)
}

func (s installed) patchStatus(c client.Client, object client.Object) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"reason":"Tried"}}`))
	return c.Status().Patch(context.Background(), object.DeepCopyObject().(client.Object), patch)
}

// check compares an answer with what is expected: "" permits, anything else is part of the refusal.
func check(t *testing.T, err error, refusal string) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refusal != "" && err == nil:
		t.Errorf("permitted, want a refusal that says %q", refusal)
	case refusal != "" && !strings.Contains(err.Error(), refusal):
		t.Errorf("refused with %q, want it to say %q", err, refusal)
	}
}
