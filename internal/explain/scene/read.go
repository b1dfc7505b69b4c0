// Package scene reads what explain looks at, and writes its answer as the gRPC APIs have it.
package scene

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	"magosproject.io/internal/explain"
)

// Read reads the Project of that name, its Rollout and its Workspaces from reader, as a rule a cache. What does not exist is
// nil; what cannot be read is an error.
func Read(ctx context.Context, reader client.Reader, namespace, project string) (explain.Scene, error) {
	var s explain.Scene
	key := client.ObjectKey{Namespace: namespace, Name: project}
	p, r := &v1alpha1.Project{}, &v1alpha1.Rollout{}
	found, err := get(ctx, reader, key, p)
	if err != nil {
		return s, fmt.Errorf("reading Project %s: %w", key, err)
	}
	if found {
		s.Project = p
	}
	if found, err = get(ctx, reader, key, r); err != nil {
		return s, fmt.Errorf("reading Rollout %s: %w", key, err)
	}
	if found {
		s.Rollout = r
	}
	var list v1alpha1.WorkspaceList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return s, fmt.Errorf("listing the Workspaces of Project %s: %w", key, err)
	}
	for i := range list.Items {
		if w := &list.Items[i]; w.Spec.ProjectRef.Name == project && w.DeletionTimestamp == nil {
			s.Members = append(s.Members, w)
		}
	}
	return s, nil
}

func get(ctx context.Context, reader client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := reader.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Facts is a chain as the gRPC APIs have it.
func Facts(chain []explain.Fact) []*corepb.Fact {
	facts := make([]*corepb.Fact, 0, len(chain))
	for _, f := range chain {
		facts = append(facts, &corepb.Fact{Kind: f.Kind, Name: f.Name, Phase: f.Phase, Reason: f.Reason, Message: f.Message, Says: f.Says})
	}
	return facts
}
