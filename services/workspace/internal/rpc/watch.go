package rpc

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
)

// WatchWorkspaces sends every Workspace as it is, then each change, until the caller or the server ends it.
func (s *Service) WatchWorkspaces(request *pb.WatchWorkspacesRequest, stream pb.WorkspaceService_WatchWorkspacesServer) error {
	ctx := stream.Context()
	informer, err := s.config.Cache.GetInformer(ctx, &v1alpha1.Workspace{})
	if err != nil {
		return fmt.Errorf("watching Workspaces: %w", err)
	}
	changed := newBacklog()
	note := func(object any) {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		w, ok := object.(*v1alpha1.Workspace)
		if ok && isOf(w, request.GetProject()) && (request.GetNamespace() == "" || w.Namespace == request.GetNamespace()) {
			changed.add(types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, string(w.UID))
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, object any) { note(object) }, DeleteFunc: note,
	})
	if err != nil {
		return fmt.Errorf("watching Workspaces: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it only fails for a handler that is not there
	for {
		key, uid, err := changed.next(ctx)
		if err != nil {
			return err
		}
		response, err := s.present(ctx, key, uid)
		if err != nil {
			return err
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// present is the newest state of a Workspace: between two of them a slow reader misses what no longer holds.
func (s *Service) present(ctx context.Context, key types.NamespacedName, uid string) (*pb.WatchWorkspacesResponse, error) {
	w := &v1alpha1.Workspace{}
	err := s.config.Cache.Get(ctx, key, w)
	if apierrors.IsNotFound(err) {
		ref := &corepb.WorkspaceRef{Namespace: key.Namespace, Name: key.Name, Uid: uid}
		return &pb.WatchWorkspacesResponse{Workspace: &pb.Workspace{Ref: ref}, Deleted: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", key, err)
	}
	return &pb.WatchWorkspacesResponse{Workspace: render(w)}, nil
}

// backlog holds the names of what changed and was not sent yet, each once, in order. It never holds up the informer and
// never grows beyond the number of Workspaces.
type backlog struct {
	mutex sync.Mutex
	order []types.NamespacedName
	uids  map[types.NamespacedName]string
	more  chan struct{}
}

func newBacklog() *backlog {
	return &backlog{uids: map[types.NamespacedName]string{}, more: make(chan struct{}, 1)}
}

func (b *backlog) add(key types.NamespacedName, uid string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if _, waiting := b.uids[key]; !waiting {
		b.order = append(b.order, key)
	}
	b.uids[key] = uid
	select {
	case b.more <- struct{}{}:
	default:
	}
}

func (b *backlog) next(ctx context.Context) (types.NamespacedName, string, error) {
	for {
		if key, uid, ok := b.take(); ok {
			return key, uid, nil
		}
		select {
		case <-b.more:
		case <-ctx.Done():
			return types.NamespacedName{}, "", ctx.Err()
		}
	}
}

func (b *backlog) take() (types.NamespacedName, string, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.order) == 0 {
		return types.NamespacedName{}, "", false
	}
	key := b.order[0]
	b.order = b.order[1:]
	uid := b.uids[key]
	delete(b.uids, key)
	return key, uid, true
}
