package controller

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
	o.behind = r.written.behind(key, o.objects())
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

// versions remembers, per Project, which versions this process has written and the cache has not shown yet.
// Deciding on an older view would only end in conflicts.
type versions struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[types.UID]string
}

func newVersions() *versions { return &versions{of: map[types.NamespacedName]map[types.UID]string{}} }

// wrote notes the version that a write has answered with.
func (v *versions) wrote(key types.NamespacedName, o client.Object) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.of[key] == nil {
		v.of[key] = map[types.UID]string{}
	}
	v.of[key][o.GetUID()] = o.GetResourceVersion()
}

// behind reports whether any of the objects is older than what was written. What was caught up with, or no longer exists, is forgotten.
func (v *versions) behind(key types.NamespacedName, objects []client.Object) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	old := map[types.UID]string{}
	for _, o := range objects {
		written, known := v.of[key][o.GetUID()]
		if !known {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), written); err == nil && order < 0 {
			old[o.GetUID()] = written
		}
	}
	if len(old) == 0 {
		delete(v.of, key)
		return false
	}
	v.of[key] = old
	return true
}
