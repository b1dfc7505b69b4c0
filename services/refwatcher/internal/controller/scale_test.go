package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// timedRemotes notes when each repository is asked. What lies on the host hangs does not answer before the client's timeout.
type timedRemotes struct {
	hangs string

	mutex sync.Mutex
	asked map[string][]time.Time
}

func (r *timedRemotes) List(ctx context.Context, url refs.URL, _ *repocreds.Credential, _ []string) (refs.Advertised, error) {
	r.mutex.Lock()
	r.asked[url.String()] = append(r.asked[url.String()], time.Now())
	r.mutex.Unlock()
	if url.Host == r.hangs {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(200 * time.Millisecond)
	return refs.Advertised{"refs/heads/main": {Object: commitA}}, nil
}

// Polls are counted by repository, not by Workspace: two a minute of each at the default interval, a tenth more at most for the jitter. Ten further
// repositories on a host that hangs delay none of them.
func TestFiveThousandWorkspacesOfFiftyRepositoriesAreAHundredPollsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const repositories, minutes = 50, 20
		var workspaces []*v1alpha1.Workspace
		for i := range 5000 {
			w := newWorkspace(fmt.Sprintf("ws-%04d", i), "main")
			w.Spec.Source.RepoURL = fmt.Sprintf("https://git-%d.example.com/%d.git", i%5, i%repositories)
			workspaces = append(workspaces, w)
		}
		for i := range 10 {
			w := newWorkspace(fmt.Sprintf("lost-%d", i), "main")
			w.Spec.Source.RepoURL = fmt.Sprintf("https://hangs.example.com/%d.git", i)
			workspaces = append(workspaces, w)
		}
		k := NewKnowledge(schedule.Settings{MaxBackoff: 2 * time.Minute, MinGap: time.Second, PerHost: 8, Total: 64, Jitter: 0.1, Patience: schedule.DefaultPatience}, schemes)
		remotes := &timedRemotes{hangs: "hangs.example.com", asked: map[string][]time.Time{}}
		p, changed := newTestPoller(t, k, remotes, clock.RealClock{}, workspaces...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Start(ctx) }()
		told := make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-changed:
					n++
				case <-ctx.Done():
					told <- n
					return
				}
			}
		}()
		time.Sleep(minutes * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := <-told; n < 5000 || n > 5010 {
			t.Errorf("%d Workspaces were told of, want each of 5000 once and those whose host hangs", n)
		}
		polls := 0
		for url, times := range remotes.asked {
			if strings.Contains(url, remotes.hangs) {
				continue
			}
			polls += len(times)
			for i := 1; i < len(times); i++ {
				// An interval, and the answer of the poll before it.
				if gap := times[i].Sub(times[i-1]); gap > 30*time.Second+200*time.Millisecond {
					t.Errorf("%s was left alone for %s", url, gap)
				}
			}
		}
		if perMinute := float64(polls) / minutes; perMinute < 2*repositories-2 || perMinute > 2*repositories*1.12 {
			t.Errorf("%.1f polls a minute, want about %d", perMinute, 2*repositories)
		}
	})
}
