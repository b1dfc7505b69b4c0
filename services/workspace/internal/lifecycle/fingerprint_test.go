package lifecycle

import (
	"testing"

	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
)

func TestSubmodulesArePartOfTheFingerprintWhereTheyAreLeftOut(t *testing.T) {
	fingerprint := func(recurse *bool) string {
		w := &v1alpha1.Workspace{}
		w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: "https://h/x", RecurseSubmodules: recurse}
		return SpecFingerprint(w).Spec
	}
	// Workspaces from before there was the field have none; they must not run because of it.
	if fingerprint(nil) != fingerprint(ptr.To(true)) {
		t.Error("the default is another fingerprint than none")
	}
	if fingerprint(nil) == fingerprint(ptr.To(false)) {
		t.Error("leaving submodules out does not count")
	}
}
