package rpcclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcerr"
)

const maxMessage = 4 << 20

// Config of a connection.
type Config struct {
	// Target is the address, such as "dns:///magos-runner.magos-system.svc:8443".
	Target string
	// ServerName is what the certificate must be for, such as "magos-runner.magos-system.svc".
	ServerName string
	// TLS has the CA certificates to trust.
	TLS *certs.Bundle
	// TokenFile has the token of the called service's audience. It is read for each call: kubelets renew it.
	TokenFile string
	// ForwardCaller sends the token of the call that is being served instead of TokenFile's: the called replica then judges the real caller.
	ForwardCaller bool
	// Idempotent lists the full names of the methods that may be sent again when the server was UNAVAILABLE.
	Idempotent []string
	// Timeout of unary calls whose context has no deadline; default 10 s. Streams have none.
	Timeout time.Duration
	// Log gets changes of the connection; nil for none.
	Log *slog.Logger
}

// Dial prepares a connection; it connects with the first call, and again by itself. A server that is down fails calls at once with UNAVAILABLE.
// Errors of calls are *rpcerr.Error.
func Dial(config Config) (*grpc.ClientConn, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("configuring the connection to %q: %w", config.Target, err)
	}
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	serviceConfig, err := retryPolicy(config.Idempotent)
	if err != nil {
		return nil, fmt.Errorf("configuring the retries of %q: %w", config.Target, err)
	}
	connection, err := grpc.NewClient(config.Target,
		grpc.WithTransportCredentials(&transport{bundle: config.TLS, serverName: config.ServerName}),
		grpc.WithPerRPCCredentials(&token{file: config.TokenFile, forward: config.ForwardCaller}),
		grpc.WithAuthority(config.ServerName),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: false}),
		// A peer that restarts is looked for again soon: reconciles wait for it.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithChainUnaryInterceptor(rpcerr.UnaryClient(), deadline(config.Timeout)),
		grpc.WithChainStreamInterceptor(rpcerr.StreamClient()),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %q: %w", config.Target, err)
	}
	return connection, nil
}

func (c *Config) validate() error {
	var errs []error
	if c.Target == "" || c.ServerName == "" {
		errs = append(errs, errors.New("the target or the server's name is empty"))
	}
	if c.TLS == nil {
		errs = append(errs, errors.New("there is no certificate bundle"))
	}
	if c.TokenFile == "" && !c.ForwardCaller {
		errs = append(errs, errors.New("there is no token"))
	}
	return errors.Join(errs...)
}

// deadline gives a unary call one if it has none: a call without would wait for ever.
func deadline(usual time.Duration) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, set := ctx.Deadline(); !set {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, usual)
			defer cancel()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
