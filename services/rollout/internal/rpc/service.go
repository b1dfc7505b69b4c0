// Package rpc serves magos.rollout.v1alpha1.RolloutService on every replica. Queries are answered from the cache. A command
// becomes an annotation, written on the object version that it was judged on; the reconciler obeys it and alone writes status.
package rpc

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
)

const (
	maxPage         = 500
	deadline        = 10 * time.Second
	commandDeadline = 15 * time.Second
)

// Informer tells of every Rollout in the cache and of each change. A controller-runtime cache.Informer is one.
type Informer interface {
	// AddEventHandler calls the handler for what there is, then for each change.
	AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error)
	// RemoveEventHandler ends that.
	RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error
}

// Config is what a Service needs.
type Config struct {
	// Cached answers queries.
	Cached client.Reader
	// Informer tells watchers of changes.
	Informer Informer
	// Live reads, past every cache, the Rollout that a command is about: a person acts on what they saw just now.
	Live client.Reader
	// Client writes annotations.
	Client client.Client
}

// Service implements the RPCs.
type Service struct {
	pb.UnimplementedRolloutServiceServer
	config Config
}

// New makes a Service.
func New(config Config) *Service { return &Service{config: config} }

// rolloutRequest is a request about one Rollout.
type rolloutRequest interface {
	GetRollout() *corepb.ObjectRef
}

// Rules say who may call what.
func Rules() map[string]rpcserver.Rule {
	type scoped interface{ GetNamespace() string }
	one := func(request any) (string, string) {
		ref := request.(rolloutRequest).GetRollout()
		return ref.GetNamespace(), ref.GetName()
	}
	all := func(request any) (string, string) { return request.(scoped).GetNamespace(), "" }
	ofNamespace := func(request any) (string, string) { return request.(rolloutRequest).GetRollout().GetNamespace(), "" }
	steer := rpcserver.Rule{Verb: "steer", Resource: "rollouts", Deadline: commandDeadline, Object: one}
	return map[string]rpcserver.Rule{
		pb.RolloutService_GetRollout_FullMethodName:    {Verb: "get", Resource: "rollouts", Deadline: deadline, Object: one},
		pb.RolloutService_ListRollouts_FullMethodName:  {Verb: "list", Resource: "rollouts", Deadline: deadline, Object: all},
		pb.RolloutService_WatchRollouts_FullMethodName: {Verb: "watch", Resource: "rollouts", Object: all},
		pb.RolloutService_WatchRollout_FullMethodName:  {Verb: "watch", Resource: "rollouts", Object: one},
		pb.RolloutService_Pause_FullMethodName:         steer,
		pb.RolloutService_Resume_FullMethodName:        steer,
		pb.RolloutService_RetryStep_FullMethodName:     steer,
		pb.RolloutService_Abort_FullMethodName:         steer,
		pb.RolloutService_ApproveStep_FullMethodName:   {Verb: "approve", Resource: "rollouts", Deadline: commandDeadline, Object: one},
		// The chain tells of the Project's Workspaces.
		pb.RolloutService_Explain_FullMethodName: {Verb: "list", Resource: "workspaces", Deadline: deadline, Object: ofNamespace},
	}
}

// GetRollout shows one Rollout.
func (s *Service) GetRollout(ctx context.Context, request *pb.GetRolloutRequest) (*pb.GetRolloutResponse, error) {
	r, err := read(ctx, s.config.Cached, request.GetRollout())
	if err != nil {
		return nil, err
	}
	return &pb.GetRolloutResponse{Rollout: render(r)}, nil
}

func read(ctx context.Context, reader client.Reader, ref *corepb.ObjectRef) (*v1alpha1.Rollout, error) {
	if ref.GetNamespace() == "" {
		return nil, rpcerr.Invalid("rollout.namespace", "name the namespace of the Rollout")
	}
	if ref.GetName() == "" {
		return nil, rpcerr.Invalid("rollout.name", "name the Rollout")
	}
	r := &v1alpha1.Rollout{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: ref.GetNamespace(), Name: ref.GetName()}, r)
	if apierrors.IsNotFound(err) {
		return nil, notFound(ref)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Rollout %s/%s: %w", ref.GetNamespace(), ref.GetName(), err)
	}
	return r, nil
}

func notFound(ref *corepb.ObjectRef) error {
	return rpcerr.New(codes.NotFound, rpcerr.RolloutNotFound, "Rollout %s/%s does not exist", ref.GetNamespace(), ref.GetName())
}

// ListRollouts shows a page of Rollouts by namespace and name.
func (s *Service) ListRollouts(ctx context.Context, request *pb.ListRolloutsRequest) (*pb.ListRolloutsResponse, error) {
	size := int(request.GetPageSize())
	switch {
	case size < 0 || size > maxPage:
		return nil, rpcerr.Invalid("page_size", fmt.Sprintf("write a number from 1 to %d, or 0 for %d", maxPage, maxPage))
	case size == 0:
		size = maxPage
	}
	after, err := readToken(request.GetPageToken())
	if err != nil {
		return nil, err
	}
	var list v1alpha1.RolloutList
	if err := s.config.Cached.List(ctx, &list, client.InNamespace(request.GetNamespace())); err != nil {
		return nil, fmt.Errorf("listing Rollouts: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Rollout) int { return cmp.Compare(position(&a), position(&b)) })
	response := &pb.ListRolloutsResponse{}
	for i := range list.Items {
		r := &list.Items[i]
		if after != "" && position(r) <= after {
			continue
		}
		if len(response.Rollouts) == size {
			response.NextPageToken = writeToken(response.Rollouts[size-1].GetRef())
			break
		}
		response.Rollouts = append(response.Rollouts, render(r))
	}
	return response, nil
}

// separator sorts before every character of a name, so that namespaces stay together.
const separator = "\x00"

func position(r *v1alpha1.Rollout) string { return r.Namespace + separator + r.Name }

// writeToken names the last Rollout of a page, so that a page is right also when Rollouts come and go in between.
func writeToken(ref *corepb.ObjectRef) string {
	return base64.RawURLEncoding.EncodeToString([]byte(ref.GetNamespace() + separator + ref.GetName()))
}

func readToken(token string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || token != "" && !strings.Contains(string(text), separator) {
		return "", rpcerr.Invalid("page_token", "send the next_page_token of the page before as it was, or nothing for the first page")
	}
	return string(text), nil
}
