package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster"
)

var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func rollout(namespace, name, version string) *v1alpha1.Rollout {
	at := metav1.NewTime(began)
	r := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}}
	r.Spec.ProjectRef = name
	r.Status = v1alpha1.RolloutStatus{
		Phase: v1alpha1.RolloutProgressing, Reason: v1alpha1.ReasonStepProgressing, Message: "waits for d", CurrentStep: 1,
		Pass:       &v1alpha1.RolloutPass{ID: "p1", StartedAt: at, Revisions: []v1alpha1.PinnedRevision{{RepoURL: "u", TargetRevision: "main", Revision: "c"}}},
		Steps:      []v1alpha1.RolloutStepStatus{{Name: "dev", Phase: v1alpha1.StepSucceeded, Total: 2, Applied: 1, Failed: 1, StartedAt: &at, FinishedAt: &at}, {Name: "prod", Phase: v1alpha1.StepProgressing}},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "StepProgressing", Message: "waits for d"}},
	}
	return r
}

// informer tells its handlers what the test lets happen.
type informer struct {
	mutex    sync.Mutex
	present  []*v1alpha1.Rollout
	handlers map[int]toolscache.ResourceEventHandler
	next     int
}

type registration int

func (registration) HasSynced() bool                          { return true }
func (registration) HasSyncedChecker() toolscache.DoneChecker { return nil }

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, r := range i.present {
		handler.OnAdd(r, true)
	}
	i.next++
	if i.handlers == nil {
		i.handlers = map[int]toolscache.ResourceEventHandler{}
	}
	i.handlers[i.next] = handler
	return registration(i.next), nil
}

func (i *informer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	delete(i.handlers, int(r.(registration)))
	return nil
}

func (i *informer) each(tell func(toolscache.ResourceEventHandler)) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, handler := range i.handlers {
		tell(handler)
	}
}

func (i *informer) followers() int {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return len(i.handlers)
}

// dial serves the Service over a connection in memory.
func dial(t *testing.T, s *Service) pb.RolloutServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	pb.RegisterRolloutServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithChainUnaryInterceptor(rpcerr.UnaryClient()), grpc.WithChainStreamInterceptor(rpcerr.StreamClient()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return pb.NewRolloutServiceClient(connection)
}

func newService(t *testing.T, i *informer, rollouts ...*v1alpha1.Rollout) pb.RolloutServiceClient {
	builder := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t))
	for _, r := range rollouts {
		builder.WithObjects(r)
	}
	c := builder.Build()
	return dial(t, New(Config{Cached: c, Informer: i, Live: c, Client: c}))
}

func TestGetRollout(t *testing.T) {
	c := newService(t, &informer{}, rollout("team", "pay", ""))
	answer, err := c.GetRollout(t.Context(), &pb.GetRolloutRequest{Rollout: &corepb.ObjectRef{Namespace: "team", Name: "pay"}})
	if err != nil {
		t.Fatal(err)
	}
	r := answer.GetRollout()
	got := fmt.Sprint(r.GetRef().GetName(), r.GetPhase(), r.GetReason(), r.GetMessage(), r.GetCurrentStep(), r.GetPass().GetId(), r.GetPass().GetFinishedAt(),
		r.GetPass().GetRevisions()[0].GetRevision(), r.GetSteps()[0].GetApplied(), r.GetSteps()[0].GetFailed(), r.GetSteps()[0].GetFinishedAt().AsTime(), r.GetSteps()[1].GetStartedAt(), r.GetConditions()[0].GetStatus())
	want := fmt.Sprint("pay", "Progressing", "StepProgressing", "waits for d", 1, "p1", "<nil>", "c", 1, 1, began, "<nil>", "False")
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, test := range map[string]struct {
		ref    *corepb.ObjectRef
		code   codes.Code
		reason string
	}{
		"no Rollout":    {nil, codes.InvalidArgument, rpcerr.InvalidField},
		"no name":       {&corepb.ObjectRef{Namespace: "team"}, codes.InvalidArgument, rpcerr.InvalidField},
		"not there":     {&corepb.ObjectRef{Namespace: "team", Name: "x"}, codes.NotFound, rpcerr.RolloutNotFound},
		"another place": {&corepb.ObjectRef{Namespace: "x", Name: "pay"}, codes.NotFound, rpcerr.RolloutNotFound},
	} {
		_, err := c.GetRollout(t.Context(), &pb.GetRolloutRequest{Rollout: test.ref})
		if rpcerr.Code(err) != test.code || rpcerr.Reason(err) != test.reason {
			t.Errorf("%s: got %v, want %s %s", name, err, test.code, test.reason)
		}
	}
}

