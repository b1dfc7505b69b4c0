package rpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
)

// WatchRevisions sends the revision of every Workspace as it is written on it, then each change, until the caller or the server ends it. Every replica has
// the annotations.
func (s *Service) WatchRevisions(request *pb.WatchRevisionsRequest, stream grpc.ServerStreamingServer[pb.WatchRevisionsResponse]) error {
	ctx := stream.Context()
	informer, err := s.config.Informers.GetInformer(ctx, &v1alpha1.Workspace{})
	if err != nil {
		return fmt.Errorf("watching Workspaces: %w", err)
	}
	news := newRevisions(request.GetNamespace())
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { news.note(object, false) },
		UpdateFunc: func(_, object any) { news.note(object, false) },
		DeleteFunc: func(object any) { news.note(object, true) },
	})
	if err != nil {
		return fmt.Errorf("watching Workspaces: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // it only fails for a handler that is not there
	for {
		next, err := news.next(ctx)
		if err != nil {
			return err
		}
		for _, message := range next {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
	}
}

// revisions has the newest state of each Workspace that was not sent yet, and what was sent last of each. It holds up nobody who notes.
type revisions struct {
	namespace string
	more      chan struct{}

	mutex   sync.Mutex
	waiting map[types.NamespacedName]revision
	sent    map[types.NamespacedName]revision
}

type revision struct {
	uid, commit string
	deleted     bool
}

func newRevisions(namespace string) *revisions {
	return &revisions{
		namespace: namespace, more: make(chan struct{}, 1),
		waiting: map[types.NamespacedName]revision{}, sent: map[types.NamespacedName]revision{},
	}
}

func (r *revisions) note(object any, deleted bool) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	w, ok := object.(*v1alpha1.Workspace)
	if !ok || r.namespace != "" && w.Namespace != r.namespace {
		return
	}
	news := revision{uid: string(w.UID), commit: v1alpha1.DetectedRevision(w), deleted: deleted}
	if deleted {
		news.commit = ""
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.waiting[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}] = news
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// next waits for something that differs from what was sent.
func (r *revisions) next(ctx context.Context) ([]*pb.WatchRevisionsResponse, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.more:
		}
		if messages := r.take(); len(messages) > 0 {
			return messages, nil
		}
	}
}

func (r *revisions) take() []*pb.WatchRevisionsResponse {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var messages []*pb.WatchRevisionsResponse
	for key, news := range r.waiting {
		if last, known := r.sent[key]; known && last == news {
			continue
		}
		r.sent[key] = news
		if news.deleted {
			delete(r.sent, key)
		}
		messages = append(messages, &pb.WatchRevisionsResponse{
			Workspace: &corepb.WorkspaceRef{Namespace: key.Namespace, Name: key.Name, Uid: news.uid}, Revision: news.commit, Deleted: news.deleted,
		})
	}
	r.waiting = map[types.NamespacedName]revision{}
	return messages
}
