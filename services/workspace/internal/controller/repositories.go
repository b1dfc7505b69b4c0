package controller

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

// RepositorySecrets names the Secrets of the namespace that are labelled as credentials of repositories, sorted. Their values are
// not read. The cache does not know labels, so the API server is asked; that happens once for each plan.
func (o *Objects) RepositorySecrets(ctx context.Context, namespace string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	err := o.live.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelSecretType: v1alpha1.SecretTypeRepository})
	if err != nil {
		return nil, fmt.Errorf("listing the repository Secrets of namespace %s: %w", namespace, err)
	}
	names := make([]string, 0, len(list.Items))
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	slices.Sort(names)
	return names, nil
}
