package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"

	"magosproject.io/internal/refs"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/refwatcher/internal/controller"
	"magosproject.io/services/refwatcher/internal/remote"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// resolver asks remotes on behalf of callers. Callers that want the same at the same time share one listing.
type resolver struct {
	lister      controller.Lister
	credentials *controller.Credentials
	perHost     int
	flights     singleflight.Group

	mutex sync.Mutex
	hosts map[string]chan struct{}
}

func newResolver(lister controller.Lister, credentials *controller.Credentials, perHost int) *resolver {
	return &resolver{lister: lister, credentials: credentials, perHost: perHost, hosts: map[string]chan struct{}{}}
}

// resolve answers with an error of the RPC vocabulary.
func (r *resolver) resolve(ctx context.Context, want schedule.Want, access schedule.Access) (refs.Resolution, error) {
	flight := strings.Join([]string{want.URL.String(), access.Namespace, access.Secret, access.Version, access.Note, want.Name.String()}, "\x00")
	answers := r.flights.DoChan(flight, func() (any, error) {
		// The listing has its own timeout: a caller that gives up must not cut off the others.
		return r.ask(context.WithoutCancel(ctx), want, access)
	})
	select {
	case answer := <-answers:
		if answer.Err != nil {
			return refs.Resolution{}, answer.Err
		}
		return answer.Val.(refs.Resolution), nil
	case <-ctx.Done():
		return refs.Resolution{}, ctx.Err()
	}
}

func (r *resolver) ask(ctx context.Context, want schedule.Want, access schedule.Access) (refs.Resolution, error) {
	credential, err := r.credentials.Credential(ctx, access, want.URL)
	if err != nil {
		return refs.Resolution{}, rpcerr.New(codes.FailedPrecondition, rpcerr.CredentialInvalid, "%w", err)
	}
	room := r.host(want.URL.Address())
	room <- struct{}{}
	defer func() { <-room }()
	advertised, err := r.lister.List(ctx, want.URL, credential, want.Name.Candidates())
	if err != nil {
		return refs.Resolution{}, remoteError(err, access.Note)
	}
	answer, err := refs.Resolve(advertised, want.Name)
	if err != nil {
		return refs.Resolution{}, nameError(err)
	}
	return answer, nil
}

// host bounds the listings of one host, so that a slow one holds up its own callers alone. Each ends within the listing's timeout.
func (r *resolver) host(address string) chan struct{} {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	room, known := r.hosts[address]
	if !known {
		room = make(chan struct{}, r.perHost)
		r.hosts[address] = room
	}
	return room
}

func remoteError(err error, note string) error {
	var scheme *remote.SchemeError
	if errors.As(err, &scheme) {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.SchemeNotAllowed, "%w", err)
	}
	if note != "" {
		err = fmt.Errorf("%w; %s", err, note)
	}
	return rpcerr.New(codes.Unavailable, rpcerr.RemoteUnavailable, "%w", err)
}

func nameError(err error) error {
	var ambiguous *refs.AmbiguousError
	if errors.As(err, &ambiguous) {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.AmbiguousRevision, "%w", err).With("refs", strings.Join(ambiguous.Refs, " "))
	}
	return rpcerr.New(codes.NotFound, rpcerr.RevisionNotFound, "%w", err)
}
