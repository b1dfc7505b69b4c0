package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/refwatcher/internal/schedule"
)

func repositorySecret(name, url, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{v1alpha1.LabelSecretType: v1alpha1.SecretTypeRepository}},
		Data:       map[string][]byte{"repoURL": []byte(url), "username": []byte("magos"), "password": []byte(password)},
	}
}

// TestACredentialGoesToNoOtherHostWhileItsSecretChanges: a poll knows its Secret by name, and by then the Secret may be for another host.
func TestACredentialGoesToNoOtherHostWhileItsSecretChanges(t *testing.T) {
	change := func(data map[string]string) func(*testing.T, client.Client) {
		return func(t *testing.T, c client.Client) {
			var secret corev1.Secret
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "git"}, &secret); err != nil {
				t.Fatal(err)
			}
			for key, value := range data {
				secret.Data[key] = []byte(value)
			}
			if err := c.Update(t.Context(), &secret); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, client.Client)
		given  bool
	}{
		"nothing changed":              {func(*testing.T, client.Client) {}, true},
		"it is for another host":       {change(map[string]string{"repoURL": "https://other.example", "password": "of the other host"}), false},
		"it is for another repository": {change(map[string]string{"repoURL": "https://example.com/other.git"}), false},
		"its password is another":      {change(map[string]string{"password": "rotated"}), false},
		"it cannot be used any more":   {change(map[string]string{"password": ""}), false},
		"another is for this repository": {func(t *testing.T, c client.Client) {
			create(t, c, repositorySecret("closer", "https://example.com/infra.git", "closer"))
		}, false},
		"it is gone": {func(t *testing.T, c client.Client) { remove(t, c, repositorySecret("git", "", "")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t)).WithObjects(repositorySecret("git", "https://example.com", "secret")).Build()
			credentials := NewCredentials(c, schemes)
			w := newWorkspace("w", "main")
			access, err := credentials.Access(t.Context(), w)
			if err != nil || access.Secret != "git" {
				t.Fatalf("access %+v, %v", access, err)
			}
			test.change(t, c)
			credential, err := credentials.Credential(t.Context(), access, schedule.WantOf(w.Spec.Source, schemes).URL)
			if given := err == nil && credential != nil && credential.Basic.Password == "secret"; given != test.given || given == (err != nil) {
				t.Fatalf("credential %v, %v; want it given: %v", credential, err, test.given)
			}

			lister := &fakeRemotes{refs: refs.Advertised{"refs/heads/main": {Object: commitA}}}
			p, _ := newTestPoller(t, NewKnowledge(settings, schemes), lister, clocktesting.NewFakeClock(began))
			p.Credentials = credentials
			answer := p.ask(t.Context(), schedule.Poll{URL: schedule.WantOf(w.Spec.Source, schemes).URL, Access: access})
			if asked := lister.listings == 1; asked != test.given || asked == (answer.Trouble != nil) {
				t.Errorf("asked the remote: %v, trouble %+v", asked, answer.Trouble)
			}
		})
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
