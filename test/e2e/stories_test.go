package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

// TestWhatPeopleAndFaultsDoToRuns: each story has a Workspace, a branch and a state of its own in one namespace, all at the same time.
func TestWhatPeopleAndFaultsDoToRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ns := w.namespace("e2e-stories")
	w.create(newProject(ns, "stories"))
	// The namespace is to outlive the stories, which go on after the function that starts them.
	t.Run("stories", func(t *testing.T) {
		for _, c := range []struct {
			name, claim string
			story       func(story)
		}{
			{"cancelled", "an apply that is cancelled is interrupted, lets go of the state and rests", cancelledApply},
			{"timed-out", "an apply that takes too long is interrupted and lets go of the state", timedOutApply},
			{"deleted", "an apply whose pod is deleted is planned and applied again without help", deletedPod},
			{"by-hand", "what somebody changes by hand is found, shown and mended", changedByHand},
			{"destroyed", "a Workspace that is to destroy does so before it goes, though its Project is gone", destroyedWithItsWorkspace},
			{"discarded", "a plan that waits is given up for a newer commit, and its approval too", discardedPlan},
		} {
			t.Run(c.claim, func(t *testing.T) {
				t.Parallel()
				c.story(newStory(newWorld(t), ns, c.name))
			})
		}
	})
}

// story is one Workspace with its branch.
type story struct {
	repository
	ns, name string
	ws       *v1alpha1.Workspace
}

func newStory(w world, ns, name string) story {
	w.Helper()
	return story{repository: w.clone(), ns: ns, name: name, ws: newWorkspace(ns, "stories", name, name, name)}
}

// commit pushes a module of one resource whose creation takes so many seconds.
func (s story) commit(input string, seconds int) string {
	s.Helper()
	body := fmt.Sprintf("resource \"terraform_data\" \"a\" {\n  input = %q\n  provisioner \"local-exec\" {\n    command = \"sleep %d\"\n  }\n}\n", input, seconds)
	s.write(map[string]string{s.name + "/main.tf": module(s.ns, s.name, body)})
	return s.push(s.name, fmt.Sprintf("%s takes %d s", input, seconds))
}

// until waits until the Workspace is as holds wants it.
func (s story) until(what string, holds func(*v1alpha1.Workspace) bool) *v1alpha1.Workspace {
	s.Helper()
	var ws *v1alpha1.Workspace
	s.eventually(s.name+": "+what, func(ctx context.Context) (err error) {
		if ws, err = s.workspace(ctx, s.ns, s.name); err != nil {
			return err
		}
		if !holds(ws) {
			return fmt.Errorf("it is %s/%s: %s", ws.Status.Phase, ws.Status.Reason, ws.Status.Message)
		}
		return nil
	})
	return ws
}

// applying waits until the tool of an apply has made its first resource wait, and returns the pod.
func (s story) applying() (pod corev1.Pod) {
	s.Helper()
	s.eventually(s.name+" applies", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := s.List(ctx, pods, client.InNamespace(s.ns), client.MatchingLabels{v1alpha1.LabelWorkspace: s.name, v1alpha1.LabelRunPhase: "apply"}); err != nil {
			return err
		}
		for _, pod = range pods.Items {
			if pod.Status.Phase != corev1.PodRunning {
				continue
			}
			log, err := s.kubectl(ctx, "logs", "-n", s.ns, pod.Name, "--all-containers")
			if err != nil {
				return fmt.Errorf("%w: %s", err, log)
			}
			if strings.Contains(log, "Provisioning with 'local-exec'") {
				return nil
			}
		}
		return fmt.Errorf("none of %d pods has begun", len(pods.Items))
	})
	return pod
}

// expectLetGo pushes a module that ends at once: it is applied only where nobody left a lock behind.
func (s story) expectLetGo() {
	s.Helper()
	mended := s.commit("mended", 0)
	s.expectApplied(s.ns, s.name, mended)
}

