package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/remote"
	"magosproject.io/services/refwatcher/internal/schedule"
)

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

var asked = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// remotes answers List; it waits for the gate, if there is one.
type remotes struct {
	refs     refs.Advertised
	err      error
	gate     chan struct{}
	listings atomic.Int64
}

func (r *remotes) List(ctx context.Context, _ refs.URL, _ *repocreds.Credential, _ []string) (refs.Advertised, error) {
	r.listings.Add(1)
	if r.gate != nil {
		select {
		case <-r.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r.refs, r.err
}

func workspace(name, url, target string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{}
	w.Namespace, w.Name = "team", name
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: url, TargetRevision: target}
	return w
}

func newService(t *testing.T, r *remotes, change func(*Config)) *Service {
	t.Helper()
	builder := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t))
	for name, source := range map[string][2]string{
		"main": {"https://example.com/infra.git", "main"}, "tag": {"https://example.com/infra.git", "v1"}, "pinned": {"https://example.com/infra.git", commitB},
		"gone": {"https://example.com/infra.git", "gone"}, "both": {"https://example.com/infra.git", "both"}, "other": {"https://example.com/other.git", "main"},
		"scheme": {"git://example.com/infra.git", "main"}, "pinned scheme": {"git://example.com/infra.git", commitB}, "option": {"https://example.com/infra.git", "--upload-pack=x"},
	} {
		builder.WithObjects(workspace(name, source[0], source[1]))
	}
	reader := builder.Build()
	config := Config{
		Workspaces: reader, Credentials: controller.NewCredentials(reader, []string{"https"}), Lister: r, Schemes: []string{"https"}, PerHost: 4,
		Remotes: func(string) ([]schedule.Remote, bool) { return nil, false }, Leader: noLeader{}, Clock: clocktesting.NewFakePassiveClock(asked),
		Pushed: func(time.Time, string, []refs.URL) (int, bool) { return 0, false },
	}
	if change != nil {
		change(&config)
	}
	return New(config)
}

func ask(name string) *pb.ResolveRevisionRequest {
	return &pb.ResolveRevisionRequest{Workspace: &corepb.ObjectRef{Namespace: "team", Name: name}}
}

func TestResolveRevision(t *testing.T) {
	advertised := refs.Advertised{
		"refs/heads/main": {Object: commitA}, "refs/tags/v1": {Object: commitA, Peeled: commitB}, "refs/heads/both": {Object: commitA}, "refs/tags/both": {Object: commitA},
	}
	for name, test := range map[string]struct {
		request       *pb.ResolveRevisionRequest
		err           error
		revision, ref string
		code          codes.Code
		reason        string
		listings      int64
	}{
		"a branch":                        {request: ask("main"), revision: commitA, ref: "refs/heads/main", listings: 1},
		"an annotated tag":                {request: ask("tag"), revision: commitB, ref: "refs/tags/v1", listings: 1},
		"a commit needs no remote":        {request: ask("pinned"), revision: commitB},
		"no such revision":                {request: ask("gone"), code: codes.NotFound, reason: rpcerr.RevisionNotFound, listings: 1},
		"a branch and a tag":              {request: ask("both"), code: codes.FailedPrecondition, reason: rpcerr.AmbiguousRevision, listings: 1},
		"a scheme that is not allowed":    {request: ask("scheme"), code: codes.FailedPrecondition, reason: rpcerr.SchemeNotAllowed},
		"nor for a commit":                {request: ask("pinned scheme"), code: codes.FailedPrecondition, reason: rpcerr.SchemeNotAllowed},
		"a target that is an option":      {request: ask("option"), code: codes.FailedPrecondition, reason: rpcerr.SchemeNotAllowed},
		"a remote that is down":           {request: ask("main"), err: errors.New("no route"), code: codes.Unavailable, reason: rpcerr.RemoteUnavailable, listings: 1},
		"a redirect to another scheme":    {request: ask("main"), err: fmt.Errorf("x: %w", &remote.SchemeError{Scheme: "file"}), code: codes.FailedPrecondition, reason: rpcerr.SchemeNotAllowed, listings: 1},
		"no such Workspace":               {request: ask("nobody"), code: codes.NotFound, reason: rpcerr.WorkspaceNotFound},
		"no Workspace named":              {request: &pb.ResolveRevisionRequest{}, code: codes.InvalidArgument, reason: rpcerr.InvalidField},
		"a Workspace without a name":      {request: ask(""), code: codes.InvalidArgument, reason: rpcerr.InvalidField},
		"a Workspace without a namespace": {request: &pb.ResolveRevisionRequest{Workspace: &corepb.ObjectRef{Name: "main"}}, code: codes.InvalidArgument, reason: rpcerr.InvalidField},
	} {
		t.Run(name, func(t *testing.T) {
			r := &remotes{refs: advertised, err: test.err}
			response, err := newService(t, r, nil).ResolveRevision(t.Context(), test.request)
			if test.reason != "" {
				if sent := rpcerr.Classify(err, "refwatcher"); err == nil || sent.Code() != test.code || sent.Reason() != test.reason {
					t.Errorf("got %v (%v), want %v with %s", err, sent, test.code, test.reason)
				}
			} else if err != nil || response.GetRevision() != test.revision || response.GetRef() != test.ref || response.GetRepoUrl() == "" || response.GetTargetRevision() == "" {
				t.Errorf("got %v, %v", response, err)
			}
			if r.listings.Load() != test.listings {
				t.Errorf("%d listings, want %d", r.listings.Load(), test.listings)
			}
		})
	}
}

