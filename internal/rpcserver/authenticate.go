package rpcserver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"magosproject.io/internal/rpcerr"
)

const (
	// knownFor is how long a good token is believed: a revoked one works no longer than this.
	knownFor = time.Minute
	// refusedFor is how long a bad token is not asked about again.
	refusedFor = 10 * time.Second
	// cachedTokens bounds the memory; the least recently used goes.
	cachedTokens = 4096
	// maxToken is the longest token that is looked at, in bytes.
	maxToken = 16 << 10
	// maxReviews bounds how many questions to the API server callers without rights can cause at once.
	maxReviews = 32
)

// authenticator finds out who calls. It keeps hashes of tokens, never tokens.
type authenticator struct {
	config  Config
	results *cache.LRUExpireCache
	slots   chan struct{}
}

// identity is a cached answer; a nil user is a refusal.
type identity struct {
	user   *authenticationv1.UserInfo
	detail string
}

func newAuthenticator(config Config) *authenticator {
	return &authenticator{
		config:  config,
		results: cache.NewLRUExpireCacheWithClock(cachedTokens, config.Clock),
		slots:   make(chan struct{}, maxReviews),
	}
}

// authenticate reads the token from the call's metadata and asks who has it.
func (a *authenticator) authenticate(ctx context.Context) (authenticationv1.UserInfo, error) {
	token := bearer(ctx)
	if token == "" {
		return authenticationv1.UserInfo{}, a.refuse("the call has no token")
	}
	if len(token) > maxToken {
		return authenticationv1.UserInfo{}, a.refuse("the token is too long to be one")
	}
	key := sha256.Sum256([]byte(token))
	known, found := a.results.Get(key)
	if !found {
		fresh, err := a.review(ctx, token)
		if err != nil {
			return authenticationv1.UserInfo{}, err
		}
		life := knownFor
		if fresh.user == nil {
			life = refusedFor
		}
		a.results.Add(key, fresh, life)
		known = fresh
	}
	id := known.(identity)
	if id.user == nil {
		return authenticationv1.UserInfo{}, a.refuse(id.detail)
	}
	return *id.user, nil
}

// review asks the API server. "Could not ask" is an error that says so, and is not remembered.
func (a *authenticator) review(ctx context.Context, token string) (identity, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return identity{}, ctx.Err()
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{a.config.audience()}}}
	answer, err := a.config.Kube.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return identity{}, couldNotAsk(ctx, "who the caller is", err)
	}
	switch {
	case !answer.Status.Authenticated:
		return identity{detail: "the token is expired, revoked, or not for this service"}, nil
	case !slices.Contains(answer.Status.Audiences, a.config.audience()):
		// An authenticator that knows no audiences takes tokens that were meant for others.
		return identity{detail: "the token is not for this service"}, nil
	case answer.Status.User.Username == "":
		return identity{detail: "the token names nobody"}, nil
	}
	user := answer.Status.User
	return identity{user: &user}, nil
}

func (a *authenticator) refuse(detail string) error {
	audience := a.config.audience()
	return rpcerr.New(codes.Unauthenticated, rpcerr.Unauthenticated,
		"%s; send the metadata \"authorization: Bearer <token>\" with a token of audience %s: kubectl create token <service account> --audience %s", detail, audience, audience).
		With("audience", audience)
}

// couldNotAsk closes the gate, and tells the caller that the fault is not theirs.
func couldNotAsk(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("asking Kubernetes %s: %w", what, ctx.Err())
	}
	return rpcerr.New(codes.Unavailable, rpcerr.KubernetesUnavailable, "Kubernetes could not be asked %s: %w", what, err)
}

// bearer is the token of the call, empty if there is none.
func bearer(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