func cancelledApply(s story) {
	s.commit("slow", 600)
	s.create(s.ws)
	s.applying()
	run := s.until("has a run", func(ws *v1alpha1.Workspace) bool { return ws.Status.Run != nil }).Status.Run.ID
	s.annotate(s.ws, v1alpha1.AnnotationCancel, run)
	rested := s.until("rests", func(ws *v1alpha1.Workspace) bool {
		return ws.Status.Phase == v1alpha1.PhaseFailed && ws.Status.Reason == v1alpha1.ReasonCancelled
	})
	if rested.Status.Run.ID != run || rested.Status.Applied != nil || rested.Status.ObservedRevision != "" {
		s.Errorf("after the cancel: run %+v, applied %+v at %q", rested.Status.Run, rested.Status.Applied, rested.Status.ObservedRevision)
	}
	if !strings.Contains(rested.Status.Message, v1alpha1.AnnotationReconcileRequest) {
		s.Errorf("the message does not say how to go on: %q", rested.Status.Message)
	}
	s.expectLetGo()
}

func timedOutApply(s story) {
	limit := int64(5)
	s.ws.Spec.Apply.TimeoutSeconds = &limit
	s.commit("slow", 600)
	s.create(s.ws)
	failed := s.until("has timed out", func(ws *v1alpha1.Workspace) bool {
		return ws.Status.Phase == v1alpha1.PhaseFailed && ws.Status.Reason == v1alpha1.ReasonTimedOut
	})
	if failed.Status.Applied != nil || failed.Status.ObservedRevision != "" {
		s.Errorf("a timeout counts as applied: %+v at %q", failed.Status.Applied, failed.Status.ObservedRevision)
	}
	s.expectLetGo()
}

func deletedPod(s story) {
	s.ws.Annotations[v1alpha1.AnnotationReconcileInterval] = "5s"
	commit := s.commit("slow", 20)
	s.create(s.ws)
	pod := s.applying()
	if err := s.Delete(s.Context(), &pod); err != nil {
		s.Fatal(err)
	}
	first := s.until("has failed", func(ws *v1alpha1.Workspace) bool { return ws.Status.Failures != nil }).Status.Failures
	if first.LastReason != v1alpha1.ReasonInterrupted {
		s.Errorf("the failure is %s: %s", first.LastReason, first.Message)
	}
	ws := s.expectApplied(s.ns, s.name, commit)
	if ws.Status.Applied.RunID == pod.Labels[v1alpha1.LabelRunID] {
		s.Errorf("run %s was interrupted and counts as applied", ws.Status.Applied.RunID)
	}
	if resources := s.resources(); resources != 1 {
		s.Errorf("the state holds %d resources, want one", resources)
	}
}

func changedByHand(s story) {
	no := false
	s.ws.Spec.AutoApply = &no
	s.ws.Annotations[v1alpha1.AnnotationReconcileInterval] = "10s"
	commit := s.commit("as-declared", 0)
	s.create(s.ws)
	waits := func(ws *v1alpha1.Workspace) bool { return ws.Status.AwaitingApproval != nil }
	first := s.until("waits for the first approval", waits)
	s.annotate(s.ws, v1alpha1.AnnotationApproved, first.Status.AwaitingApproval.RunID)
	applied := s.expectApplied(s.ns, s.name, commit)
	if applied.Status.Drift != nil {
		s.Errorf("drift before anybody changed anything: %+v", applied.Status.Drift)
	}

	s.changeState("as-declared", "by-hand")
	found := s.until("waits with the drift that was found", waits)
	run, drift := found.Status.Run, found.Status.Drift
	if run.Trigger != v1alpha1.TriggerDrift || run.Revision != commit || run.Changes == nil || run.Changes.Change != 1 {
		s.Errorf("the run is %+v, want one change to be made at %s for drift", run, commit)
	}
	if drift == nil || drift.RunID != run.ID {
		s.Fatalf("status.drift is %+v, want that of run %s", drift, run.ID)
	}
	s.annotate(s.ws, v1alpha1.AnnotationApproved, run.ID)
	s.until("is mended", func(ws *v1alpha1.Workspace) bool {
		return ws.Status.Phase == v1alpha1.PhaseApplied && ws.Status.Drift == nil && ws.Status.Applied.RunID != first.Status.AwaitingApproval.RunID
	})
	if text := s.stateText(); !strings.Contains(text, "as-declared") || strings.Contains(text, "by-hand") {
		s.Errorf("the state after the drift was mended:\n%s", text)
	}
}

