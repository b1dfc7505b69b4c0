package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"magosproject.io/deploy/local/cluster"
)

func TestWhatIsSaidWhenUpEndsEarly(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	found := &Installation{local: &cluster.Cluster{}}
	broken := errors.New("deployment magos-runner is not ready")
	full := fmt.Errorf("importing an image: %w", syscall.ENOSPC)
	for name, c := range map[string]struct {
		ctx          context.Context
		installation *Installation
		err          error
		want         []string
	}{
		"a failure stays as it is":               {t.Context(), found, broken, []string{"deployment magos-runner is not ready"}},
		"also where there is no cluster":         {t.Context(), nil, broken, []string{"deployment magos-runner is not ready"}},
		"Ctrl-C beside a cluster that was there": {stopped, found, broken, []string{"interrupted", "was there before and stays", "`make down`"}},
		"Ctrl-C before there is one":             {stopped, nil, broken, []string{"interrupted", "`make up` begins again"}},
		"a full disk names places and needs":     {t.Context(), found, full, []string{"disk full: ", "GiB free and ", "needs ", "importing an image"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := abandon(c.ctx, Options{Name: "none", StateRoot: t.TempDir()}, c.installation, c.err)
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want %q in it", err, part)
				}
			}
			if c.ctx.Err() != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%q is no cancellation", err)
			}
		})
	}
}
