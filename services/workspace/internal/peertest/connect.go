package peertest

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// Connect serves both peers in memory until the test ends.
func Connect(tb testing.TB, runner *Runner, refwatcher *RefWatcher) (runnerv1alpha1.RunnerServiceClient, refwatcherv1alpha1.RefWatcherServiceClient) {
	tb.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	runnerv1alpha1.RegisterRunnerServiceServer(server, runner)
	refwatcherv1alpha1.RegisterRefWatcherServiceServer(server, refwatcher)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			tb.Errorf("serving the peers: %v", err)
		}
	}()
	connection, err := grpc.NewClient("passthrough:///peers",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(rpcerr.UnaryClient()), grpc.WithStreamInterceptor(rpcerr.StreamClient()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := connection.Close(); err != nil {
			tb.Errorf("closing the connection to the peers: %v", err)
		}
		server.Stop()
		<-served
	})
	return runnerv1alpha1.NewRunnerServiceClient(connection), refwatcherv1alpha1.NewRefWatcherServiceClient(connection)
}
