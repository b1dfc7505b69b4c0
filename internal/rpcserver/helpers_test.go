package rpcserver_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/certs/certstest"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcserver"
)

const (
	serverName = "magos-runner." + certstest.Namespace + ".svc"
	getRun     = runnerv1alpha1.RunnerService_GetRun_FullMethodName
	watchRuns  = runnerv1alpha1.RunnerService_WatchRuns_FullMethodName
)

// runner is a service whose handlers the test brings.
type runner struct {
	runnerv1alpha1.UnimplementedRunnerServiceServer
	get   func(context.Context, *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error)
	watch func(*runnerv1alpha1.WatchRunsRequest, grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error
}

func (r *runner) GetRun(ctx context.Context, request *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
	if r.get == nil {
		return &runnerv1alpha1.GetRunResponse{}, nil
	}
	return r.get(ctx, request)
}

func (r *runner) WatchRuns(request *runnerv1alpha1.WatchRunsRequest, stream grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error {
	if r.watch == nil {
		return nil
	}
	return r.watch(request, stream)
}

// rules cover every method of the service.
func rules() map[string]rpcserver.Rule {
	all := map[string]rpcserver.Rule{}
	service := runnerv1alpha1.RunnerService_ServiceDesc
	var names []string
	for _, method := range service.Methods {
		names = append(names, method.MethodName)
	}
	for _, stream := range service.Streams {
		names = append(names, stream.StreamName)
	}
	for _, name := range names {
		all["/"+service.ServiceName+"/"+name] = rpcserver.Rule{Verb: "run", Resource: "workspaces"}
	}
	all[getRun] = rpcserver.Rule{Verb: "get", Resource: "workspaces/log", Deadline: 7 * time.Second, Object: func(request any) (string, string) {
		workspace := request.(*runnerv1alpha1.GetRunRequest).GetKey().GetWorkspace()
		return workspace.GetNamespace(), workspace.GetName()
	}}
	all[watchRuns] = rpcserver.Rule{Verb: "watch", Resource: "workspaces", Object: func(request any) (string, string) {
		return request.(*runnerv1alpha1.WatchRunsRequest).GetNamespace(), ""
	}}
	return all
}

// kube is an API server that knows the token "good" and lets its owner do everything, until the test changes its answers.
type kube struct {
	*fake.Clientset
	mutex          sync.Mutex
	tokenReviews   int
	accessReviews  int
	err            error
	authentication authenticationv1.TokenReviewStatus
	access         authorizationv1.SubjectAccessReviewStatus
}

func newKube() *kube {
	k := &kube{Clientset: fake.NewClientset()}
	k.authentication = authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{"magos-runner"}, User: authenticationv1.UserInfo{Username: "jane", Groups: []string{"team"}},
	}
	k.access.Allowed = true
	k.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		k.tokenReviews++
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status = k.authentication
		if review.Spec.Token != "good" {
			review.Status = authenticationv1.TokenReviewStatus{}
		}
		return true, review, k.err
	})
	k.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		k.mutex.Lock()
		defer k.mutex.Unlock()
		k.accessReviews++
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status = k.access
		return true, review, k.err
	})
	return k
}

func (k *kube) change(do func(*kube)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	do(k)
}

func (k *kube) reviews() (tokens, accesses int) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.tokenReviews, k.accessReviews
}

// log is a buffer that may be written and read at once.
type log struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.Write(p)
}

func (l *log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.String()
}

// fixture is a running server.
type fixture struct {
	address string
	tls     *certs.Bundle
	log     *log
	metrics *prometheus.Registry
	// stop begins the drain; ended is closed when the server has ended.
	stop  context.CancelFunc
	ended chan struct{}
}

// serve runs a server with all its interceptors on a port of the loopback address.
func serve(t *testing.T, api rpcserver.Reviewer, handlers *runner, change func(*rpcserver.Config)) *fixture {
	t.Helper()
	f := &fixture{tls: certstest.Bundle(t), log: &log{}, metrics: prometheus.NewRegistry(), ended: make(chan struct{})}
	config := rpcserver.Config{
		Service: "runner", TLS: f.tls, Kube: api, Rules: rules(), Metrics: f.metrics,
		Log: slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Drain: 5 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	server, err := rpcserver.New(config)
	if err != nil {
		t.Fatal(err)
	}
	runnerv1alpha1.RegisterRunnerServiceServer(server.GRPC(), handlers)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.ended)
		if err := server.Serve(ctx, listener); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() { stop(); <-f.ended })
	return f
}

// client sends the token with each call.
func (f *fixture) client(t *testing.T, token string) runnerv1alpha1.RunnerServiceClient {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	connection, err := rpcclient.Dial(rpcclient.Config{Target: f.address, ServerName: serverName, TLS: f.tls, TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return runnerv1alpha1.NewRunnerServiceClient(connection)
}

// bare is a connection that adds nothing to calls: no token, no deadline.
func (f *fixture) bare(t *testing.T) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(credentials.NewTLS(f.tls.ClientConfig(serverName))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}
