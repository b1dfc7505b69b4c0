package testcluster

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

// Scheme knows the kinds of Kubernetes and of Magos.
func Scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	if err := magosv1alpha1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	return scheme
}

// Client is an uncached client that may do anything.
func Client(tb testing.TB, config *rest.Config) client.WithWatch {
	tb.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Namespace makes a namespace of its own for the test. It is not removed: without a controller manager nothing would empty it.
func Namespace(tb testing.TB, c client.Client) string {
	tb.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(tb.Context(), namespace); err != nil {
		tb.Fatal(err)
	}
	return namespace.Name
}

// Token makes the ServiceAccount where it is missing and has the API server issue a token of the audience for it.
func Token(tb testing.TB, c client.Client, namespace, account, audience string) string {
	tb.Helper()
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	if err := client.IgnoreAlreadyExists(c.Create(tb.Context(), serviceAccount)); err != nil {
		tb.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	if err := c.SubResource("token").Create(tb.Context(), serviceAccount, request); err != nil {
		tb.Fatal(err)
	}
	return request.Status.Token
}
