package v1alpha1

import (
	"maps"
	"testing"
)

func workspaceWith(annotations map[string]string) *Workspace {
	w := &Workspace{}
	w.Spec.ProjectRef.Name = "networking"
	w.Spec.Source = WorkspaceSource{RepoURL: "https://example.com/infra.git", TargetRevision: "main"}
	w.Annotations = annotations
	return w
}

const commit = "6f1c2d3e4b5a69788796a5b4c3d2e1f001122334"

func TestAGrantIsReadOnlyWhenItIsCompleteAndForThisSource(t *testing.T) {
	subject := GrantSubject(workspaceWith(nil))
	pinned := Grant{Scope: ScopeRun, Pass: "p1", Revision: commit, For: subject}
	standing := Grant{Scope: ScopeRun, Pass: StandingPass, For: subject}
	without := func(g Grant, keys ...string) map[string]string {
		a := g.Annotations()
		for _, k := range keys {
			delete(a, k)
		}
		return a
	}
	with := func(g Grant, key, value string) map[string]string {
		a := maps.Clone(g.Annotations())
		a[key] = value
		return a
	}
	cases := map[string]struct {
		annotations map[string]string
		ordered     bool
		want        Grant
		ok          bool
	}{
		"nothing":                                  {nil, false, Grant{}, false},
		"a pinned grant under a Rollout":           {pinned.Annotations(), true, pinned, true},
		"a grant to plan only":                     {with(pinned, AnnotationGrantedScope, "Plan"), true, Grant{Scope: ScopePlan, Pass: pinned.Pass, Revision: pinned.Revision, For: subject}, true},
		"a standing grant without a Rollout":       {standing.Annotations(), false, standing, true},
		"a standing grant left over":               {standing.Annotations(), true, Grant{}, false},
		"a bare word without a Rollout":            {map[string]string{AnnotationExecutionAllowed: "true"}, false, standing, true},
		"a bare word under a Rollout":              {map[string]string{AnnotationExecutionAllowed: "true"}, true, Grant{}, false},
		"another word than true":                   {with(pinned, AnnotationExecutionAllowed, "yes"), true, Grant{}, false},
		"without execution-allowed":                {without(pinned, AnnotationExecutionAllowed), true, Grant{}, false},
		"without a scope":                          {without(pinned, AnnotationGrantedScope), true, Grant{}, false},
		"without a pass":                           {without(pinned, AnnotationGrantedPass), true, Grant{}, false},
		"without a commit under a Rollout":         {without(pinned, AnnotationGrantedRevision), true, Grant{}, false},
		"without saying for what":                  {without(pinned, AnnotationGrantedFor), true, Grant{}, false},
		"with a scope that this release knows not": {with(pinned, AnnotationGrantedScope, "Everything"), true, Grant{}, false},
		"a fresh attempt":                          {with(pinned, AnnotationGrantedAttempt, "2"), true, Grant{Scope: ScopeRun, Pass: "p1", Revision: commit, For: subject, Attempt: 2}, true},
		"an attempt that is no number":             {with(pinned, AnnotationGrantedAttempt, "two"), true, Grant{}, false},
		"an attempt before the first":              {with(pinned, AnnotationGrantedAttempt, "-1"), true, Grant{}, false},
		"for another source":                       {with(pinned, AnnotationGrantedFor, "0123"), true, Grant{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := ReadGrant(workspaceWith(tc.annotations), tc.ordered)
			if got != tc.want || ok != tc.ok {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestEveryGrantAnnotationIsRevoked(t *testing.T) {
	revoked := map[string]bool{}
	for _, key := range GrantAnnotations() {
		revoked[key] = true
	}
	for key := range (Grant{Scope: ScopeRun, Pass: "p", Revision: commit, For: "x", Attempt: 1}).Annotations() {
		if !revoked[key] {
			t.Errorf("revoking leaves %s behind", key)
		}
	}
}

func TestTheSubjectOfAGrantChangesWithWhatWasGranted(t *testing.T) {
	seen := map[string]string{GrantSubject(workspaceWith(nil)): "the original"}
	for name, edit := range map[string]func(*Workspace){
		"another project":    func(w *Workspace) { w.Spec.ProjectRef.Name = "payments" },
		"another repository": func(w *Workspace) { w.Spec.Source.RepoURL += "x" },
		"another revision":   func(w *Workspace) { w.Spec.Source.TargetRevision = "next" },
		"a shifted boundary": func(w *Workspace) {
			w.Spec.Source.RepoURL = "https://example.com/infra.gitm"
			w.Spec.Source.TargetRevision = "ain"
		},
	} {
		w := workspaceWith(nil)
		edit(w)
		if other, ok := seen[GrantSubject(w)]; ok {
			t.Errorf("%s has the subject of %s", name, other)
		}
		seen[GrantSubject(w)] = name
	}
	w := workspaceWith(nil)
	w.Spec.Source.Path = "elsewhere"
	if _, ok := seen[GrantSubject(w)]; !ok {
		t.Error("the path is no part of the subject: a spec edit continues the same pass")
	}
}

func TestADetectedRevisionCountsForTheSourceItWasDetectedFor(t *testing.T) {
	subject := GrantSubject(workspaceWith(nil))
	cases := map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":                  {nil, ""},
		"for this source":       {map[string]string{AnnotationDetectedRevision: commit, AnnotationDetectedFor: subject}, commit},
		"for another source":    {map[string]string{AnnotationDetectedRevision: commit, AnnotationDetectedFor: "0123"}, ""},
		"for nobody knows what": {map[string]string{AnnotationDetectedRevision: commit}, ""},
	}
	for name, tc := range cases {
		if got := DetectedRevision(workspaceWith(tc.annotations)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
