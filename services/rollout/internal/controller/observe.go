package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/rollout/internal/progression"
)

// observed is a Snapshot and where it comes from.
type observed struct {
	progression.Snapshot
	key types.NamespacedName
	// behind is true while the cache does not show yet what this process wrote.
	behind bool
}

// observe reads the Project, its Rollout and its Workspaces. What does not exist is nil; what cannot be read is an error.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observed, error) {
	o := &observed{key: key}
	project, rollout := &v1alpha1.Project{}, &v1alpha1.Rollout{}
	found, err := get(ctx, r.config.Client, key, project)
	if err != nil {
		return nil, fmt.Errorf("reading the Project: %w", err)
	}
	if found {
		o.Project = project
	}
	if found, err = get(ctx, r.config.Client, key, rollout); err != nil {
		return nil, fmt.Errorf("reading the Rollout: %w", err)
	}
	if found {
		o.Rollout = rollout
	}
	var list v1alpha1.WorkspaceList
	if err := r.config.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{projectIndex: key.Name}); err != nil {
		return nil, fmt.Errorf("listing the Workspaces of the Project: %w", err)
	}
	for i := range list.Items {
		o.Members = append(o.Members, &list.Items[i])
	}
	o.Resolved = map[progression.Key]progression.Resolution{}
	o.behind = r.written.Behind(key, o.objects()...)
	if o.Project == nil && o.Rollout == nil && len(o.Members) == 0 {
		r.pins.forget(key)
		r.lazy.forget(key)
	}
	return o, nil
}

func (o *observed) objects() []client.Object {
	objects := make([]client.Object, 0, len(o.Members)+2)
	if o.Project != nil {
		objects = append(objects, o.Project)
	}
	if o.Rollout != nil {
		objects = append(objects, o.Rollout)
	}
	for _, m := range o.Members {
		objects = append(objects, m)
	}
	return objects
}

// get reports whether the object exists.
func get(ctx context.Context, reader client.Reader, key types.NamespacedName, into client.Object) (bool, error) {
	err := reader.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
