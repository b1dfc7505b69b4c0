package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
)

// WatchRollouts sends what there is, then each change. A reader that is slow gets the newest state of a Rollout.
func (s *Service) WatchRollouts(request *pb.WatchRolloutsRequest, stream grpc.ServerStreamingServer[pb.WatchRolloutsResponse]) error {
	changes := newChanges(types.NamespacedName{Namespace: request.GetNamespace()})
	return s.follow(stream.Context(), changes, stream.Send)
}

// errOver ends a stream that has nothing more to tell.
var errOver = errors.New("the Rollout is gone")

// WatchRollout sends the progress of one Rollout until it is deleted.
func (s *Service) WatchRollout(request *pb.WatchRolloutRequest, stream grpc.ServerStreamingServer[pb.WatchRolloutResponse]) error {
	r, err := read(stream.Context(), s.config.Cached, request.GetRollout())
	if err != nil {
		return err
	}
	changes := newChanges(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	err = s.follow(stream.Context(), changes, func(state *pb.WatchRolloutsResponse) error {
		message := &pb.WatchRolloutResponse{Rollout: state.GetRollout(), Deleted: state.GetDeleted()}
		if !message.GetDeleted() {
			message.Progress = progress(message.GetRollout())
		}
		if err := stream.Send(message); err != nil || !message.GetDeleted() {
			return err
		}
		return errOver
	})
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// follow sends each change until the caller or the server ends it.
func (s *Service) follow(ctx context.Context, changes *changes, send func(*pb.WatchRolloutsResponse) error) error {
	registration, err := s.config.Informer.AddEventHandler(changes.handler())
	if err != nil {
		return fmt.Errorf("following Rollouts: %w", err)
	}
	defer func() { _ = s.config.Informer.RemoveEventHandler(registration) }() // it only fails for a handler that is not there
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes.more:
		}
		for _, message := range changes.take() {
			if err := send(message); err != nil {
				return err
			}
		}
	}
}

// changes holds the newest state of each Rollout that was not sent yet, in the order of the first change.
type changes struct {
	// of is the Rollout that is followed; without a name all of the namespace, without a namespace all.
	of   types.NamespacedName
	more chan struct{}

	mutex   sync.Mutex
	order   []types.NamespacedName
	newest  map[types.NamespacedName]*pb.WatchRolloutsResponse
	version map[types.NamespacedName]string
}

func newChanges(of types.NamespacedName) *changes {
	return &changes{
		of: of, more: make(chan struct{}, 1),
		newest: map[types.NamespacedName]*pb.WatchRolloutsResponse{}, version: map[types.NamespacedName]string{},
	}
}

func (c *changes) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.changed(o, false) },
		UpdateFunc: func(_, o any) { c.changed(o, false) },
		DeleteFunc: func(o any) { c.changed(o, true) },
	}
}

func (c *changes) changed(o any, deleted bool) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	r, ok := o.(*v1alpha1.Rollout)
	if !ok || c.of.Namespace != "" && r.Namespace != c.of.Namespace || c.of.Name != "" && r.Name != c.of.Name {
		return
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !deleted && c.version[key] == r.ResourceVersion {
		return // the cache repeats itself now and then
	}
	message := &pb.WatchRolloutsResponse{Deleted: deleted, Rollout: &pb.Rollout{Ref: &corepb.ObjectRef{Namespace: r.Namespace, Name: r.Name}}}
	if deleted {
		delete(c.version, key)
	} else {
		c.version[key] = r.ResourceVersion
		message.Rollout = render(r)
	}
	if c.newest[key] == nil {
		c.order = append(c.order, key)
	}
	c.newest[key] = message
	select {
	case c.more <- struct{}{}:
	default: // the reader has been told
	}
}

func (c *changes) take() []*pb.WatchRolloutsResponse {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	messages := make([]*pb.WatchRolloutsResponse, 0, len(c.order))
	for _, key := range c.order {
		messages = append(messages, c.newest[key])
	}
	c.order = nil
	clear(c.newest)
	return messages
}