func discardedPlan(s story) {
	no := false
	s.ws.Spec.AutoApply, s.ws.Spec.DiscardStalePlan = &no, true
	s.commit("first", 0)
	s.create(s.ws)
	old := s.until("waits for approval", func(ws *v1alpha1.Workspace) bool { return ws.Status.AwaitingApproval != nil }).Status.AwaitingApproval.RunID
	second := s.commit("second", 0)
	run := s.until("waits with the newer commit", func(ws *v1alpha1.Workspace) bool {
		return ws.Status.AwaitingApproval != nil && ws.Status.Run.Revision == second
	}).Status.AwaitingApproval.RunID
	if run == old {
		s.Fatalf("run %s plans two commits", run)
	}
	s.annotate(s.ws, v1alpha1.AnnotationApproved, old)
	s.until("the approval of the plan that was given up is removed", func(ws *v1alpha1.Workspace) bool {
		_, there := ws.Annotations[v1alpha1.AnnotationApproved]
		return !there
	})
	waits := s.until("still waits", func(ws *v1alpha1.Workspace) bool { return ws.Status.AwaitingApproval != nil })
	if waits.Status.AwaitingApproval.RunID != run {
		s.Errorf("run %s waits, want %s", waits.Status.AwaitingApproval.RunID, run)
	}
	s.annotate(s.ws, v1alpha1.AnnotationApproved, run)
	applied := s.expectApplied(s.ns, s.name, second)
	if applied.Status.Applied.RunID != run {
		s.Errorf("run %s was applied, run %s was approved", applied.Status.Applied.RunID, run)
	}
	if text := s.stateText(); strings.Contains(text, "first") {
		s.Errorf("something of the plan that was given up was applied:\n%s", text)
	}
}

func destroyedWithItsWorkspace(s story) {
	project := newProject(s.ns, s.name)
	s.ws.Spec.ProjectRef.Name = s.name
	s.ws.Spec.DeletionPolicy = v1alpha1.DeletionDestroy
	commit := s.commit("short-lived", 0)
	s.create(project, s.ws)
	s.expectApplied(s.ns, s.name, commit)
	if resources := s.resources(); resources != 1 {
		s.Fatalf("the state holds %d resources, want one", resources)
	}
	if err := s.Delete(s.Context(), project); err != nil {
		s.Fatal(err)
	}
	if err := s.Delete(s.Context(), s.ws); err != nil {
		s.Fatal(err)
	}
	s.eventually(s.name+" is gone", func(ctx context.Context) error {
		ws, err := s.workspace(ctx, s.ns, s.name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is %s/%s: %s", ws.Status.Phase, ws.Status.Reason, ws.Status.Message)
	})
	if resources := s.resources(); resources != 0 {
		s.Errorf("the Workspace went and left %d resources", resources)
	}
}

// resources counts what the state holds.
func (s story) resources() int {
	s.Helper()
	resources, _ := s.stateOf(s.ns, s.name)["resources"].([]any)
	return len(resources)
}

// changeState does by hand what nobody should: it edits what the backend keeps.
func (s story) changeState(from, to string) {
	s.Helper()
	text := strings.ReplaceAll(s.stateText(), from, to)
	var zipped bytes.Buffer
	out := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(out, text); err != nil {
		s.Fatal(err)
	}
	if err := out.Close(); err != nil {
		s.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := s.Get(s.Context(), client.ObjectKey{Namespace: s.ns, Name: "tfstate-default-" + s.name}, secret); err != nil {
		s.Fatal(err)
	}
	secret.Data["tfstate"] = zipped.Bytes()
	if err := s.Update(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
}

func (s story) stateText() string {
	s.Helper()
	return s.stateTextOf(s.ns, s.name)
}
