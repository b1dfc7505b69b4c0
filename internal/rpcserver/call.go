package rpcserver

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// call is what the interceptors learn about one call, for each other and for the log.
type call struct {
	method          string
	user            authenticationv1.UserInfo
	namespace, name string
	// cause is the error before the caller's version of it was made.
	cause error
	// panicked has the stack when the handler panicked.
	panicked string
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callOf never returns nil, so that interceptors can be tested alone.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// Caller is who calls, as the API server knows them; empty in a call without a token.
func Caller(ctx context.Context) authenticationv1.UserInfo { return callOf(ctx).user }