// Callers of the same at the same time share a listing; one that gives up does not cut off the others.
func TestIdenticalCallsShareAListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remotes{refs: refs.Advertised{"refs/heads/main": {Object: commitA}}, gate: make(chan struct{})}
		s := newService(t, r, nil)
		impatient, giveUp := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := s.ResolveRevision(impatient, ask("main")); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		giveUp()
		for range 10 {
			callers.Go(func() {
				if answer, err := s.ResolveRevision(t.Context(), ask("main")); err != nil || answer.GetRevision() != commitA {
					t.Errorf("got %v, %v", answer, err)
				}
			})
		}
		// Another repository does not share it.
		callers.Go(func() {
			if _, err := s.ResolveRevision(t.Context(), ask("other")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if n := r.listings.Load(); n != 2 {
			t.Errorf("%d listings, want one per repository", n)
		}
		close(r.gate)
		callers.Wait()
		if _, err := s.ResolveRevision(t.Context(), ask("main")); err != nil || r.listings.Load() != 3 {
			t.Errorf("a later call got an old answer: %d listings, %v", r.listings.Load(), err)
		}
	})
}

// One host that does not answer holds up its own callers alone.
func TestListingsOfOneHostAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remotes{refs: refs.Advertised{"refs/heads/main": {Object: commitA}}, gate: make(chan struct{})}
		s := newService(t, r, func(c *Config) { c.PerHost = 2 })
		var callers sync.WaitGroup
		resolve := func(url string) {
			callers.Go(func() {
				parsed, err := refs.ParseURL(url)
				if err != nil {
					t.Error(err)
					return
				}
				name, err := refs.Parse("main")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.resolver.resolve(t.Context(), schedule.Want{URL: parsed, Name: name}, schedule.Access{}); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range 5 {
			resolve(fmt.Sprintf("https://slow.example.com/%d", i))
		}
		synctest.Wait()
		resolve("https://other.example.com/x")
		synctest.Wait()
		if n := r.listings.Load(); n != 3 {
			t.Errorf("%d listings, want two of the slow host and one of the other", n)
		}
		close(r.gate)
		callers.Wait()
	})
}

type noLeader struct{}

func (noLeader) LeaderAddress(context.Context) (string, bool, error) {
	return "", false, rpcerr.New(codes.Unavailable, rpcerr.NoLeader, "nobody leads")
}

func (noLeader) DialReplica(string) (*grpc.ClientConn, error) { return nil, errors.New("not expected") }

func (noLeader) DialReplicaAsService(string) (*grpc.ClientConn, error) {
	return nil, errors.New("not expected")
}

// otherReplica leads behind a listener in memory.
type otherReplica struct {
	listener *bufconn.Listener
	self     bool
}

func (o otherReplica) LeaderAddress(context.Context) (string, bool, error) {
	return "10.0.0.1:8443", o.self, nil
}

func (o otherReplica) DialReplica(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(rpcerr.UnaryClient()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.listener.DialContext(ctx) }))
}

func (o otherReplica) DialReplicaAsService(address string) (*grpc.ClientConn, error) {
	return o.DialReplica(address)
}

func serve(t *testing.T, s *Service) *bufconn.Listener {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		response, err := handle(ctx, request)
		if err != nil {
			return nil, rpcerr.Classify(err, "refwatcher")
		}
		return response, nil
	}))
	pb.RegisterRefWatcherServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener
}

