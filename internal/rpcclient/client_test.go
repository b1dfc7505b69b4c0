package rpcclient_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/certs/certstest"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster"
)

const serverName = "magos-refwatcher." + certstest.Namespace + ".svc"

// refwatcher answers as the test says, and counts.
type refwatcher struct {
	refwatcherv1alpha1.UnimplementedRefWatcherServiceServer
	calls atomic.Int32
	serve func(ctx context.Context, call int32) error
}

func (r *refwatcher) ResolveRevision(ctx context.Context, _ *refwatcherv1alpha1.ResolveRevisionRequest) (*refwatcherv1alpha1.ResolveRevisionResponse, error) {
	if err := r.serve(ctx, r.calls.Add(1)); err != nil {
		return nil, err
	}
	return &refwatcherv1alpha1.ResolveRevisionResponse{Revision: "abc"}, nil
}

func (r *refwatcher) ListRemotes(ctx context.Context, _ *refwatcherv1alpha1.ListRemotesRequest) (*refwatcherv1alpha1.ListRemotesResponse, error) {
	if err := r.serve(ctx, r.calls.Add(1)); err != nil {
		return nil, err
	}
	return &refwatcherv1alpha1.ListRemotesResponse{}, nil
}

func serve(t *testing.T, tls *certs.Bundle, address string, handlers *refwatcher) (string, *grpc.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(tls.ServerConfig())))
	refwatcherv1alpha1.RegisterRefWatcherServiceServer(server, handlers)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), server
}

func tokenFile(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "refwatcher")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func dial(t *testing.T, config rpcclient.Config) refwatcherv1alpha1.RefWatcherServiceClient {
	t.Helper()
	connection, err := rpcclient.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return refwatcherv1alpha1.NewRefWatcherServiceClient(connection)
}

func resolve(ctx context.Context, client refwatcherv1alpha1.RefWatcherServiceClient) error {
	_, err := client.ResolveRevision(ctx, &refwatcherv1alpha1.ResolveRevisionRequest{})
	return err
}

func sentToken(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

func TestTokenIsReadAgainForEachCall(t *testing.T) {
	tls, got := certstest.Bundle(t), make(chan string, 1)
	address, _ := serve(t, tls, "127.0.0.1:0", &refwatcher{serve: func(ctx context.Context, _ int32) error {
		got <- sentToken(ctx)
		return nil
	}})
	file := tokenFile(t, "first\n")
	client := dial(t, rpcclient.Config{Target: address, ServerName: serverName, TLS: tls, TokenFile: file})
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := resolve(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		if sent := <-got; sent != "Bearer "+token {
			t.Errorf("sent %q, want the token %q", sent, token)
		}
	}
}

func TestForwardedCallsCarryTheCallersToken(t *testing.T) {
	tls, got := certstest.Bundle(t), make(chan string, 1)
	address, _ := serve(t, tls, "127.0.0.1:0", &refwatcher{serve: func(ctx context.Context, _ int32) error {
		got <- sentToken(ctx)
		return nil
	}})
	client := dial(t, rpcclient.Config{Target: address, ServerName: serverName, TLS: tls, ForwardCaller: true})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer jane"))
	if err := resolve(ctx, client); err != nil {
		t.Fatal(err)
	}
	if sent := <-got; sent != "Bearer jane" {
		t.Errorf("sent %q, want the caller's token", sent)
	}
	if err := resolve(t.Context(), client); err == nil {
		t.Error("a call without a caller was forwarded")
	}
}

func TestOnlyIdempotentMethodsAreSentAgain(t *testing.T) {
	tls := certstest.Bundle(t)
	handlers := &refwatcher{serve: func(_ context.Context, call int32) error {
		if call < 3 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	}}
	address, _ := serve(t, tls, "127.0.0.1:0", handlers)
	client := dial(t, rpcclient.Config{
		Target: address, ServerName: serverName, TLS: tls, TokenFile: tokenFile(t, "x"),
		Idempotent: []string{refwatcherv1alpha1.RefWatcherService_ResolveRevision_FullMethodName},
	})
	if err := resolve(t.Context(), client); err != nil || handlers.calls.Load() != 3 {
		t.Errorf("idempotent: %v after %d calls, want success with the third", err, handlers.calls.Load())
	}
	handlers.calls.Store(0)
	_, err := client.ListRemotes(t.Context(), &refwatcherv1alpha1.ListRemotesRequest{})
	if rpcerr.Code(err) != codes.Unavailable || handlers.calls.Load() != 1 {
		t.Errorf("not idempotent: %v after %d calls, want UNAVAILABLE after one", err, handlers.calls.Load())
	}
}

func TestErrorsComeBackInTheVocabulary(t *testing.T) {
	tls := certstest.Bundle(t)
	address, _ := serve(t, tls, "127.0.0.1:0", &refwatcher{serve: func(context.Context, int32) error {
		return rpcerr.New(codes.NotFound, rpcerr.RevisionNotFound, "no branch x").With("ref", "x")
	}})
	err := resolve(t.Context(), dial(t, rpcclient.Config{Target: address, ServerName: serverName, TLS: tls, TokenFile: tokenFile(t, "x")}))
	var e *rpcerr.Error
	if !errors.As(err, &e) || rpcerr.Reason(err) != rpcerr.RevisionNotFound || e.Metadata()["ref"] != "x" {
		t.Errorf("error = %#v", err)
	}
}

func TestCallsHaveADeadline(t *testing.T) {
	tls := certstest.Bundle(t)
	address, _ := serve(t, tls, "127.0.0.1:0", &refwatcher{serve: func(ctx context.Context, _ int32) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	client := dial(t, rpcclient.Config{Target: address, ServerName: serverName, TLS: tls, TokenFile: tokenFile(t, "x"), Timeout: 100 * time.Millisecond})
	if err := resolve(t.Context(), client); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the deadline", err)
	}
}

func TestAServerThatIsDownFailsCallsAtOnceAndIsFoundAgain(t *testing.T) {
	tls, handlers := certstest.Bundle(t), &refwatcher{serve: func(context.Context, int32) error { return nil }}
	address, server := serve(t, tls, testcluster.Address(t), handlers)
	client := dial(t, rpcclient.Config{Target: address, ServerName: serverName, TLS: tls, TokenFile: tokenFile(t, "x"), Timeout: time.Hour})
	if err := resolve(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	// A call that waited for the server would wait for its deadline, which no test reaches.
	if err := resolve(t.Context(), client); rpcerr.Code(err) != codes.Unavailable {
		t.Errorf("error = %v, want UNAVAILABLE", err)
	}
	serve(t, tls, address, handlers)
	eventually(t, func() error { return resolve(t.Context(), client) })
}

// eventually repeats what only needs time; the bound ends a test that has failed.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("still failing: %v", err)
		}
	}
}

