package rpc

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/rpcerr"
)

// heard is what the poller of a leader was told.
type heard struct{ hints []string }

func (h *heard) pushed(at time.Time, namespace string, urls []refs.URL) (int, bool) {
	for _, url := range urls {
		h.hints = append(h.hints, fmt.Sprintf("%s %s %s", at.Format(time.DateOnly), namespace, url))
	}
	return 2, true
}

// A push that any replica hears of reaches the one that polls, once, and what is no URL is left out.
func TestNotifyPushReachesTheLeader(t *testing.T) {
	for name, through := range map[string]func(leader, other *Service) error{
		"the leader": func(leader, _ *Service) error { return notify(t.Context(), leader) },
		"another":    func(_, other *Service) error { return notify(t.Context(), other) },
		"a webhook of another": func(_, other *Service) error {
			return ForwardPush(other.config.Leader)(t.Context(), "team", []string{"https://example.com/infra.git"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told heard
			leader := newService(t, &remotes{}, func(c *Config) { c.Pushed = told.pushed })
			other := newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{listener: serve(t, leader)} })
			if err := through(leader, other); err != nil {
				t.Fatal(err)
			}
			if want := []string{"2026-01-01 team https://example.com/infra.git"}; !slices.Equal(told.hints, want) {
				t.Errorf("the leader heard %q, want %q", told.hints, want)
			}
		})
	}
}

func notify(ctx context.Context, s *Service) error {
	response, err := s.NotifyPush(ctx, &pb.NotifyPushRequest{Namespace: "team", RepoUrls: []string{"https://Example.com/infra.git", "--upload-pack=x", ""}})
	if err == nil && response.GetRemotes() != 2 {
		return fmt.Errorf("%d remotes, want 2", response.GetRemotes())
	}
	return err
}

func TestNotifyPushWithoutALeaderOrARepository(t *testing.T) {
	nobody := newService(t, &remotes{}, nil)
	starting := newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{self: true} })
	confused := newService(t, &remotes{}, func(c *Config) { c.Leader = otherReplica{} })
	passedOn := metadata.NewIncomingContext(t.Context(), metadata.Pairs(forwarded, "true"))
	for name, err := range map[string]error{
		"nobody leads":                    notify(t.Context(), nobody),
		"it leads and does not poll yet":  notify(t.Context(), starting),
		"passed on, and not to a leader":  notify(passedOn, confused),
		"a webhook while nobody leads":    ForwardPush(noLeader{})(t.Context(), "team", []string{"https://example.com/infra.git"}),
		"a webhook of one that will poll": ForwardPush(otherReplica{self: true})(t.Context(), "team", []string{"https://example.com/infra.git"}),
	} {
		if rpcerr.Code(err) != codes.Unavailable || rpcerr.Reason(err) != rpcerr.NoLeader {
			t.Errorf("%s: got %v, want NO_LEADER", name, err)
		}
	}
	for name, urls := range map[string][]string{"no URL": nil, "too many": make([]string, 101)} {
		if _, err := nobody.NotifyPush(t.Context(), &pb.NotifyPushRequest{RepoUrls: urls}); rpcerr.Reason(rpcerr.Classify(err, "refwatcher")) != rpcerr.InvalidField {
			t.Errorf("%s: got %v, want INVALID_FIELD", name, err)
		}
	}
}
