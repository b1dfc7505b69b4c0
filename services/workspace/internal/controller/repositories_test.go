package controller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
)

func TestAPlanIsToldTheNamesOfTheRepositorySecretsAndNoOthers(t *testing.T) {
	h := newHarness(t)
	for name, kind := range map[string]string{"github": v1alpha1.SecretTypeRepository, "another": v1alpha1.SecretTypeRepository, "other-kind": "cluster", "plain": ""} {
		secret := &corev1.Secret{ObjectMeta: metadataNamed(name), Data: map[string][]byte{"password": []byte("s3cr3t-value")}}
		if kind != "" {
			secret.Labels = map[string]string{v1alpha1.LabelSecretType: kind}
		}
		h.create(secret)
	}
	h.running()
	w := standing()
	w.Spec.Source.RecurseSubmodules = ptr.To(false)
	h.create(project(), w)
	w = h.eventually("planning", func(w *v1alpha1.Workspace) bool { return w.Status.Run != nil && w.Status.Run.PlanStartedAt != nil })
	request := h.runner.Job("plan " + w.Status.Run.ID).Request
	if got := request.GetRepositorySecrets(); !slices.Equal(got, []string{"another", "github"}) {
		t.Errorf("the plan was told of %q", got)
	}
	if request.GetSource().GetRecurseSubmodules() {
		t.Error("submodules are fetched")
	}
	h.runner.Succeed("plan "+w.Status.Run.ID, false)
	w = h.eventually("applying", func(w *v1alpha1.Workspace) bool { return h.runner.Job("apply "+w.Status.Run.ID) != nil })
	if got := h.runner.Job("apply " + w.Status.Run.ID).Request.GetRepositorySecrets(); len(got) > 0 {
		t.Errorf("the apply was told of %q", got)
	}
}
