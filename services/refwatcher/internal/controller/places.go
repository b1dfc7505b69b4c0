package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// placeIndex finds the Workspaces of a repository, however their URLs are spelled.
const placeIndex = "place"

// IndexPlaces makes the cache able to answer NamespacesAt.
func IndexPlaces(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.Workspace{}, placeIndex, placesOf); err != nil {
		return fmt.Errorf("indexing Workspaces by repository: %w", err)
	}
	return nil
}

// placesOf is none for a URL that is refused: nobody polls it.
func placesOf(object client.Object) []string {
	w, ok := object.(*v1alpha1.Workspace)
	if !ok {
		return nil
	}
	url, err := refs.ParseURL(w.Spec.Source.RepoURL)
	if err != nil {
		return nil
	}
	return []string{schedule.Place(url)}
}

// NamespacesAt are those with Workspaces whose repository may lie at a schedule.Place. Every replica knows them.
func NamespacesAt(ctx context.Context, workspaces client.Reader, place string) (map[string]struct{}, error) {
	var list v1alpha1.WorkspaceList
	if err := workspaces.List(ctx, &list, client.MatchingFields{placeIndex: place}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the Workspaces of a repository: %w", err)
	}
	namespaces := map[string]struct{}{}
	for i := range list.Items {
		namespaces[list.Items[i].Namespace] = struct{}{}
	}
	return namespaces, nil
}
