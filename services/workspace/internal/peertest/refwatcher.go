package peertest

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// RefWatcher knows one commit per target revision.
type RefWatcher struct {
	refwatcherv1alpha1.UnimplementedRefWatcherServiceServer

	// Workspaces reads whose source is asked for.
	Workspaces client.Reader

	mutex     sync.Mutex
	revisions map[string]string
	refuse    error
	calls     int
}

// NewRefWatcher knows nothing yet.
func NewRefWatcher(workspaces client.Reader) *RefWatcher {
	return &RefWatcher{Workspaces: workspaces, revisions: map[string]string{}}
}

// Set says which commit a target revision is.
func (r *RefWatcher) Set(targetRevision, commit string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.revisions[targetRevision] = commit
}

// Refuse makes every call fail with err; nil ends that.
func (r *RefWatcher) Refuse(err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.refuse = err
}

// Calls counts the calls.
func (r *RefWatcher) Calls() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.calls
}

// ResolveRevision answers for the target revision of a Workspace.
func (r *RefWatcher) ResolveRevision(ctx context.Context, request *refwatcherv1alpha1.ResolveRevisionRequest) (*refwatcherv1alpha1.ResolveRevisionResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.calls++
	if r.refuse != nil {
		return nil, r.refuse
	}
	w := &v1alpha1.Workspace{}
	key := client.ObjectKey{Namespace: request.GetWorkspace().GetNamespace(), Name: request.GetWorkspace().GetName()}
	if err := r.Workspaces.Get(ctx, key, w); err != nil {
		return nil, rpcerr.New(codes.NotFound, rpcerr.WorkspaceNotFound, "reading the Workspace: %w", err)
	}
	source := w.Spec.Source
	commit, known := r.revisions[source.TargetRevision]
	if !known {
		return nil, rpcerr.New(codes.NotFound, rpcerr.RevisionNotFound, "no branch or tag %s in %s", source.TargetRevision, source.RepoURL)
	}
	return &refwatcherv1alpha1.ResolveRevisionResponse{Revision: commit, RepoUrl: source.RepoURL, TargetRevision: source.TargetRevision}, nil
}
