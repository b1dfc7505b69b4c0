package rpcclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"magosproject.io/internal/certs"
)

// transport makes each connection with the CA certificates of that moment, so that a renewed CA needs no restart.
type transport struct {
	bundle     *certs.Bundle
	serverName string
}

func (t *transport) ClientHandshake(ctx context.Context, authority string, connection net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := t.bundle.Check(); err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(t.bundle.ClientConfig(t.serverName)).ClientHandshake(ctx, authority, connection)
}

func (t *transport) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for clients")
}

func (t *transport) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(t.bundle.ClientConfig(t.serverName)).Info()
}

func (t *transport) Clone() credentials.TransportCredentials {
	c := *t
	return &c
}

// OverrideServerName is part of the interface and does nothing: the name is fixed by Config.
func (t *transport) OverrideServerName(string) error { return nil }

// token puts a token into the metadata of each call.
type token struct {
	file    string
	forward bool
}

func (t *token) RequireTransportSecurity() bool { return true }

func (t *token) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if t.forward {
		if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
			return map[string]string{"authorization": values[0]}, nil
		}
		return nil, errors.New("forwarding a call: it has no token")
	}
	content, err := os.ReadFile(t.file)
	if err != nil {
		return nil, fmt.Errorf("reading the token for the call: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(content))}, nil
}
