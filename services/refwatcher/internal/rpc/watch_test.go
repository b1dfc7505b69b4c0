package rpc

import (
	"fmt"
	"slices"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	"magosproject.io/api/v1alpha1"
)

// A slow reader gets what is so now, each Workspace once, and nothing that it has already.
func TestRevisionsOfASlowReader(t *testing.T) {
	news := newRevisions("team")
	detected := func(name, commit string) *v1alpha1.Workspace {
		w := workspace(name, "https://example.com/infra.git", "main")
		if commit != "" {
			w.Annotations = map[string]string{v1alpha1.AnnotationDetectedRevision: commit, v1alpha1.AnnotationDetectedFor: v1alpha1.GrantSubject(w)}
		}
		return w
	}
	elsewhere := detected("a", commitA)
	elsewhere.Namespace = "other"
	stale := detected("edited", commitA)
	stale.Spec.Source.TargetRevision = "next"

	steps := []struct {
		name string
		note func()
		want []string
	}{
		{"what there is", func() { news.note(detected("a", commitA), false); news.note(detected("b", ""), false) }, []string{"a " + commitA + " false", "b  false"}},
		{"nothing new", func() { news.note(detected("a", commitA), false) }, nil},
		{"the newest of two", func() { news.note(detected("b", commitA), false); news.note(detected("b", commitB), false) }, []string{"b " + commitB + " false"}},
		{"a commit of the former source", func() { news.note(stale, false) }, []string{"edited  false"}},
		{"another namespace", func() { news.note(elsewhere, false) }, nil},
		{"one that is gone", func() {
			news.note(toolscache.DeletedFinalStateUnknown{Key: "team/a", Obj: detected("a", commitA)}, true)
		}, []string{"a  true"}},
		{"and comes again", func() { news.note(detected("a", commitA), false) }, []string{"a " + commitA + " false"}},
	}
	for _, step := range steps {
		step.note()
		var got []string
		for _, m := range news.take() {
			got = append(got, fmt.Sprintf("%s %s %t", m.GetWorkspace().GetName(), m.GetRevision(), m.GetDeleted()))
		}
		slices.Sort(got)
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}
