package chart

import (
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

func TestTheChartOnAnAPIServer(t *testing.T) {
	s := install(t)
	t.Run("status is written by its service alone", func(t *testing.T) { testStatus(t, s) })
	t.Run("annotations of services are set by them alone and removed by anybody", func(t *testing.T) { testServiceAnnotations(t, s) })
	t.Run("a grant is set and removed as a whole", func(t *testing.T) { testGrantWhole(t, s) })
	t.Run("approving needs the right to", func(t *testing.T) { testApproval(t, s) })
	t.Run("cancelling needs the right to", func(t *testing.T) { testCancel(t, s) })
	t.Run("steering a Rollout needs the right to", func(t *testing.T) { testSteering(t, s) })
	t.Run("who approves is written down", func(t *testing.T) { testApprover(t, s) })
	t.Run("intervals are durations", func(t *testing.T) { testDurations(t, s) })
	t.Run("saying that a lost run has ended needs the right to destroy", func(t *testing.T) { testConfirmEnded(t, s) })
	t.Run("what destroys infrastructure needs the right to destroy", func(t *testing.T) { testDestroy(t, s) })
	t.Run("log levels are those of the tools", func(t *testing.T) { testLogLevels(t, s) })
	t.Run("Jobs of runs are what the runner says", func(t *testing.T) { testRunJobs(t, s) })
	t.Run("pods of runs come from their Jobs", func(t *testing.T) { testRunPods(t, s) })
	t.Run("people have the rights of their roles", func(t *testing.T) { testUserRoles(t, s) })
	t.Run("nobody approves under another's name where nothing stamps it", func(t *testing.T) { testUnstamped(t, s) })
}

func testStatus(t *testing.T, s installed) {
	workspace, project := s.workspace(t, "status", nil), s.project(t)
	const workspaceOnly = "the status of variablesets and workspaces is written by the workspace service alone"
	check(t, s.patchStatus(s.as(t, byWorkspace), workspace), "")
	check(t, s.patchStatus(s.admin, workspace), workspaceOnly)
	check(t, s.patchStatus(s.as(t, byRollout), workspace), "forbidden") // by its role already
	check(t, s.patchStatus(s.as(t, byRollout), project), "")
	check(t, s.patchStatus(s.admin, project), "the status of projects and rollouts is written by the rollout service alone")
}

func grant() map[string]any {
	annotations := map[string]any{}
	for key, value := range (magosv1alpha1.Grant{Scope: magosv1alpha1.ScopeRun, Pass: "p1", Revision: "abc", For: "subject"}).Annotations() {
		annotations[key] = value
	}
	return annotations
}

func nothing() map[string]any {
	annotations := map[string]any{}
	for _, key := range magosv1alpha1.GrantAnnotations() {
		annotations[key] = nil
	}
	return annotations
}

func testServiceAnnotations(t *testing.T, s installed) {
	w := s.workspace(t, "annotations", nil)
	detected := func(value any) map[string]any { return map[string]any{magosv1alpha1.AnnotationDetectedRevision: value} }
	const onlyRollout, onlyRefwatcher = "only the rollout service grants runs: leave out magosproject.io/", "only the refwatcher service says"

	check(t, s.annotate(s.admin, w, grant()), onlyRollout)
	check(t, s.annotate(s.as(t, editor), w, map[string]any{magosv1alpha1.AnnotationExecutionAllowed: "true"}), onlyRollout)
	for _, other := range []string{byWorkspace, byRefwatcher, byRunner} {
		check(t, s.annotate(s.as(t, other), w, grant()), onlyRollout)
	}
	check(t, s.annotate(s.as(t, byRollout), w, grant()), "")
	check(t, s.annotate(s.as(t, editor), w, map[string]any{magosv1alpha1.AnnotationGrantedRevision: "def"}), onlyRollout)
	check(t, s.annotate(s.as(t, editor), w, map[string]any{"example.com/note": "beside a grant"}), "")
	check(t, s.annotate(s.as(t, editor), w, nothing()), "")

	check(t, s.annotate(s.as(t, editor), w, detected("abc")), onlyRefwatcher)
	check(t, s.annotate(s.as(t, byRollout), w, detected("abc")), onlyRefwatcher)
	check(t, s.annotate(s.as(t, byRefwatcher), w, detected("abc")), "")
	check(t, s.annotate(s.as(t, byRefwatcher), w, detected("def")), "")
	check(t, s.annotate(s.as(t, editor), w, map[string]any{magosv1alpha1.AnnotationDetectedFor: "subject"}), onlyRefwatcher)
	check(t, s.annotate(s.as(t, editor), w, detected(nil)), "")

	born := newWorkspace(s.namespace, "born-granted", map[string]string{magosv1alpha1.AnnotationExecutionAllowed: "true"})
	check(t, s.as(t, editor).Create(t.Context(), born), onlyRollout)

	// What `kubectl replace` does: the manifest knows nothing of the annotations.
	check(t, s.annotate(s.as(t, byRollout), w, grant()), "")
	current := &magosv1alpha1.Workspace{}
	if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(w), current); err != nil {
		t.Fatal(err)
	}
	current.Annotations = nil
	check(t, s.as(t, editor).Update(t.Context(), current), "")
}

