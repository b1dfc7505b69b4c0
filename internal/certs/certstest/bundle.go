// Package certstest makes certificates for tests that need a server but no Kubernetes.
package certstest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"magosproject.io/internal/certs"
)

// Namespace is the namespace in the certificates' names: the server of service X is called magos-X.<Namespace>.svc.
const Namespace = "magos-system"

// Bundle is ready at once, and good for the four services and for localhost.
func Bundle(tb testing.TB) *certs.Bundle {
	tb.Helper()
	secrets := fake.NewClientset().CoreV1().Secrets(Namespace)
	rotator := certs.NewRotator(certs.RotatorConfig{
		Secrets: secrets, Namespace: Namespace, Services: certs.Services(),
	})
	if err := rotator.Rotate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return load(tb, secrets)
}

func load(tb testing.TB, secrets corev1client.SecretInterface) *certs.Bundle {
	tb.Helper()
	secret, err := secrets.Get(tb.Context(), certs.SecretTLS, metav1.GetOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	bundle := certs.NewBundle(certs.BundleConfig{})
	if err := bundle.Load(secret.Data[certs.KeyBundle], secret.Data[certs.KeyCertificate], secret.Data[certs.KeyPrivate]); err != nil {
		tb.Fatal(err)
	}
	return bundle
}
