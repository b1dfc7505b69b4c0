package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
)

// The stories of this file follow one another on the demo's Project, as a user's day does.

func TestPromotion(t *testing.T) {
	w := newWorld(t)
	repo := w.clone()
	first := repo.head()
	t.Run("make up takes three Workspaces to Applied, in order", func(t *testing.T) {
		w := newWorld(t)
		w.expectRolledOut(first)
		w.expectOrder(first)
		for _, step := range demo.Steps {
			state := w.stateOf(demo.Namespace, step)
			if resources, _ := state["resources"].([]any); len(resources) < 2 {
				t.Errorf("the state of %s holds %d resources, want the greeting and its date", step, len(resources))
			}
			if greeting := outputOf(t, state, "greeting"); !strings.Contains(greeting, step) || !strings.Contains(greeting, "the platform team") {
				t.Errorf("the greeting of %s is %q: it lacks the step or the variable of the VariableSet", step, greeting)
			}
		}
	})
	t.Run("a second make up changes nothing", func(t *testing.T) {
		w := newWorld(t)
		before := w.fingerprint()
		if err := magosLocal(t.Context(), "up", "--name", clusterName); err != nil {
			t.Fatal(err)
		}
		if after := w.fingerprint(); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	})
	t.Run("a second commit makes a second pass", func(t *testing.T) {
		w := newWorld(t)
		pass := w.pass()
		repo.write(map[string]string{demo.MessageFile: "Good evening\n"})
		second := repo.push("main", "another greeting")
		w.expectRolledOut(second)
		w.expectOrder(second)
		if w.pass() == pass {
			t.Errorf("the second commit was promoted in the first pass, %s", pass)
		}
		if greeting := outputOf(t, w.stateOf(demo.Namespace, "prod"), "greeting"); !strings.HasPrefix(greeting, "Good evening, prod") {
			t.Errorf("prod's greeting is %q", greeting)
		}
	})
	t.Run("a step whose module fails keeps prod at its old commit, and mending the module resumes without help", func(t *testing.T) {
		w := newWorld(t)
		old := repo.head()
		good := repo.git("show", "HEAD:env/staging/main.tf")
		repo.write(map[string]string{"env/staging/main.tf": good + "\nresource \"terraform_data\" \"broken\" {\n  input = file(\"does-not-exist\")\n}\n"})
		broken := repo.push("main", "break staging")
		w.expectApplied(demo.Namespace, demo.Project+"-dev", broken)
		w.eventually("staging has failed and says why", func(ctx context.Context) error {
			ws, err := w.demoWorkspace(ctx, "staging")
			if err != nil {
				return err
			}
			if ws.Status.Phase != v1alpha1.PhaseFailed || ws.Status.Reason != v1alpha1.ReasonPlanFailed || !strings.Contains(ws.Status.Message, "does-not-exist") {
				return fmt.Errorf("it is %s/%s: %s", ws.Status.Phase, ws.Status.Reason, ws.Status.Message)
			}
			return nil
		})
		w.eventually("the Rollout has halted", func(ctx context.Context) error {
			ro := &v1alpha1.Rollout{}
			if err := w.Get(ctx, client.ObjectKey{Namespace: demo.Namespace, Name: demo.Project}, ro); err != nil {
				return err
			}
			if ro.Status.Phase != v1alpha1.RolloutFailed || ro.Status.Reason != v1alpha1.ReasonWorkspaceFailed || !strings.Contains(ro.Status.Message, "demo-staging") {
				return fmt.Errorf("it is %s/%s: %s", ro.Status.Phase, ro.Status.Reason, ro.Status.Message)
			}
			return nil
		})
		w.eventually("prod waits for its turn", func(ctx context.Context) error {
			prod, err := w.demoWorkspace(ctx, "prod")
			if err != nil {
				return err
			}
			if prod.Status.Phase != v1alpha1.PhasePending || prod.Status.Reason != v1alpha1.ReasonAwaitingRollout {
				return fmt.Errorf("it is %s/%s", prod.Status.Phase, prod.Status.Reason)
			}
			if prod.Status.ObservedRevision != old {
				t.Fatalf("prod is at %s, want its old commit %s", prod.Status.ObservedRevision, old)
			}
			return nil
		})

		repo.write(map[string]string{"env/staging/main.tf": good + "\n"})
		mended := repo.push("main", "mend staging")
		w.expectRolledOut(mended)
		w.expectOrder(mended)
	})
}

// expectOrder checks that no step started the commit before the step before it was Applied at it.
func (w world) expectOrder(commit string) {
	w.Helper()
	var before *v1alpha1.Workspace
	for _, step := range demo.Steps {
		ws, err := w.demoWorkspace(w.Context(), step)
		if err != nil {
			w.Fatal(err)
		}
		if ws.Status.Applied == nil || ws.Status.Applied.Revision != commit {
			w.Fatalf("%s: applied is %+v, want %s", step, ws.Status.Applied, commit)
		}
		jobs, err := w.jobs(w.Context(), ws.Namespace, ws.Name)
		if err != nil {
			w.Fatal(err)
		}
		found := false
		for _, job := range jobs {
			if job.Labels[v1alpha1.LabelRunID] != ws.Status.Applied.RunID {
				continue
			}
			found = true
			if before != nil && job.CreationTimestamp.Time.Before(before.Status.Applied.At.Time) {
				w.Errorf("Job %s of %s was made at %s, before %s was Applied at %s", job.Name, ws.Name, job.CreationTimestamp, before.Name, before.Status.Applied.At)
			}
		}
		if !found {
			w.Errorf("no Job of run %s of %s is left to look at", ws.Status.Applied.RunID, ws.Name)
		}
		before = ws
	}
}

// fingerprint is what a second make up must leave alone: every object of Magos and its runs, at its version.
func (w world) fingerprint() string {
	w.Helper()
	var b strings.Builder
	line := func(kind string, obj client.Object) {
		fmt.Fprintf(&b, "%s %s/%s %s generation %d\n", kind, obj.GetNamespace(), obj.GetName(), obj.GetUID(), obj.GetGeneration())
	}
	for _, step := range demo.Steps {
		ws, err := w.demoWorkspace(w.Context(), step)
		if err != nil {
			w.Fatal(err)
		}
		line("Workspace", ws)
		jobs, err := w.jobs(w.Context(), ws.Namespace, ws.Name)
		if err != nil {
			w.Fatal(err)
		}
		for i := range jobs {
			line("Job", &jobs[i])
		}
	}
	for _, pod := range w.servicePods("") {
		line("Pod", &pod)
	}
	return b.String()
}

func (w world) pass() string {
	w.Helper()
	ro := &v1alpha1.Rollout{}
	if err := w.Get(w.Context(), types.NamespacedName{Namespace: demo.Namespace, Name: demo.Project}, ro); err != nil {
		w.Fatal(err)
	}
	if ro.Status.Pass == nil {
		w.Fatal("the Rollout had no pass yet")
	}
	return ro.Status.Pass.ID
}
