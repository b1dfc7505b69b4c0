package status_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
)

func TestACacheIsBehindUntilItShowsWhatWasWritten(t *testing.T) {
	key := types.NamespacedName{Namespace: "team", Name: "vpc"}
	at := func(uid types.UID, version string) *magosv1alpha1.Workspace {
		w := &magosv1alpha1.Workspace{}
		w.UID, w.ResourceVersion = uid, version
		return w
	}
	var written status.Written
	if written.Behind(key, at("u", "1")) {
		t.Error("behind, and nothing was written")
	}
	written.Note(key, at("u", "90"))
	for version, want := range map[string]bool{"9": true, "89": true} {
		if written.Behind(key, at("u", version)) != want {
			t.Errorf("a cache at %s, after 90 was written: want behind %t", version, want)
		}
	}
	if written.Behind(types.NamespacedName{Namespace: "team", Name: "other"}, at("u", "1")) {
		t.Error("behind because of what was written for another key")
	}
	if written.Behind(key, at("u", "100")) || written.Behind(key, at("u", "1")) {
		t.Error("still behind, or behind again, after the cache had caught up")
	}
	written.Note(key, at("u", "100"))
	if written.Behind(key, at("another", "1")) {
		t.Error("an object that took the name of the written one waits for it")
	}
	written.Note(key, at("u", "100"))
	if written.Behind(key) || written.Behind(key, at("u", "1")) {
		t.Error("what is gone is not forgotten")
	}
}
