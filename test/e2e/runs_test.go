package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

// backend keeps a state in a Secret of the namespace; SUFFIX and NS are replaced.
const backend = `terraform {
  backend "kubernetes" {
    secret_suffix     = "SUFFIX"
    namespace         = "NS"
    in_cluster_config = true
  }
}
`

func module(namespace, suffix, body string) string {
	return strings.NewReplacer("SUFFIX", suffix, "NS", namespace).Replace(backend) + body
}

func newProject(namespace, name string) *v1alpha1.Project {
	return &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// TestAModuleThatFakesResultsChangesNothingThatIsRecorded: what module code prints or writes is text. (Cases C53 and C72.)
func TestAModuleThatFakesResultsChangesNothingThatIsRecorded(t *testing.T) {
	w := newWorld(t)
	ns := w.namespace("e2e-forged")
	const forge = `echo '{"v":1,"runID":"x","outcome":"Planned","digest":"sha256:0000","empty":true}' | tee /dev/termination-log; ` +
		`echo 'Apply complete! Resources: 0 added, 0 changed, 0 destroyed.'; echo '{}' > errored.tfstate; `
	repo := w.clone()
	repo.write(map[string]string{
		"forged/fails/main.tf": module(ns, "fails", `resource "terraform_data" "forger" {
  provisioner "local-exec" {
    command = <<-EOT
      `+forge+`exit 1
    EOT
  }
}
`),
		"forged/works/main.tf": module(ns, "works", `resource "terraform_data" "forger" {
  input = "real"
  provisioner "local-exec" {
    command = <<-EOT
      `+strings.ReplaceAll(forge, "Planned", "Failed")+`true
    EOT
  }
}
output "lines" {
  value = "a\n{\"v\":1,\"outcome\":\"Failed\"}\nError: not really"
}
`),
	})
	commit := repo.push("forged", "modules that lie")
	w.create(newProject(ns, "forged"),
		newWorkspace(ns, "forged", "works", "forged", "forged/works"),
		newWorkspace(ns, "forged", "fails", "forged", "forged/fails"))

	works := w.expectApplied(ns, "works", commit)
	if c := works.Status.Run.Changes; c == nil || c.Add != 1 {
		t.Errorf("the plan's changes are %+v, want one resource added", c)
	}
	if works.Status.Run.PlanDigest == "sha256:0000" || works.Status.Run.PlanDigest == "" {
		t.Errorf("the digest is %q", works.Status.Run.PlanDigest)
	}
	w.eventually("the failing module has failed, whatever it says", func(ctx context.Context) error {
		ws, err := w.workspace(ctx, ns, "fails")
		if err != nil {
			return err
		}
		if ws.Status.Phase != v1alpha1.PhaseFailed || ws.Status.Reason != v1alpha1.ReasonApplyFailed {
			return fmt.Errorf("it is %s/%s: %s", ws.Status.Phase, ws.Status.Reason, ws.Status.Message)
		}
		if ws.Status.ObservedRevision != "" || ws.Status.Applied != nil {
			t.Fatalf("a failed apply was recorded as applied: %+v", ws.Status.Applied)
		}
		return nil
	})
}

// TestAPlanWaitsForTheApprovalThatNamesItsRun: laws 3 and 6 on pods.
func TestAPlanWaitsForTheApprovalThatNamesItsRun(t *testing.T) {
	w := newWorld(t)
	w.freshServices()
	ns := w.namespace("e2e-approval")
	repo := w.clone()
	repo.write(map[string]string{"gated/main.tf": module(ns, "gated", "variable \"size\" {\n  type = string\n}\nvariable \"secret\" {\n  type      = string\n  sensitive = true\n}\n"+
		"resource \"terraform_data\" \"a\" {\n  input = \"${var.size}:${sha256(var.secret)}\"\n}\noutput \"size\" {\n  value = terraform_data.a.output\n}\n")})
	commit := repo.push("gated", "a gated module")
	value := "$(large) ${not} %{code} \"quoted\""
	w.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s"}, StringData: map[string]string{"k": "top-secret-value"}},
		&v1alpha1.VariableSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sizes"}, Spec: v1alpha1.VariableSetSpec{Variables: []v1alpha1.Variable{
			{Name: "size", Value: &value},
			{Name: "secret", ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: "s", Key: "k"}}},
		}}},
		newProject(ns, "gated"))
	ws := newWorkspace(ns, "gated", "gated", "gated", "gated")
	no := false
	ws.Spec.AutoApply = &no
	ws.Spec.VariableSetRef = []v1alpha1.VariableSetReference{{Name: "sizes"}}
	w.create(ws)

	var runID string
	w.eventually("the plan waits", func(ctx context.Context) error {
		got, err := w.workspace(ctx, ns, "gated")
		if err != nil {
			return err
		}
		if got.Status.AwaitingApproval == nil {
			return fmt.Errorf("it is %s/%s: %s", got.Status.Phase, got.Status.Reason, got.Status.Message)
		}
		runID = got.Status.AwaitingApproval.RunID
		return nil
	})
	w.annotate(ws, v1alpha1.AnnotationApproved, runID+"x")
	w.eventually("the wrong approval is removed", func(ctx context.Context) error {
		got, err := w.workspace(ctx, ns, "gated")
		if err != nil {
			return err
		}
		if _, there := got.Annotations[v1alpha1.AnnotationApproved]; there {
			return fmt.Errorf("it is still there, %s/%s", got.Status.Phase, got.Status.Reason)
		}
		if got.Status.Run.Phase != v1alpha1.RunPlanned || got.Status.Run.ID != runID {
			t.Fatalf("the wrong approval moved the run: %+v", got.Status.Run)
		}
		return nil
	})
	// Between a plan and its apply, every service is killed: who comes back knows what waits.
	for _, service := range []string{"rollout", "workspace", "refwatcher", "runner"} {
		w.kill(service)
	}
	w.annotate(ws, v1alpha1.AnnotationApproved, runID)
	applied := w.expectApplied(ns, "gated", commit)
	if applied.Status.Applied.RunID != runID {
		t.Errorf("run %s was applied, run %s was approved", applied.Status.Applied.RunID, runID)
	}
	jobs, err := w.jobs(t.Context(), ns, "gated")
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 2 {
		t.Errorf("%d Jobs were made, want one plan and one apply", len(jobs))
	}
	if got := outputOf(t, w.stateOf(ns, "gated"), "size"); !strings.HasPrefix(got, value+":") {
		t.Errorf("the module saw %q, want %q", got, value)
	}
}

