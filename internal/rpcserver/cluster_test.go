package rpcserver_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/internal/testcluster"
)

var cluster *rest.Config

func TestMain(m *testing.M) {
	testcluster.Main(m, func(config *rest.Config) { cluster = config })
}

func request(namespace string) *runnerv1alpha1.GetRunRequest {
	return &runnerv1alpha1.GetRunRequest{Key: &runnerv1alpha1.RunKey{Workspace: &corev1alpha1.WorkspaceRef{Namespace: namespace, Name: "dev"}}}
}

// allow gives the account the rights, by RBAC.
func allow(t *testing.T, c client.Client, namespace, account string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAgainstARealAPIServer(t *testing.T) {
	api, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	c := testcluster.Client(t, cluster)
	namespace := testcluster.Namespace(t, c)
	callers := make(chan string, 10)
	f := serve(t, api, &runner{
		get: func(ctx context.Context, _ *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
			callers <- rpcserver.Caller(ctx).Username
			return &runnerv1alpha1.GetRunResponse{}, nil
		},
		watch: func(_ *runnerv1alpha1.WatchRunsRequest, stream grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error {
			callers <- rpcserver.Caller(stream.Context()).Username
			return stream.Send(&runnerv1alpha1.WatchRunsResponse{})
		},
	}, nil)
	watch := func(client runnerv1alpha1.RunnerServiceClient) error {
		stream, err := client.WatchRuns(t.Context(), &runnerv1alpha1.WatchRunsRequest{Namespace: namespace})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}

	t.Run("without a token the answer says how to get one", func(t *testing.T) {
		_, err := runnerv1alpha1.NewRunnerServiceClient(f.bare(t)).GetRun(t.Context(), request(namespace))
		expect(t, err, codes.Unauthenticated, rpcerr.Unauthenticated, "kubectl create token", "--audience magos-runner")
	})
	t.Run("a token for another audience is none", func(t *testing.T) {
		other := f.client(t, testcluster.Token(t, c, namespace, "other", "magos-rollout"))
		_, err := other.GetRun(t.Context(), request(namespace))
		expect(t, err, codes.Unauthenticated, rpcerr.Unauthenticated)
		expect(t, watch(other), codes.Unauthenticated, rpcerr.Unauthenticated)
	})
	t.Run("without the right the answer names it", func(t *testing.T) {
		nobody := f.client(t, testcluster.Token(t, c, namespace, "nobody", "magos-runner"))
		_, err := nobody.GetRun(t.Context(), request(namespace))
		expect(t, err, codes.PermissionDenied, rpcerr.PermissionDenied, "may not get workspaces/log.magosproject.io in namespace "+namespace)
		expect(t, watch(nobody), codes.PermissionDenied, rpcerr.PermissionDenied, "may not watch workspaces.magosproject.io in namespace "+namespace)
		if len(callers) != 0 {
			t.Error("a handler was called")
		}
	})
	t.Run("with the right the handler knows the caller", func(t *testing.T) {
		allow(t, c, namespace, "reader", rbacv1.PolicyRule{APIGroups: []string{"magosproject.io"}, Resources: []string{"workspaces/log", "workspaces"}, Verbs: []string{"get", "watch"}})
		reader := f.client(t, testcluster.Token(t, c, namespace, "reader", "magos-runner"))
		// RBAC takes a moment to see a new binding.
		eventually(t, func() error {
			_, err := reader.GetRun(t.Context(), request(namespace))
			return err
		})
		if err := watch(reader); err != nil {
			t.Errorf("watching: %v", err)
		}
		want := "system:serviceaccount:" + namespace + ":reader"
		for range 2 {
			if got := <-callers; got != want {
				t.Errorf("caller = %q, want %q", got, want)
			}
		}
		_, err := reader.GetRun(t.Context(), request("elsewhere"))
		expect(t, err, codes.PermissionDenied, rpcerr.PermissionDenied, "in namespace elsewhere")
	})
	t.Run("reflection asks for a token, health does not", func(t *testing.T) {
		bare := f.bare(t)
		answer, err := healthv1.NewHealthClient(bare).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "magos.runner.v1alpha1.RunnerService"})
		if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health = %v, %v; want SERVING", answer, err)
		}
		expect(t, listServices(t.Context(), bare), codes.Unauthenticated, rpcerr.Unauthenticated)
		token := testcluster.Token(t, c, namespace, "nobody", "magos-runner")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		if err := listServices(ctx, bare); err != nil {
			t.Errorf("reflection with a token: %v", err)
		}
	})
}

func listServices(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := reflectionv1.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	// Send answers io.EOF when the server has already ended the call; why it did comes from Recv.
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	for _, service := range answer.GetListServicesResponse().GetService() {
		if service.GetName() == runnerv1alpha1.RunnerService_ServiceDesc.ServiceName {
			return stream.CloseSend()
		}
	}
	return status.Error(codes.NotFound, "reflection does not list the service")
}

// expect checks code and reason as a caller sees them, and that the text has the parts.
func expect(t *testing.T, err error, code codes.Code, reason string, parts ...string) {
	t.Helper()
	if rpcerr.Code(err) != code || rpcerr.Reason(err) != reason {
		t.Errorf("error = %v (%s %s), want %s %s", err, rpcerr.Code(err), rpcerr.Reason(err), code, reason)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error = %q, want %q in it", err, part)
		}
	}
}

// eventually repeats what only needs time; the bound ends a test that has failed.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still failing: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
