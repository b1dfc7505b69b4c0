package controller

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/services/workspace/internal/inputs"
)

// Objects tells which keys referenced Secrets and ConfigMaps have, without ever keeping a value.
type Objects struct {
	metadata client.Reader
	live     client.Reader

	mutex sync.Mutex
	known map[objectKey]inputs.Object
}

type objectKey struct {
	kind string
	name types.NamespacedName
}

// NewObjects reads resourceVersions from metadata, which should be a cache of metadata, and the names of keys from live,
// which must be none: once per resourceVersion.
func NewObjects(metadata, live client.Reader) *Objects {
	return &Objects{metadata: metadata, live: live, known: map[objectKey]inputs.Object{}}
}

// Look tells of each reference. One that does not exist has the zero Object.
func (o *Objects) Look(ctx context.Context, namespace string, refs []inputs.Reference) (map[inputs.Reference]inputs.Object, error) {
	objects := make(map[inputs.Reference]inputs.Object, len(refs))
	for _, ref := range refs {
		object, err := o.look(ctx, objectKey{ref.Kind, types.NamespacedName{Namespace: namespace, Name: ref.Name}})
		if err != nil {
			return nil, fmt.Errorf("looking for %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
		}
		objects[ref] = object
	}
	return objects, nil
}

func (o *Objects) look(ctx context.Context, key objectKey) (inputs.Object, error) {
	metadata := metadataOf(key.kind)
	switch err := o.metadata.Get(ctx, key.name, metadata); {
	case apierrors.IsForbidden(err):
		return inputs.Object{Forbidden: true}, nil
	case apierrors.IsNotFound(err):
		o.forget(key)
		return inputs.Object{}, nil
	case err != nil:
		return inputs.Object{}, err
	}
	if object, ok := o.remembered(key); ok && object.ResourceVersion == metadata.ResourceVersion {
		return object, nil
	}
	object, err := o.read(ctx, key)
	if err == nil && object.ResourceVersion != "" {
		o.remember(key, object)
	}
	return object, err
}

// read gets the object and lets go of everything but the names of its keys before it returns.
func (o *Objects) read(ctx context.Context, key objectKey) (inputs.Object, error) {
	var object client.Object = &corev1.Secret{}
	if key.kind == inputs.KindConfigMap {
		object = &corev1.ConfigMap{}
	}
	switch err := o.live.Get(ctx, key.name, object); {
	case apierrors.IsForbidden(err):
		return inputs.Object{Forbidden: true}, nil
	case apierrors.IsNotFound(err):
		return inputs.Object{}, nil
	case err != nil:
		return inputs.Object{}, err
	}
	keys := map[string]bool{}
	switch object := object.(type) {
	case *corev1.Secret:
		addKeys(keys, object.Data)
	case *corev1.ConfigMap:
		addKeys(keys, object.Data)
		addKeys(keys, object.BinaryData)
	}
	return inputs.Object{ResourceVersion: object.GetResourceVersion(), Keys: keys}, nil
}

func addKeys[V any](keys map[string]bool, data map[string]V) {
	for key := range data {
		keys[key] = true
	}
}

func (o *Objects) remembered(key objectKey) (inputs.Object, bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	object, ok := o.known[key]
	return object, ok
}

func (o *Objects) remember(key objectKey, object inputs.Object) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.known[key] = object
}

func (o *Objects) forget(key objectKey) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	delete(o.known, key)
}

// LimitCache makes options keep no more of Secrets and ConfigMaps than their names and versions. Annotations must go:
// kubectl keeps whole Secrets in one.
func LimitCache(options *cache.Options) {
	if options.ByObject == nil {
		options.ByObject = map[client.Object]cache.ByObject{}
	}
	for _, kind := range []string{inputs.KindSecret, inputs.KindConfigMap} {
		options.ByObject[metadataOf(kind)] = cache.ByObject{Transform: nameAndVersion}
	}
}

func nameAndVersion(object any) (any, error) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	return object, nil
}
