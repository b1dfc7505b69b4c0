package rpcserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"magosproject.io/internal/rpcerr"
)

const (
	// allowedFor is how long a right is believed: a right that was taken works no longer than this.
	allowedFor = 5 * time.Second
	// deniedFor is shorter, so that a right that was just given works when the caller tries again.
	deniedFor = time.Second
	// cachedRights bounds the memory.
	cachedRights = 4096
)

// authorizer finds out whether a caller may.
type authorizer struct {
	config  Config
	answers *cache.LRUExpireCache
	slots   chan struct{}
}

func newAuthorizer(config Config) *authorizer {
	return &authorizer{
		config:  config,
		answers: cache.NewLRUExpireCacheWithClock(cachedRights, config.Clock),
		slots:   make(chan struct{}, maxReviews),
	}
}

// authorize returns nil only after Kubernetes has said yes.
func (a *authorizer) authorize(ctx context.Context, user authenticationv1.UserInfo, rule Rule, namespace, name string) error {
	spec := reviewSpec(user, rule, namespace, name)
	encoded, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encoding an access review: %w", err)
	}
	key := sha256.Sum256(encoded)
	allowed, found := a.answers.Get(key)
	if !found {
		fresh, err := a.review(ctx, spec)
		if err != nil {
			return err
		}
		life := deniedFor
		if fresh {
			life = allowedFor
		}
		a.answers.Add(key, fresh, life)
		allowed = fresh
	}
	if allowed != true {
		return denied(user.Username, spec.ResourceAttributes)
	}
	return nil
}

func (a *authorizer) review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	answer, err := a.config.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, couldNotAsk(ctx, "what the caller may do", err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

func reviewSpec(user authenticationv1.UserInfo, rule Rule, namespace, name string) authorizationv1.SubjectAccessReviewSpec {
	resource, subresource, _ := strings.Cut(rule.Resource, "/")
	group := rule.Group
	if group == "" {
		group = defaultGroup
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Name: name, Verb: rule.Verb, Group: group, Resource: resource, Subresource: subresource, Version: "*",
		},
	}
}

// denied names the right that lacks, in the words of `kubectl auth can-i`.
func denied(username string, wanted *authorizationv1.ResourceAttributes) error {
	resource := wanted.Resource
	if wanted.Subresource != "" {
		resource += "/" + wanted.Subresource
	}
	where := "in namespace " + wanted.Namespace
	if wanted.Namespace == "" {
		where = "in all namespaces (the request names none)"
	}
	return rpcerr.New(codes.PermissionDenied, rpcerr.PermissionDenied, "%s may not %s %s.%s %s", username, wanted.Verb, resource, wanted.Group, where).
		With("verb", wanted.Verb).With("resource", resource).With("group", wanted.Group).With("namespace", wanted.Namespace)
}
