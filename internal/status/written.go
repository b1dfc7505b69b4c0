package status

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written remembers, per reconciled key, which versions of objects this process has written and its cache has not shown yet.
// A decision on an older view would only end in a conflict. The zero value is ready, and safe for concurrent use.
type Written struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[types.UID]string
}

// Note remembers the version that a write has answered with.
func (w *Written) Note(key types.NamespacedName, o client.Object) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.of == nil {
		w.of = map[types.NamespacedName]map[types.UID]string{}
	}
	if w.of[key] == nil {
		w.of[key] = map[types.UID]string{}
	}
	w.of[key][o.GetUID()] = o.GetResourceVersion()
}

// Behind reports whether any of the objects is older than what was written for the key. What was caught up with, or is not
// among the objects any more, is forgotten.
func (w *Written) Behind(key types.NamespacedName, objects ...client.Object) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	old := map[types.UID]string{}
	for _, o := range objects {
		written, known := w.of[key][o.GetUID()]
		if !known {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), written); err == nil && order < 0 {
			old[o.GetUID()] = written
		}
	}
	if len(old) == 0 {
		delete(w.of, key)
		return false
	}
	w.of[key] = old
	return true
}
