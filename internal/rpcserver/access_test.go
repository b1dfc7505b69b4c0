package rpcserver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
)

func TestAnswersAreKeptForAWhileOnly(t *testing.T) {
	api, clock := newKube(), clocktesting.NewFakeClock(time.Now())
	f := serve(t, api, &runner{}, func(c *rpcserver.Config) { c.Clock = clock })
	client := f.client(t, "good")
	for _, step := range []struct {
		wait             time.Duration
		tokens, accesses int
	}{
		{0, 1, 1}, {0, 1, 1}, {6 * time.Second, 1, 2}, {50 * time.Second, 1, 3}, {6 * time.Second, 2, 4},
	} {
		clock.Step(step.wait)
		if _, err := client.GetRun(t.Context(), request("a")); err != nil {
			t.Fatal(err)
		}
		if tokens, accesses := api.reviews(); tokens != step.tokens || accesses != step.accesses {
			t.Errorf("after another %s: %d token and %d access reviews, want %d and %d", step.wait, tokens, accesses, step.tokens, step.accesses)
		}
	}
	if _, err := client.GetRun(t.Context(), request("b")); err != nil {
		t.Fatal(err)
	}
	if _, accesses := api.reviews(); accesses != 5 {
		t.Errorf("%d access reviews: the right in one namespace was taken for that in another", accesses)
	}
}

func TestARightThatWasTakenEnds(t *testing.T) {
	api, clock := newKube(), clocktesting.NewFakeClock(time.Now())
	f := serve(t, api, &runner{}, func(c *rpcserver.Config) { c.Clock = clock })
	client := f.client(t, "good")
	if _, err := client.GetRun(t.Context(), request("a")); err != nil {
		t.Fatal(err)
	}
	api.change(func(k *kube) { k.access = authorizationv1.SubjectAccessReviewStatus{} })
	clock.Step(6 * time.Second)
	_, err := client.GetRun(t.Context(), request("a"))
	expect(t, err, codes.PermissionDenied, rpcerr.PermissionDenied)
	api.change(func(k *kube) { k.access.Allowed = true })
	clock.Step(2 * time.Second)
	if _, err := client.GetRun(t.Context(), request("a")); err != nil {
		t.Errorf("after the right was given again: %v", err)
	}
}

func TestTheGateIsClosedUnlessKubernetesSaysYes(t *testing.T) {
	for name, test := range map[string]struct {
		token  string
		change func(*kube)
		code   codes.Code
		reason string
	}{
		"a bad token": {"bad", func(*kube) {}, codes.Unauthenticated, rpcerr.Unauthenticated},
		"an authenticator that knows no audiences": {"good", func(k *kube) { k.authentication.Audiences = nil }, codes.Unauthenticated, rpcerr.Unauthenticated},
		"another audience":                         {"good", func(k *kube) { k.authentication.Audiences = []string{"magos-rollout"} }, codes.Unauthenticated, rpcerr.Unauthenticated},
		"a token of nobody":                        {"good", func(k *kube) { k.authentication.User = authenticationv1.UserInfo{} }, codes.Unauthenticated, rpcerr.Unauthenticated},
		"the API server does not know":             {"good", func(k *kube) { k.err = errors.New("etcd is down") }, codes.Unavailable, rpcerr.KubernetesUnavailable},
		"no right":                                 {"good", func(k *kube) { k.access.Allowed = false }, codes.PermissionDenied, rpcerr.PermissionDenied},
		"allowed and denied at once":               {"good", func(k *kube) { k.access.Denied = true }, codes.PermissionDenied, rpcerr.PermissionDenied},
		"a token without end":                      {strings.Repeat("x", 20<<10), func(*kube) {}, codes.Unauthenticated, rpcerr.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			api := newKube()
			api.change(test.change)
			f := serve(t, api, &runner{}, nil)
			_, err := f.client(t, test.token).GetRun(t.Context(), request("a"))
			expect(t, err, test.code, test.reason)
		})
	}
}

func TestFailedReviewsAreNotKept(t *testing.T) {
	api := newKube()
	api.change(func(k *kube) { k.err = errors.New("etcd is down") })
	f := serve(t, api, &runner{}, nil)
	client := f.client(t, "good")
	_, err := client.GetRun(t.Context(), request("a"))
	expect(t, err, codes.Unavailable, rpcerr.KubernetesUnavailable)
	api.change(func(k *kube) { k.err = nil })
	if _, err := client.GetRun(t.Context(), request("a")); err != nil {
		t.Errorf("after the API server is back: %v", err)
	}
}

func TestABadTokenIsNotAskedAboutAgain(t *testing.T) {
	api := newKube()
	f := serve(t, api, &runner{}, nil)
	client := f.client(t, "bad")
	for range 5 {
		_, err := client.GetRun(t.Context(), request("a"))
		expect(t, err, codes.Unauthenticated, rpcerr.Unauthenticated)
	}
	if tokens, _ := api.reviews(); tokens != 1 {
		t.Errorf("%d reviews of one bad token, want 1", tokens)
	}
}

func TestTwoTokensInOneCallAreNone(t *testing.T) {
	f := serve(t, newKube(), &runner{}, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good", "authorization", "Bearer bad")
	_, err := runnerv1alpha1.NewRunnerServiceClient(f.bare(t)).GetRun(ctx, request("a"))
	expect(t, err, codes.Unauthenticated, rpcerr.Unauthenticated)
}

func TestWhatKubernetesIsAsked(t *testing.T) {
	api := newKube()
	f := serve(t, api, &runner{}, nil)
	if _, err := f.client(t, "good").GetRun(t.Context(), request("team-a")); err != nil {
		t.Fatal(err)
	}
	for _, action := range api.Actions() {
		create, ok := action.(clienttesting.CreateAction)
		if !ok {
			continue
		}
		switch asked := create.GetObject().(type) {
		case *authenticationv1.TokenReview:
			if !slices.Equal(asked.Spec.Audiences, []string{"magos-runner"}) {
				t.Errorf("audiences = %v", asked.Spec.Audiences)
			}
		case *authorizationv1.SubjectAccessReview:
			got, want := *asked.Spec.ResourceAttributes, authorizationv1.ResourceAttributes{
				Namespace: "team-a", Name: "dev", Verb: "get", Group: "magosproject.io", Version: "*", Resource: "workspaces", Subresource: "log",
			}
			if got.Namespace != want.Namespace || got.Name != want.Name || got.Verb != want.Verb || got.Group != want.Group || got.Resource != want.Resource || got.Subresource != want.Subresource {
				t.Errorf("asked for %+v, want %+v", got, want)
			}
			if asked.Spec.User != "jane" || !slices.Equal(asked.Spec.Groups, []string{"team"}) {
				t.Errorf("asked about %s %v, want jane of team", asked.Spec.User, asked.Spec.Groups)
			}
		}
	}
}
