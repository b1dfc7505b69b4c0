package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
	"magosproject.io/services/rollout/internal/progression"
)

// patchesAtOnce bounds the writes of one decision that are on their way together.
const patchesAtOnce = 8

// revoke takes every grant that is not wanted any more. A grant to run that becomes one for drift alone is taken
// first and given anew afterwards: nothing may run longer than its step for want of a later write.
func (r *Reconciler) revoke(ctx context.Context, o *observed, d progression.Decision) error {
	var taken []*v1alpha1.Workspace
	for _, m := range o.Members {
		held := heldGrant(m)
		if len(held) == 0 {
			continue
		}
		want, ok := d.Grants[m.Name]
		narrower := want.Scope == v1alpha1.ScopeDrift && held[v1alpha1.AnnotationGrantedScope] != string(v1alpha1.ScopeDrift)
		if !ok || m.DeletionTimestamp != nil || narrower {
			taken = append(taken, m)
		}
	}
	return r.patchAll(ctx, o, taken, func(m *v1alpha1.Workspace) error {
		if err := status.PatchAnnotations(ctx, r.config.Client, m, nil, v1alpha1.GrantAnnotations()); err != nil {
			return fmt.Errorf("taking the grant: %w", err)
		}
		r.config.Metrics.revocations.Inc()
		return nil
	})
}

// grant gives what is missing, after the decision it follows from was found to be the present one. A new Workspace is granted once
// the workspace service has taken it up: before that no run can begin, and both would write to it at once.
func (r *Reconciler) grant(ctx context.Context, o *observed, d progression.Decision, recorded recorded, now time.Time) error {
	var given []*v1alpha1.Workspace
	for _, m := range o.Members {
		if g, ok := d.Grants[m.Name]; ok && m.DeletionTimestamp == nil && isTakenUp(m) && !maps.Equal(g.Annotations(), heldGrant(m)) {
			given = append(given, m)
		}
	}
	if len(given) == 0 {
		return nil
	}
	if err := r.confirm(ctx, o, recorded); err != nil {
		return err
	}
	return r.patchAll(ctx, o, given, func(m *v1alpha1.Workspace) error {
		g := d.Grants[m.Name]
		if err := status.PatchAnnotations(ctx, r.config.Client, m, g.Annotations(), v1alpha1.GrantAnnotations()); err != nil {
			return fmt.Errorf("granting: %w", err)
		}
		r.config.Metrics.granted(g, m, now)
		return nil
	})
}

func isTakenUp(m *v1alpha1.Workspace) bool {
	return slices.Contains(m.Finalizers, v1alpha1.FinalizerWorkspace)
}

// patchAll writes to several Workspaces at once and joins what went wrong. A conflict among it stays one.
func (r *Reconciler) patchAll(ctx context.Context, o *observed, members []*v1alpha1.Workspace, patch func(*v1alpha1.Workspace) error) error {
	errs := make([]error, len(members))
	var group errgroup.Group
	group.SetLimit(patchesAtOnce)
	for i, m := range members {
		group.Go(func() error {
			if errs[i] = patch(m); errs[i] == nil {
				r.written.Note(o.key, m)
			}
			return nil
		})
	}
	_ = group.Wait()
	return worst(errs)
}

// worst returns a conflict only when nothing worse happened, for a conflict is not reported.
func worst(errs []error) error {
	var conflict error
	var others []error
	for _, err := range errs {
		switch {
		case err == nil:
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			conflict = err
		default:
			others = append(others, err)
		}
	}
	if len(others) > 0 {
		return errors.Join(others...)
	}
	return conflict
}

// confirm makes sure that the decision was not made on an older view of the Rollout or the Project. A status that was just
// recorded proves it for its object; for the other the API server is asked. A difference is a conflict.
func (r *Reconciler) confirm(ctx context.Context, o *observed, recorded recorded) error {
	if !recorded.rollout {
		var view client.Object
		if o.Rollout != nil {
			view = o.Rollout
		}
		if err := r.confirmOne(ctx, o, view, &v1alpha1.Rollout{}, "rollouts"); err != nil {
			return err
		}
	}
	if recorded.project {
		return nil
	}
	return r.confirmOne(ctx, o, o.Project, &v1alpha1.Project{}, "projects")
}

func (r *Reconciler) confirmOne(ctx context.Context, o *observed, view, live client.Object, resource string) error {
	found, err := get(ctx, r.config.Live, o.key, live)
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", resource, o.key, err)
	}
	same := !found && view == nil
	if found && view != nil {
		same = live.GetUID() == view.GetUID() && live.GetResourceVersion() == view.GetResourceVersion()
	}
	if same {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupName, Resource: resource}, o.key.Name,
		errors.New("it has changed since it was decided on"))
}

// heldGrant returns the grant annotations of a Workspace as they are.
func heldGrant(m *v1alpha1.Workspace) map[string]string {
	held := map[string]string{}
	for _, name := range v1alpha1.GrantAnnotations() {
		if value, ok := m.Annotations[name]; ok {
			held[name] = value
		}
	}
	return held
}
