package chart

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

const (
	approvedStep = magosv1alpha1.GroupName + "/approved-step"
	retryStep    = magosv1alpha1.GroupName + "/retry-step"
	abort        = magosv1alpha1.GroupName + "/abort"
	hold         = magosv1alpha1.GroupName + "/hold"
	approvedBy   = magosv1alpha1.AnnotationApprovedBy
)

// person binds roles to a new user.
func (s installed) person(t *testing.T, name string, roles ...string) client.Client {
	t.Helper()
	for _, role := range roles {
		s.bind(t, role, name)
	}
	return s.as(t, name)
}

// allowTo gives a user verbs on a resource of ours, and nothing else.
func (s installed) allowTo(t *testing.T, user, resource string, verbs ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: user}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{magosv1alpha1.GroupName}, Resources: []string{resource}, Verbs: verbs}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	} {
		if err := s.admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// removeStamps unbinds the policies that stamp approvers, and waits until the API server has seen it.
func (s installed) removeStamps(t *testing.T) {
	t.Helper()
	for _, resource := range []string{"workspaces", "rollouts"} {
		binding := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
			"metadata": map[string]any{"name": Name + "-approver-of-" + resource},
		}}
		if err := s.admin.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	workspace, rollout := s.workspace(t, "still-stamped", nil), s.rollout(t)
	deadline := time.Now().Add(3 * time.Minute)
	for s.stamped("approved", workspace) != nil || s.stamped("approved-step", rollout) != nil {
		if time.Now().After(deadline) {
			t.Fatal("approvers are still stamped")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func annotation(key string, value any) map[string]any { return metadata("annotations", key, value) }

func testCancel(t *testing.T, s installed) {
	w := s.workspace(t, "cancel", nil)
	cancel := func(value any) map[string]any { return annotation(magosv1alpha1.AnnotationCancel, value) }
	const refusal = "needs the verb cancel on workspaces"
	check(t, merge(s.as(t, byRollout), w, cancel("run-1")), refusal)
	check(t, merge(s.as(t, byWorkspace), w, cancel("run-1")), "")
	check(t, merge(s.as(t, byRollout), w, cancel("run-2")), refusal)
	check(t, merge(s.as(t, byRollout), w, annotation("example.com/note", "beside it")), "")
	check(t, merge(s.as(t, byRollout), w, cancel(nil)), "")
	check(t, merge(s.as(t, editor), w, cancel("run-3")), "")
	born := newWorkspace(s.namespace, "born-cancelled", map[string]string{magosv1alpha1.AnnotationCancel: "run-1"})
	creator := s.person(t, "somebody-who-creates-workspaces", "magos-viewer")
	s.allowTo(t, "somebody-who-creates-workspaces", "workspaces", "create")
	check(t, creator.Create(t.Context(), born), refusal)
}

func testSteering(t *testing.T, s installed) {
	r := s.rollout(t)
	const noSteer, noApprove = "needs the verb steer on rollouts", "needs the verb approve on rollouts"
	s.allowTo(t, "somebody-who-patches", "rollouts", "get", "create", "update", "patch")
	patcher, steerer, service := s.as(t, "somebody-who-patches"), s.as(t, editor), s.as(t, byRollout)
	approver := s.person(t, "somebody-who-approves-steps", "magos-editor", "magos-approver")
	dry := client.DryRunAll

	for key, value := range map[string]string{hold: "true", retryStep: "p1/dev", abort: "p1"} {
		check(t, merge(patcher, r, annotation(key, value), dry), noSteer)
		check(t, merge(steerer, r, annotation(key, value), dry), "")
		check(t, merge(service, r, annotation(key, value), dry), "")
		born := newRollout(s.namespace, "born-with-a-command", map[string]string{key: value})
		check(t, patcher.Create(t.Context(), born, dry), noSteer)
		check(t, steerer.Create(t.Context(), born, dry), "")
	}
	check(t, merge(steerer, r, annotation(approvedStep, "p1/dev"), dry), noApprove)
	check(t, merge(approver, r, annotation(approvedStep, "p1/dev"), dry), "")
	check(t, merge(service, r, annotation(approvedStep, "p1/dev"), dry), "")
	check(t, steerer.Create(t.Context(), newRollout(s.namespace, "born-approved", map[string]string{approvedStep: "p1/dev"}), dry), noApprove)

	// A hold is lifted by those alone who may hold, also by an edit that forgets it. What was commanded, anybody removes.
	check(t, merge(steerer, r, annotation(hold, "true")), "")
	check(t, merge(patcher, r, annotation(hold, nil)), "removing magosproject.io/hold "+noSteer)
	check(t, merge(patcher, r, annotation(hold, "false")), noSteer)
	check(t, merge(patcher, r, annotation("example.com/note", "beside a hold")), "")
	check(t, merge(steerer, r, annotation(hold, nil)), "")
	check(t, merge(approver, r, map[string]any{"metadata": map[string]any{"annotations": map[string]any{retryStep: "p1/dev", abort: "p1", approvedStep: "p1/dev"}}}), "")
	check(t, merge(patcher, r, map[string]any{"metadata": map[string]any{"annotations": map[string]any{retryStep: nil, abort: nil, approvedStep: nil}}}), "")
}

func testSteeringWords(t *testing.T, s installed) {
	r, person := s.rollout(t), s.person(t, "somebody-who-steers", "magos-editor", "magos-approver")
	for _, c := range []struct{ key, value, refusal string }{
		{hold, "True", "write \"true\" to pause"}, {hold, "yes", "write \"true\" to pause"}, {hold, "true", ""}, {hold, "false", ""}, {hold, "", ""},
		{approvedStep, "dev", "write <status.pass.id>/<name of the step>"}, {approvedStep, "p1/", "write <status.pass.id>"}, {approvedStep, "/dev", "write <status.pass.id>"},
		{approvedStep, "p1/eu/west one", ""}, {retryStep, "", "write <status.pass.id>"}, {retryStep, "p1/dev", ""},
		{abort, "", "write the value of status.pass.id"}, {abort, "p1/dev", "write the value of status.pass.id"}, {abort, "p1", ""},
	} {
		t.Run(c.key+"="+c.value, func(t *testing.T) {
			check(t, merge(person, r, annotation(c.key, c.value), client.DryRunAll), c.refusal)
		})
	}
}

// testApprover checks that nobody approves under another's name, and that it is known who did.
func testApprover(t *testing.T, s installed) {
	testSteeringWords(t, s)
	const ann, bob = "ann-who-approves", "bob-who-approves"
	people := map[string]client.Client{ann: s.person(t, ann, "magos-editor", "magos-approver"), bob: s.person(t, bob, "magos-editor", "magos-approver")}
	for name, c := range map[string]struct {
		object  client.Object
		key     string
		service string
	}{
		"a Workspace": {s.workspace(t, "approver", nil), magosv1alpha1.AnnotationApproved, byWorkspace},
		"a Rollout":   {s.rollout(t), approvedStep, byRollout},
	} {
		t.Run(name, func(t *testing.T) {
			wantBy := func(want string) {
				t.Helper()
				if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(c.object), c.object); err != nil {
					t.Fatal(err)
				}
				if got := c.object.GetAnnotations()[approvedBy]; got != want {
					t.Errorf("approved by %q, want %q", got, want)
				}
			}
			both := func(value, by any) map[string]any {
				return map[string]any{"metadata": map[string]any{"annotations": map[string]any{c.key: value, approvedBy: by}}}
			}
			check(t, merge(people[ann], c.object, annotation(c.key, "p1/one")), "")
			wantBy(ann)
			check(t, merge(people[bob], c.object, annotation(c.key, "p1/two")), "")
			wantBy(bob)
			// Nothing that a request says about it counts.
			check(t, merge(people[ann], c.object, both("p1/three", bob)), "")
			wantBy(ann)
			check(t, merge(people[bob], c.object, annotation(approvedBy, bob)), "")
			wantBy(ann)
			check(t, merge(people[bob], c.object, annotation(approvedBy, nil)), "")
			wantBy(ann)
			check(t, merge(people[bob], c.object, annotation("example.com/note", "beside it")), "")
			wantBy(ann)
			check(t, merge(people[bob], c.object, annotation(c.key, nil)), "")
			wantBy("")
			check(t, merge(people[bob], c.object, annotation(approvedBy, ann)), "")
			wantBy("")
			// The service names the callers of its RPCs.
			check(t, merge(s.as(t, c.service), c.object, both("p1/four", "ann@example.com")), "")
			wantBy("ann@example.com")
			check(t, merge(s.as(t, c.service), c.object, both(nil, nil)), "")
			wantBy("")
		})
	}
}

// testUnstamped takes the stamps away, as on clusters before 1.36: the validating policies alone then see to it that nobody
// approves under another's name.
func testUnstamped(t *testing.T, s installed) {
	s.removeStamps(t)
	const ann, bob = "ann-without-a-stamp", "bob-without-a-stamp"
	byAnn, byBob := s.person(t, ann, "magos-editor", "magos-approver"), s.person(t, bob, "magos-editor", "magos-approver")
	const notYours, together = "leave it out, or write your own name, ", "changes together with an approval only"
	for name, c := range map[string]struct {
		object  client.Object
		key     string
		service string
	}{
		"a Workspace": {s.workspace(t, "unstamped", nil), magosv1alpha1.AnnotationApproved, byWorkspace},
		"a Rollout":   {s.rollout(t), approvedStep, byRollout},
	} {
		t.Run(name, func(t *testing.T) {
			both := func(value, by any) map[string]any {
				return map[string]any{"metadata": map[string]any{"annotations": map[string]any{c.key: value, approvedBy: by}}}
			}
			check(t, merge(byAnn, c.object, annotation(approvedBy, ann)), together)
			check(t, merge(byAnn, c.object, both("p1/one", bob)), notYours+ann)
			check(t, merge(byAnn, c.object, both("p1/one", ann)), "")
			check(t, merge(byBob, c.object, annotation(approvedBy, bob)), together)
			check(t, merge(byBob, c.object, annotation(c.key, "p1/two")), notYours+bob)
			check(t, merge(byBob, c.object, annotation("example.com/note", "beside it")), "")
			check(t, merge(byBob, c.object, annotation(approvedBy, nil)), "")
			check(t, merge(byBob, c.object, annotation(c.key, "p1/two")), "")
			check(t, merge(s.as(t, c.service), c.object, both("p1/three", "ann@example.com")), "")
		})
	}
}
