// Package rpc serves magos.refwatcher.v1alpha1.RefWatcherService. Handlers read and answer; nothing here writes to Kubernetes.
package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// Leader finds the replica that polls. *service.Kit is one.
type Leader interface {
	// LeaderAddress of the replica that leads, and whether it is this one; UNAVAILABLE with NO_LEADER if there is none.
	LeaderAddress(ctx context.Context) (address string, self bool, err error)
	// DialReplica prepares a connection whose calls carry the token of the call that is being served.
	DialReplica(address string) (*grpc.ClientConn, error)
	// DialReplicaAsService prepares one whose calls carry this service's own token, for what nobody calls for.
	DialReplicaAsService(address string) (*grpc.ClientConn, error)
}

// Informers hands out the informers of the cache. cache.Cache is one.
type Informers interface {
	GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error)
}

// Config is what a Service needs.
type Config struct {
	// Workspaces is where they are read from: not the cache, which may not know a Workspace yet that the caller has just changed.
	Workspaces client.Reader
	// Lister asks the remotes.
	Lister controller.Lister
	// Credentials of the repositories.
	Credentials *controller.Credentials
	// Schemes that URLs may have.
	Schemes []string
	// PerHost is how many listings of one host may run at a time for callers.
	PerHost int
	// Remotes lists what the poller of this replica knows; false if it does not poll.
	Remotes func(namespace string) ([]schedule.Remote, bool)
	// Pushed hands a push hint for a namespace (all, if empty) to the poller of this replica; false if it does not poll.
	Pushed func(now time.Time, namespace string, urls []refs.URL) (int, bool)
	// Leader finds the replica that polls.
	Leader Leader
	// Informers have the Workspaces.
	Informers Informers
	// Clock is needed.
	Clock clock.PassiveClock
}

// Service implements the RPCs.
type Service struct {
	pb.UnimplementedRefWatcherServiceServer
	config   Config
	resolver *resolver
}

// New makes a Service.
func New(config Config) *Service {
	return &Service{config: config, resolver: newResolver(config.Lister, config.Credentials, config.PerHost)}
}

// Rules say who may call what. gitTimeout bounds one listing of a remote; a call may take a little longer.
func Rules(gitTimeout time.Duration) map[string]rpcserver.Rule {
	return map[string]rpcserver.Rule{
		pb.RefWatcherService_ResolveRevision_FullMethodName: {
			Verb: "get", Resource: "workspaces", Deadline: gitTimeout + 10*time.Second,
			Object: func(request any) (string, string) {
				w := request.(*pb.ResolveRevisionRequest).GetWorkspace()
				return w.GetNamespace(), w.GetName()
			},
		},
		pb.RefWatcherService_ListRemotes_FullMethodName: {
			Verb: "list", Resource: "workspaces", Deadline: 10 * time.Second,
			Object: func(request any) (string, string) { return request.(*pb.ListRemotesRequest).GetNamespace(), "" },
		},
		pb.RefWatcherService_NotifyPush_FullMethodName: {
			Verb: "list", Resource: "workspaces", Deadline: 10 * time.Second,
			Object: func(request any) (string, string) { return request.(*pb.NotifyPushRequest).GetNamespace(), "" },
		},
		pb.RefWatcherService_WatchRevisions_FullMethodName: {
			Verb: "watch", Resource: "workspaces",
			Object: func(request any) (string, string) { return request.(*pb.WatchRevisionsRequest).GetNamespace(), "" },
		},
	}
}

// ResolveRevision asks the remote of a Workspace which commit its target revision is.
func (s *Service) ResolveRevision(ctx context.Context, request *pb.ResolveRevisionRequest) (*pb.ResolveRevisionResponse, error) {
	key, err := keyOf(request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	var w v1alpha1.Workspace
	if err := s.config.Workspaces.Get(ctx, key, &w); err != nil {
		return nil, fmt.Errorf("reading Workspace %s: %w", key, err)
	}
	response := &pb.ResolveRevisionResponse{RepoUrl: w.Spec.Source.RepoURL, TargetRevision: w.Spec.Source.TargetRevision}
	want := schedule.WantOf(w.Spec.Source, s.config.Schemes)
	if want.Trouble != nil {
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.SchemeNotAllowed, "%s", want.Trouble.Message)
	}
	if commit, pinned := want.Name.Commit(); pinned {
		response.Revision = commit
		return response, nil
	}
	access, err := s.config.Credentials.Access(ctx, &w)
	if err != nil {
		return nil, err
	}
	if access.Trouble != nil {
		return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.CredentialInvalid, "%s", access.Trouble.Message)
	}
	answer, err := s.resolver.resolve(ctx, want, access)
	if err != nil {
		return nil, err
	}
	response.Revision, response.Ref = answer.Commit, answer.Ref
	response.CredentialSecret, response.HostKeyUnverified = access.Secret, access.Unverified
	return response, nil
}

func keyOf(ref *corepb.ObjectRef) (types.NamespacedName, error) {
	if ref.GetNamespace() == "" {
		return types.NamespacedName{}, rpcerr.Invalid("workspace.namespace", "name the namespace of the Workspace")
	}
	if ref.GetName() == "" {
		return types.NamespacedName{}, rpcerr.Invalid("workspace.name", "name the Workspace")
	}
	return types.NamespacedName{Namespace: ref.GetNamespace(), Name: ref.GetName()}, nil
}
