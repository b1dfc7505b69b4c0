// Package rpc serves magos.workspace.v1alpha1.WorkspaceService on every replica. Queries are answered from the cache. A
// command becomes an annotation, written on the object version that it was judged on; the reconciler consumes it and alone
// writes status.
package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/services/workspace/internal/inputs"
)

const (
	queryDeadline   = 10 * time.Second
	commandDeadline = 15 * time.Second
)

// Config is what a Service needs.
type Config struct {
	// Cache answers queries and tells watchers of changes.
	Cache cache.Cache
	// Live reads, past every cache, the Workspace that a command is about: a person acts on what they saw just now.
	Live client.Reader
	// Client writes annotations.
	Client client.Client
	// Variables finds out where variables come from.
	Variables Variables
}

// Variables finds out where the variables of a Workspace come from, and what is known of the objects that the winners refer
// to. project may be nil.
type Variables interface {
	Of(ctx context.Context, project *v1alpha1.Project, w *v1alpha1.Workspace) (inputs.Composition, map[inputs.Reference]inputs.Object, error)
}

// Service implements the RPCs.
type Service struct {
	pb.UnimplementedWorkspaceServiceServer
	config Config
}

// New makes a Service.
func New(config Config) *Service { return &Service{config: config} }

// Rules say who may call what.
func Rules() map[string]rpcserver.Rule {
	type named interface{ GetWorkspace() *corepb.ObjectRef }
	type scoped interface{ GetNamespace() string }
	one := func(request any) (string, string) {
		ref := request.(named).GetWorkspace()
		return ref.GetNamespace(), ref.GetName()
	}
	all := func(request any) (string, string) { return request.(scoped).GetNamespace(), "" }
	ofNamespace := func(request any) (string, string) { return request.(named).GetWorkspace().GetNamespace(), "" }
	return map[string]rpcserver.Rule{
		pb.WorkspaceService_GetWorkspace_FullMethodName:     {Verb: "get", Resource: "workspaces", Deadline: queryDeadline, Object: one},
		pb.WorkspaceService_ListWorkspaces_FullMethodName:   {Verb: "list", Resource: "workspaces", Deadline: queryDeadline, Object: all},
		pb.WorkspaceService_WatchWorkspaces_FullMethodName:  {Verb: "watch", Resource: "workspaces", Object: all},
		pb.WorkspaceService_ResolveVariables_FullMethodName: {Verb: "get", Resource: "workspaces", Deadline: queryDeadline, Object: one},
		pb.WorkspaceService_RequestReconcile_FullMethodName: {Verb: "patch", Resource: "workspaces", Deadline: commandDeadline, Object: one},
		pb.WorkspaceService_ApproveRun_FullMethodName:       {Verb: "approve", Resource: "workspaces", Deadline: commandDeadline, Object: one},
		pb.WorkspaceService_CancelRun_FullMethodName:        {Verb: "cancel", Resource: "workspaces", Deadline: commandDeadline, Object: one},
		// The chain tells of the Project's other Workspaces.
		pb.WorkspaceService_Explain_FullMethodName: {Verb: "list", Resource: "workspaces", Deadline: queryDeadline, Object: ofNamespace},
	}
}

// GetWorkspace shows one Workspace.
func (s *Service) GetWorkspace(ctx context.Context, request *pb.GetWorkspaceRequest) (*pb.GetWorkspaceResponse, error) {
	w, err := read(ctx, s.config.Cache, request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	return &pb.GetWorkspaceResponse{Workspace: render(w)}, nil
}

func read(ctx context.Context, reader client.Reader, ref *corepb.ObjectRef) (*v1alpha1.Workspace, error) {
	if ref.GetNamespace() == "" {
		return nil, rpcerr.Invalid("workspace.namespace", "name the namespace of the Workspace")
	}
	if ref.GetName() == "" {
		return nil, rpcerr.Invalid("workspace.name", "name the Workspace")
	}
	key := types.NamespacedName{Namespace: ref.GetNamespace(), Name: ref.GetName()}
	w := &v1alpha1.Workspace{}
	err := reader.Get(ctx, key, w)
	if apierrors.IsNotFound(err) {
		return nil, rpcerr.New(codes.NotFound, rpcerr.WorkspaceNotFound, "Workspace %s does not exist", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", key, err)
	}
	return w, nil
}