func TestStrangersAreNotTrusted(t *testing.T) {
	tls, stranger := certstest.Bundle(t), certstest.Bundle(t)
	handlers := &refwatcher{serve: func(context.Context, int32) error { return nil }}
	address, _ := serve(t, stranger, "127.0.0.1:0", handlers)
	for name, config := range map[string]rpcclient.Config{
		"another CA":            {ServerName: serverName, TLS: tls},
		"another name":          {ServerName: "magos-other.magos-system.svc", TLS: stranger},
		"no certificate so far": {ServerName: serverName, TLS: certs.NewBundle(certs.BundleConfig{})},
	} {
		config.Target, config.TokenFile = address, tokenFile(t, "secret")
		if err := resolve(t.Context(), dial(t, config)); rpcerr.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v, want UNAVAILABLE", name, err)
		}
	}
	if calls := handlers.calls.Load(); calls != 0 {
		t.Errorf("%d calls, and tokens, reached a stranger", calls)
	}
}

func TestANewCAIsTrustedWithoutARestart(t *testing.T) {
	tls, renewed := certs.NewBundle(certs.BundleConfig{}), certstest.Secret(t)
	handlers := &refwatcher{serve: func(context.Context, int32) error { return nil }}
	server := certs.NewBundle(certs.BundleConfig{})
	load := func(b *certs.Bundle) {
		if err := b.Load(renewed[certs.KeyBundle], renewed[certs.KeyCertificate], renewed[certs.KeyPrivate]); err != nil {
			t.Fatal(err)
		}
	}
	load(server)
	address, _ := serve(t, server, "127.0.0.1:0", handlers)
	client := dial(t, rpcclient.Config{Target: address, ServerName: serverName, TLS: tls, TokenFile: tokenFile(t, "x")})
	if err := resolve(t.Context(), client); rpcerr.Code(err) != codes.Unavailable {
		t.Fatalf("before: %v, want UNAVAILABLE", err)
	}
	load(tls)
	eventually(t, func() error { return resolve(t.Context(), client) })
}

func TestWrongConfigIsRefused(t *testing.T) {
	tls := certstest.Bundle(t)
	for name, config := range map[string]rpcclient.Config{
		"no target":               {ServerName: serverName, TLS: tls, TokenFile: "x"},
		"no certificates":         {Target: "a:1", ServerName: serverName, TokenFile: "x"},
		"no token":                {Target: "a:1", ServerName: serverName, TLS: tls},
		"a method without a name": {Target: "a:1", ServerName: serverName, TLS: tls, TokenFile: "x", Idempotent: []string{"GetRun"}},
	} {
		if connection, err := rpcclient.Dial(config); err == nil {
			_ = connection.Close()
			t.Errorf("%s: taken", name)
		}
	}
}