func TestListRolloutsPageByPage(t *testing.T) {
	c := newService(t, &informer{}, rollout("b", "one", ""), rollout("a", "two", ""), rollout("a", "one", ""), rollout("a-b", "one", ""))
	var pages []string
	for token := ""; ; {
		answer, err := c.ListRollouts(t.Context(), &pb.ListRolloutsRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		var page []string
		for _, r := range answer.GetRollouts() {
			page = append(page, r.GetRef().GetNamespace()+"/"+r.GetRef().GetName())
		}
		pages = append(pages, strings.Join(page, " "))
		if token = answer.GetNextPageToken(); token == "" {
			break
		}
	}
	if got, want := strings.Join(pages, ", "), "a/one a/two, a-b/one b/one"; got != want {
		t.Errorf("pages %q, want %q", got, want)
	}
	answer, err := c.ListRollouts(t.Context(), &pb.ListRolloutsRequest{Namespace: "a"})
	if err != nil || len(answer.GetRollouts()) != 2 {
		t.Errorf("namespace a has %v, %v", answer, err)
	}
	for name, request := range map[string]*pb.ListRolloutsRequest{
		"page too large":  {PageSize: 501},
		"negative page":   {PageSize: -1},
		"token made up":   {PageToken: "%"},
		"token of others": {PageToken: "YQ"},
	} {
		if _, err := c.ListRollouts(t.Context(), request); rpcerr.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, want INVALID_ARGUMENT", name, err)
		}
	}
}

func TestWatchRollouts(t *testing.T) {
	i := &informer{present: []*v1alpha1.Rollout{rollout("team", "pay", "1"), rollout("other", "x", "1")}}
	c := newService(t, i)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.WatchRollouts(ctx, &pb.WatchRolloutsRequest{Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		r := answer.GetRollout()
		return fmt.Sprintf("%s/%s %s deleted=%v", r.GetRef().GetNamespace(), r.GetRef().GetName(), r.GetPhase(), answer.GetDeleted())
	}
	if got := next(); got != "team/pay Progressing deleted=false" {
		t.Errorf("first %q", got)
	}
	changed := rollout("team", "pay", "2")
	changed.Status.Phase = v1alpha1.RolloutSucceeded
	i.each(func(h toolscache.ResourceEventHandler) {
		h.OnUpdate(nil, rollout("team", "pay", "1")) // a repetition
		h.OnUpdate(nil, rollout("other", "x", "2"))
		h.OnUpdate(nil, changed)
	})
	if got := next(); got != "team/pay Succeeded deleted=false" {
		t.Errorf("then %q", got)
	}
	i.each(func(h toolscache.ResourceEventHandler) {
		h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "team/pay", Obj: changed})
	})
	if got := next(); got != "team/pay  deleted=true" {
		t.Errorf("at last %q", got)
	}
	cancel()
	for deadline := time.Now().Add(3 * time.Minute); i.followers() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a stream that ended is still told")
		}
	}
}

func TestWatchRolloutSendsTheProgressOfOneUntilItIsGone(t *testing.T) {
	i := &informer{present: []*v1alpha1.Rollout{rollout("team", "pay", "1"), rollout("team", "other", "1")}}
	c := newService(t, i, rollout("team", "pay", ""))
	stream, err := c.WatchRollout(t.Context(), &pb.WatchRolloutRequest{Rollout: &corepb.ObjectRef{Namespace: "team", Name: "pay"}})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %q deleted=%v", answer.GetRollout().GetRef().GetName(), answer.GetProgress(), answer.GetDeleted()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	next(`pay "Progressing, step prod (2 of 2): 0 of 0 done; waits for d" deleted=false`)
	changed := rollout("team", "pay", "2")
	changed.Status.CurrentStep, changed.Status.Phase = 0, v1alpha1.RolloutFailed
	i.each(func(h toolscache.ResourceEventHandler) {
		h.OnUpdate(nil, rollout("team", "other", "2"))
		h.OnUpdate(nil, changed)
	})
	next(`pay "Failed, step dev (1 of 2): 1 of 2 done, 1 failed; waits for d" deleted=false`)
	i.each(func(h toolscache.ResourceEventHandler) { h.OnDelete(changed) })
	next(`pay "" deleted=true`)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v, want no error", err)
	}

	none, err := c.WatchRollout(t.Context(), &pb.WatchRolloutRequest{Rollout: &corepb.ObjectRef{Namespace: "team", Name: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Recv(); rpcerr.Code(err) != codes.NotFound || rpcerr.Reason(err) != rpcerr.RolloutNotFound {
		t.Errorf("got %v, want NOT_FOUND", err)
	}
}

// A reader that does not read gets the newest state of each Rollout, not each one between.
func TestSlowReaderGetsTheNewestState(t *testing.T) {
	c := newChanges(types.NamespacedName{})
	for version := range 1000 {
		r := rollout("team", "pay", fmt.Sprint(version))
		r.Status.CurrentStep = int32(version)
		c.changed(r, false)
		c.changed(rollout("team", "other", "1"), false)
	}
	messages := c.take()
	if len(messages) != 2 || messages[0].GetRollout().GetCurrentStep() != 999 {
		t.Errorf("%d messages, the first at step %d, want 2 and 999", len(messages), messages[0].GetRollout().GetCurrentStep())
	}
}
