// Package crash lets a reconciler die at a chosen write, so that a test can start it again and see whether the end is the same.
package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// ErrCrashed is what every call returns from the crash on: a dead process neither reads nor writes.
var ErrCrashed = errors.New("crashed")

// Moment says on which side of the write the process dies.
type Moment int

// The two moments.
const (
	// Before: the write never reaches the API server.
	Before Moment = iota
	// After: the write is done, but its answer is lost.
	After
)

// Client passes calls on until the crash, and counts writes. It is safe for concurrent use.
type Client struct {
	client.WithWatch

	mutex   sync.Mutex
	at      int
	moment  Moment
	writes  []string
	crashed bool
}

// New makes a client that crashes at write number at (the first is 1), or never when at is 0.
// Calls after the crash fail until the test makes a new client, as a restarted process would.
func New(inner client.WithWatch, at int, moment Moment) *Client {
	c := &Client{at: at, moment: moment}
	c.WithWatch = interceptor.NewClient(inner, c.funcs())
	return c
}

// Writes lists the writes that were tried, the crashing one included, as "verb kind namespace/name".
func (c *Client) Writes() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]string(nil), c.writes...)
}

// Crashed reports whether the chosen write was reached.
func (c *Client) Crashed() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.crashed
}

// enter counts a write and says whether the process dies before or after it.
func (c *Client) enter(verb string, obj any) (before, after bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.crashed {
		return true, false
	}
	c.writes = append(c.writes, describe(verb, obj))
	if len(c.writes) != c.at {
		return false, false
	}
	c.crashed = true
	return c.moment == Before, c.moment == After
}

func describe(verb string, obj any) string {
	if o, ok := obj.(client.Object); ok {
		return fmt.Sprintf("%s %T %s/%s", verb, obj, o.GetNamespace(), o.GetName())
	}
	return fmt.Sprintf("%s %T", verb, obj)
}

func (c *Client) write(verb string, obj any, do func() error) error {
	before, after := c.enter(verb, obj)
	if before {
		return ErrCrashed
	}
	err := do()
	if after {
		return ErrCrashed
	}
	return err
}

func (c *Client) read(do func() error) error {
	if c.Crashed() {
		return ErrCrashed
	}
	return do()
}

func (c *Client) funcs() interceptor.Funcs {
	funcs := interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return c.read(func() error { return w.Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return c.read(func() error { return w.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return c.write("create", obj, func() error { return w.Create(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return c.write("delete", obj, func() error { return w.Delete(ctx, obj, opts...) })
		},
		DeleteAllOf: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption) error {
			return c.write("deletecollection", obj, func() error { return w.DeleteAllOf(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, w client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return c.write("update", obj, func() error { return w.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return c.write("patch", obj, func() error { return w.Patch(ctx, obj, patch, opts...) })
		},
	}
	funcs.Apply = func(ctx context.Context, w client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		return c.write("apply", obj, func() error { return w.Apply(ctx, obj, opts...) })
	}
	c.addSubresources(&funcs)
	return funcs
}

func (c *Client) addSubresources(funcs *interceptor.Funcs) {
	funcs.SubResourceApply = func(ctx context.Context, w client.Client, name string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
		return c.write("apply "+name, obj, func() error { return w.SubResource(name).Apply(ctx, obj, opts...) })
	}
	funcs.SubResourceGet = func(ctx context.Context, w client.Client, name string, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
		return c.read(func() error { return w.SubResource(name).Get(ctx, obj, sub, opts...) })
	}
	funcs.SubResourceCreate = func(ctx context.Context, w client.Client, name string, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
		return c.write("create "+name, obj, func() error { return w.SubResource(name).Create(ctx, obj, sub, opts...) })
	}
	funcs.SubResourceUpdate = func(ctx context.Context, w client.Client, name string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		return c.write("update "+name, obj, func() error { return w.SubResource(name).Update(ctx, obj, opts...) })
	}
	funcs.SubResourcePatch = func(ctx context.Context, w client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		return c.write("patch "+name, obj, func() error { return w.SubResource(name).Patch(ctx, obj, patch, opts...) })
	}
}
