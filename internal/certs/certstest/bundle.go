// Package certstest makes certificates for tests that need a server but no Kubernetes.
package certstest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"magosproject.io/internal/certs"
)

// Namespace is the namespace in the certificates' names: the server of service X is called magos-X.<Namespace>.svc.
const Namespace = "magos-system"

// Bundle is ready at once, and good for the four services and for localhost. Each trusts nobody but itself.
func Bundle(tb testing.TB) *certs.Bundle {
	tb.Helper()
	data := Secret(tb)
	bundle := certs.NewBundle(certs.BundleConfig{})
	if err := bundle.Load(data[certs.KeyBundle], data[certs.KeyCertificate], data[certs.KeyPrivate]); err != nil {
		tb.Fatal(err)
	}
	return bundle
}

// Secret is the data of a Secret magos-tls that nobody else has.
func Secret(tb testing.TB) map[string][]byte {
	tb.Helper()
	secrets := fake.NewClientset().CoreV1().Secrets(Namespace)
	rotator := certs.NewRotator(certs.RotatorConfig{Secrets: secrets, Namespace: Namespace})
	if err := rotator.Rotate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	secret, err := secrets.Get(tb.Context(), certs.SecretTLS, metav1.GetOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return secret.Data
}