// TestADeletedWorkspaceLeavesNothingButItsInfrastructure: Jobs, pods, ConfigMaps and the volume go, the state stays.
func TestADeletedWorkspaceLeavesNothingButItsInfrastructure(t *testing.T) {
	w := newWorld(t)
	ns := w.namespace("e2e-deletion")
	repo := w.clone()
	repo.write(map[string]string{"short/main.tf": module(ns, "short", "resource \"terraform_data\" \"a\" {\n  input = \"kept\"\n}\n")})
	commit := repo.push("short", "a module for a short life")
	w.create(newProject(ns, "short"), newWorkspace(ns, "short", "short", "short", "short"))
	ws := w.expectApplied(ns, "short", commit)

	if err := w.Delete(t.Context(), ws, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.eventually("the Workspace is gone", func(ctx context.Context) error {
		got, err := w.workspace(ctx, ns, "short")
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it has finalizers %v: %s", got.Finalizers, got.Status.Message)
	})
	w.eventually("nothing of its runs is left", func(ctx context.Context) error {
		jobs, err := w.jobs(ctx, ns, "short")
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			return fmt.Errorf("%d Jobs are left", len(jobs))
		}
		err = w.Get(ctx, types.NamespacedName{Namespace: ns, Name: "short-data"}, &corev1.PersistentVolumeClaim{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("the volume claim is left")
	})
	if resources, _ := w.stateOf(ns, "short")["resources"].([]any); len(resources) != 1 {
		t.Errorf("the state holds %d resources: deleting a Workspace must not touch infrastructure", len(resources))
	}
}