func TestListRemotesIsAnsweredByTheLeader(t *testing.T) {
	leader := newService(t, &remotes{}, func(c *Config) {
		c.Remotes = func(namespace string) ([]schedule.Remote, bool) {
			return []schedule.Remote{{
				URL: "https://example.com/infra.git", LastSuccess: asked, LastError: "no route", NextPoll: asked.Add(time.Minute),
				FailedPolls: 3, LeftAloneUntil: asked.Add(time.Minute), Interval: 30 * time.Second, LastPush: asked.Add(time.Second),
				Workspaces: []types.NamespacedName{{Namespace: namespace, Name: "main"}},
			}}, true
		}
	})
	other := newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{listener: serve(t, leader)} })
	for name, s := range map[string]*Service{"the leader": leader, "another": other} {
		response, err := s.ListRemotes(t.Context(), &pb.ListRemotesRequest{Namespace: "team"})
		if err != nil || len(response.GetRemotes()) != 1 {
			t.Fatalf("%s: got %v, %v", name, response, err)
		}
		r := response.GetRemotes()[0]
		if r.GetUrl() != "https://example.com/infra.git" || !r.GetLastSuccessAt().AsTime().Equal(asked) || r.GetLastError() != "no route" ||
			r.GetFailedPolls() != 3 || !r.GetLeftAloneUntil().AsTime().Equal(asked.Add(time.Minute)) || r.GetInterval().AsDuration() != 30*time.Second ||
			!r.GetLastPushAt().AsTime().Equal(asked.Add(time.Second)) ||
			!r.GetNextPollAt().AsTime().Equal(asked.Add(time.Minute)) || len(r.GetWorkspaces()) != 1 || r.GetWorkspaces()[0].GetNamespace() != "team" {
			t.Errorf("%s: got %v", name, r)
		}
	}
}

func TestListRemotesWithoutALeader(t *testing.T) {
	wantNoLeader := func(s *Service, ctx context.Context) {
		t.Helper()
		if _, err := s.ListRemotes(ctx, &pb.ListRemotesRequest{}); rpcerr.Code(err) != codes.Unavailable || rpcerr.Reason(err) != rpcerr.NoLeader {
			t.Errorf("got %v, want NO_LEADER", err)
		}
	}
	nobody := newService(t, &remotes{}, nil)
	wantNoLeader(nobody, t.Context())
	// Leads, but has not begun to poll.
	wantNoLeader(newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{self: true} }), t.Context())
	// Passed on by a replica that takes this one for the leader: it goes no further.
	confused := newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{} })
	wantNoLeader(confused, metadata.NewIncomingContext(t.Context(), metadata.Pairs(forwarded, "true")))
	// The same over the wire.
	wantNoLeader(newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{listener: serve(t, confused)} }), t.Context())
}

func TestEveryMethodHasARule(t *testing.T) {
	rules := Rules(time.Second)
	var methods []string
	for _, method := range pb.RefWatcherService_ServiceDesc.Methods {
		methods = append(methods, method.MethodName)
	}
	for _, stream := range pb.RefWatcherService_ServiceDesc.Streams {
		methods = append(methods, stream.StreamName)
	}
	for _, method := range methods {
		rule, found := rules["/"+pb.RefWatcherService_ServiceDesc.ServiceName+"/"+method]
		if !found || rule.Resource != "workspaces" || rule.Object == nil {
			t.Errorf("%s: rule %+v", method, rule)
		}
	}
	for method, request := range map[string]any{
		pb.RefWatcherService_ListRemotes_FullMethodName:    &pb.ListRemotesRequest{Namespace: "team"},
		pb.RefWatcherService_NotifyPush_FullMethodName:     &pb.NotifyPushRequest{Namespace: "team"},
		pb.RefWatcherService_WatchRevisions_FullMethodName: &pb.WatchRevisionsRequest{Namespace: "team"},
	} {
		if namespace, name := rules[method].Object(request); namespace != "team" || name != "" {
			t.Errorf("%s asks for rights on %s/%s", method, namespace, name)
		}
	}
	namespace, name := rules[pb.RefWatcherService_ResolveRevision_FullMethodName].Object(ask("main"))
	if namespace != "team" || name != "main" {
		t.Errorf("ResolveRevision asks for rights on %s/%s", namespace, name)
	}
}