func testGrantWhole(t *testing.T, s installed) {
	w := s.workspace(t, "whole", nil)
	const whole = "a grant is set and removed as a whole"
	rollout := s.as(t, byRollout)
	for _, key := range magosv1alpha1.GrantAnnotations() {
		part := maps.Clone(grant())
		delete(part, key)
		refusal := whole
		if key == magosv1alpha1.AnnotationGrantedRevision || key == magosv1alpha1.AnnotationGrantedAttempt {
			refusal = "" // Absent without a Rollout, and before the first fresh attempt.
		}
		t.Run("without "+key, func(t *testing.T) { check(t, s.annotate(rollout, w, part, client.DryRunAll), refusal) })
	}
	check(t, s.annotate(rollout, w, grant()), "")
	check(t, s.annotate(rollout, w, map[string]any{magosv1alpha1.AnnotationExecutionAllowed: nil}), whole)
	check(t, s.annotate(s.as(t, editor), w, map[string]any{magosv1alpha1.AnnotationExecutionAllowed: nil}), whole)
	check(t, s.annotate(rollout, w, nothing()), "")
}

func testApproval(t *testing.T, s installed) {
	w := s.workspace(t, "approval", nil)
	approved := func(value any) map[string]any { return map[string]any{magosv1alpha1.AnnotationApproved: value} }
	const refusal = "needs the verb approve on workspaces"
	check(t, s.annotate(s.as(t, editor), w, approved("run-1")), refusal)
	check(t, s.annotate(s.as(t, byRollout), w, approved("run-1")), refusal)
	check(t, s.annotate(s.as(t, byWorkspace), w, approved("run-1")), "")
	check(t, s.annotate(s.as(t, editor), w, approved(nil)), "")

	const both = "somebody-who-edits-and-approves"
	s.bind(t, "magos-editor", both)
	s.bind(t, "magos-approver", both)
	check(t, s.annotate(s.as(t, both), w, approved("run-1")), "")
	check(t, s.annotate(s.as(t, editor), w, approved("run-2")), refusal)
	check(t, s.annotate(s.as(t, editor), w, map[string]any{"example.com/note": "beside an approval"}), "")
	born := newWorkspace(s.namespace, "born-approved", map[string]string{magosv1alpha1.AnnotationApproved: "run-1"})
	check(t, s.as(t, editor).Create(t.Context(), born), refusal)
}

func testDurations(t *testing.T, s installed) {
	w := s.workspace(t, "durations", nil)
	person := s.as(t, editor)
	const refusal = "write a Go duration greater than zero, such as 90s, 30m or 1h30m"
	for _, key := range []string{magosv1alpha1.AnnotationReconcileInterval, magosv1alpha1.AnnotationGitPollInterval} {
		for value, refused := range map[string]bool{
			"5s": false, "30m": false, "1h30m": false, "1.5h": false, "250ms": false, "999999h": false,
			"": true, "5": true, "0s": true, "0h0m": true, "-5m": true, "5 m": true, "five minutes": true, "1d": true, "m": true,
			"999999h999999h999999h": true, "99999999999h": true, "5m;": true,
		} {
			t.Run(key+"="+value, func(t *testing.T) {
				want := ""
				if refused {
					want = refusal
				}
				err := s.annotate(person, w, map[string]any{key: value}, client.DryRunAll)
				check(t, err, want)
				if refused && err != nil && !strings.Contains(err.Error(), key+` is "`+value+`"`) {
					t.Errorf("the refusal %q does not name %s and its value", err, key)
				}
			})
		}
	}
	born := newWorkspace(s.namespace, "born-wrong", map[string]string{magosv1alpha1.AnnotationGitPollInterval: "often"})
	check(t, person.Create(t.Context(), born), refusal)
}

