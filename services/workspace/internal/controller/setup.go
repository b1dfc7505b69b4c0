package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/workspace/internal/inputs"
)

// Indexes, so that a change re-queues what it affects and nothing else.
const (
	indexProject   = "spec.projectRef.name"
	indexSets      = "spec.variableSetRef.name"
	indexReference = "spec.variables.valueFrom"
)

// maxRetry bounds the pause after errors: whatever was wrong, it is looked at again soon.
const maxRetry = 30 * time.Second

// AddIndexes makes the indexes that SetUp needs.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, i := range []struct {
		object client.Object
		field  string
		values client.IndexerFunc
	}{
		{&v1alpha1.Workspace{}, indexProject, func(o client.Object) []string { return []string{o.(*v1alpha1.Workspace).Spec.ProjectRef.Name} }},
		{&v1alpha1.Workspace{}, indexSets, func(o client.Object) []string { return setNames(o.(*v1alpha1.Workspace).Spec.VariableSetRef) }},
		{&v1alpha1.Project{}, indexSets, func(o client.Object) []string { return setNames(o.(*v1alpha1.Project).Spec.VariableSetRef) }},
		{&v1alpha1.VariableSet{}, indexReference, referenceNames},
	} {
		if err := indexer.IndexField(ctx, i.object, i.field, i.values); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.object, i.field, err)
		}
	}
	return nil
}

func setNames(refs []v1alpha1.VariableSetReference) []string {
	names := make([]string, 0, len(refs))
	for _, ref := range refs {
		names = append(names, ref.Name)
	}
	return names
}

func referenceNames(o client.Object) []string {
	refs := inputs.References(o.(*v1alpha1.VariableSet).Spec.Variables)
	names := make([]string, 0, len(refs))
	for _, ref := range refs {
		names = append(names, referenceName(ref.Kind, ref.Name))
	}
	return names
}

func referenceName(kind, name string) string { return kind + "/" + name }

// SetUp adds both reconcilers to the manager. hints names Workspaces that may have something to do.
func SetUp(mgr ctrl.Manager, workspaces *Reconciler, sets *VariableSetReconciler, hints <-chan event.GenericEvent, workers int) error {
	find := finder{mgr.GetClient()}
	existence := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).Named("workspace").
		For(&v1alpha1.Workspace{}).
		Watches(&v1alpha1.Project{}, find.handler(find.ofProject), spec).
		Watches(&v1alpha1.Rollout{}, find.handler(find.ofProject), existence).
		Watches(&v1alpha1.VariableSet{}, find.handler(find.ofSet), spec).
		WatchesMetadata(metadataOf(inputs.KindSecret), find.handler(find.ofReferenced(inputs.KindSecret))).
		WatchesMetadata(metadataOf(inputs.KindConfigMap), find.handler(find.ofReferenced(inputs.KindConfigMap))).
		WatchesRawSource(source.Channel(hints, &handler.EnqueueRequestForObject{})).
		WithOptions(options(workers)).
		Complete(workspaces)
	if err != nil {
		return fmt.Errorf("adding the reconciler of Workspaces: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("variableset").
		For(&v1alpha1.VariableSet{}, spec).
		WatchesMetadata(metadataOf(inputs.KindSecret), find.handler(find.setsReferringTo(inputs.KindSecret))).
		WatchesMetadata(metadataOf(inputs.KindConfigMap), find.handler(find.setsReferringTo(inputs.KindConfigMap))).
		WithOptions(options(1)).
		Complete(sets)
	if err != nil {
		return fmt.Errorf("adding the reconciler of VariableSets: %w", err)
	}
	return nil
}

func options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, maxRetry),
	}
}

// finder finds what a change affects, in the cache.
type finder struct {
	client client.Reader
}

type found func(ctx context.Context, namespace, name string) ([]types.NamespacedName, error)

// handler re-queues what find finds. Should the cache not answer, which it does once it has synced, nothing can be
// re-queued here; the error is logged and every Workspace is looked at again when its own next date comes.
func (f finder) handler(find found) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		keys, err := find(ctx, o.GetNamespace(), o.GetName())
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "finding what a change affects", "namespace", o.GetNamespace(), "name", o.GetName())
			return nil
		}
		slices.SortFunc(keys, func(a, b types.NamespacedName) int { return compare(a, b) })
		requests := make([]reconcile.Request, 0, len(keys))
		for _, key := range slices.Compact(keys) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	})
}

func compare(a, b types.NamespacedName) int {
	switch {
	case a.String() < b.String():
		return -1
	case a.String() > b.String():
		return 1
	}
	return 0
}

func (f finder) ofProject(ctx context.Context, namespace, name string) ([]types.NamespacedName, error) {
	return f.workspaces(ctx, namespace, indexProject, name)
}

// ofSet finds the Workspaces that receive the VariableSet, by themselves or through their Project.
func (f finder) ofSet(ctx context.Context, namespace, name string) ([]types.NamespacedName, error) {
	keys, err := f.workspaces(ctx, namespace, indexSets, name)
	if err != nil {
		return nil, err
	}
	var projects v1alpha1.ProjectList
	if err := f.client.List(ctx, &projects, client.InNamespace(namespace), client.MatchingFields{indexSets: name}); err != nil {
		return nil, err
	}
	for i := range projects.Items {
		more, err := f.ofProject(ctx, namespace, projects.Items[i].Name)
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

func (f finder) workspaces(ctx context.Context, namespace, field, value string) ([]types.NamespacedName, error) {
	var list v1alpha1.WorkspaceList
	if err := f.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{field: value}); err != nil {
		return nil, err
	}
	keys := make([]types.NamespacedName, 0, len(list.Items))
	for i := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return keys, nil
}

func (f finder) setsReferringTo(kind string) found {
	return func(ctx context.Context, namespace, name string) ([]types.NamespacedName, error) {
		var list v1alpha1.VariableSetList
		err := f.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{indexReference: referenceName(kind, name)})
		if err != nil {
			return nil, err
		}
		keys := make([]types.NamespacedName, 0, len(list.Items))
		for i := range list.Items {
			keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
		}
		return keys, nil
	}
}

func (f finder) ofReferenced(kind string) found {
	return func(ctx context.Context, namespace, name string) ([]types.NamespacedName, error) {
		sets, err := f.setsReferringTo(kind)(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		var keys []types.NamespacedName
		for _, set := range sets {
			more, err := f.ofSet(ctx, namespace, set.Name)
			if err != nil {
				return nil, err
			}
			keys = append(keys, more...)
		}
		return keys, nil
	}
}