func testConfirmEnded(t *testing.T, s installed) {
	w := s.workspace(t, "confirm-ended", nil)
	confirm := func(value any) map[string]any { return map[string]any{magosv1alpha1.AnnotationConfirmEnded: value} }
	const refusal = "needs the verb destroy on workspaces"
	check(t, s.annotate(s.as(t, editor), w, confirm("run-1")), refusal)
	for _, service := range []string{byWorkspace, byRollout} {
		check(t, s.annotate(s.as(t, service), w, confirm("run-1")), refusal)
	}
	const both = "somebody-who-edits-and-destroys"
	s.bind(t, "magos-editor", both)
	s.bind(t, "magos-destroyer", both)
	check(t, s.annotate(s.as(t, both), w, confirm("run-1")), "")
	check(t, s.annotate(s.as(t, editor), w, map[string]any{"example.com/note": "beside a confirmation"}), "")
	check(t, s.annotate(s.as(t, editor), w, confirm("run-2")), refusal)
	check(t, s.annotate(s.as(t, editor), w, confirm(nil)), "")
	born := newWorkspace(s.namespace, "born-confirmed", map[string]string{magosv1alpha1.AnnotationConfirmEnded: "run-1"})
	check(t, s.as(t, editor).Create(t.Context(), born), refusal)

	abandon := map[string]any{magosv1alpha1.AnnotationAbandon: string(w.UID)}
	for _, user := range []string{editor, byWorkspace, byRollout} {
		check(t, s.annotate(s.as(t, user), w, abandon), "setting magosproject.io/abandon "+refusal)
	}
	check(t, s.annotate(s.as(t, both), w, abandon), "")
	check(t, s.annotate(s.as(t, editor), w, map[string]any{magosv1alpha1.AnnotationAbandon: nil}), "")
}

func testDestroy(t *testing.T, s installed) {
	const refusal = "needs the verb destroy on workspaces"
	const destroyer = "somebody-who-destroys"
	s.bind(t, "magos-editor", destroyer)
	s.bind(t, "magos-destroyer", destroyer)
	w := s.workspace(t, "to-be-destroyed", nil)
	policy := func(value any) map[string]any { return map[string]any{"spec": map[string]any{"deletionPolicy": value}} }
	check(t, merge(s.as(t, editor), w, policy("Destroy")), refusal)
	check(t, merge(s.as(t, destroyer), w, policy("Delete")), "Unsupported value")
	check(t, merge(s.as(t, destroyer), w, policy("Destroy")), "")
	check(t, s.annotate(s.as(t, editor), w, map[string]any{"example.com/note": "beside the policy"}), "")
	check(t, s.as(t, editor).Delete(t.Context(), w), refusal)
	check(t, merge(s.as(t, editor), w, policy("Retain")), "")
	check(t, s.as(t, editor).Delete(t.Context(), w), "")
	born := newWorkspace(s.namespace, "born-to-be-destroyed", nil)
	born.Spec.DeletionPolicy = magosv1alpha1.DeletionDestroy
	check(t, s.as(t, editor).Create(t.Context(), born), refusal)
	check(t, s.as(t, destroyer).Create(t.Context(), born), "")
	check(t, s.as(t, destroyer).Delete(t.Context(), born), "")
}

func testLogLevels(t *testing.T, s installed) {
	w := s.workspace(t, "log-levels", nil)
	person := s.as(t, editor)
	level := func(value any) map[string]any { return map[string]any{magosv1alpha1.AnnotationTFLogLevel: value} }
	for _, good := range magosv1alpha1.TFLogLevels() {
		check(t, s.annotate(person, w, level(good), client.DryRunAll), "")
	}
	for _, bad := range []string{"", "debug", "ALL", "TRACE ", "JSON"} {
		check(t, s.annotate(person, w, level(bad), client.DryRunAll), "write TRACE, DEBUG, INFO, WARN or ERROR")
	}
	check(t, s.annotate(person, w, level("DEBUG")), "")
	check(t, s.annotate(person, w, level(nil)), "")
	born := newWorkspace(s.namespace, "born-loud", map[string]string{magosv1alpha1.AnnotationTFLogLevel: "loud"})
	check(t, person.Create(t.Context(), born), "write TRACE, DEBUG, INFO, WARN or ERROR")
}

func testUserRoles(t *testing.T, s installed) {
	w := s.workspace(t, "roles", nil)
	const viewer, approver = "somebody-who-views", "somebody-who-approves"
	s.bind(t, "magos-viewer", viewer)
	s.bind(t, "magos-approver", approver)
	note := map[string]any{"example.com/note": "x"}
	for _, user := range []string{viewer, approver} {
		check(t, s.as(t, user).Get(t.Context(), client.ObjectKeyFromObject(w), &magosv1alpha1.Workspace{}), "")
		check(t, s.annotate(s.as(t, user), w, note), "forbidden")
	}
	check(t, s.annotate(s.as(t, editor), w, note), "")
	check(t, s.as(t, editor).Delete(t.Context(), w), "")
}
