package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
	"magosproject.io/services/refwatcher/internal/remote"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// Lister lists refs of a remote; *remote.Client is one. A nil credential is none.
type Lister interface {
	List(ctx context.Context, url refs.URL, credential *repocreds.Credential, wanted []string) (refs.Advertised, error)
}

// PollerConfig is what a Poller needs.
type PollerConfig struct {
	// Knowledge that it shares with the Reconciler.
	Knowledge *Knowledge
	// Workspaces is where they are listed from, once, at the start: the cache.
	Workspaces client.Reader
	// Credentials of the repositories.
	Credentials *Credentials
	// Lister asks the remotes.
	Lister Lister
	// Changed gets the Workspaces for which something new was found.
	Changed chan<- event.TypedGenericEvent[types.NamespacedName]
	// Clock and Metrics; both are needed.
	Clock   clock.Clock
	Metrics *Metrics
	// Log gets every failed poll that follows a good one.
	Log *slog.Logger
}

// Poller polls remotes by the schedule, for as long as it leads.
type Poller struct {
	PollerConfig
	running sync.WaitGroup
}

// NewPoller makes a Poller. Add it to a manager.
func NewPoller(config PollerConfig) *Poller { return &Poller{PollerConfig: config} }

// NeedLeaderElection makes the manager start it on the leader alone.
func (p *Poller) NeedLeaderElection() bool { return true }

// Start polls until ctx ends, and returns once no poll runs any more.
func (p *Poller) Start(ctx context.Context) error {
	if err := p.seed(ctx); err != nil {
		return err
	}
	p.Knowledge.setLeading(true)
	defer p.Knowledge.setLeading(false)
	defer p.running.Wait()
	for {
		p.startDue(ctx)
		if !p.wait(ctx) {
			return nil
		}
	}
}

// seed takes note of every Workspace before the first poll, so that one poll answers for all of a remote's.
func (p *Poller) seed(ctx context.Context) error {
	var list v1alpha1.WorkspaceList
	if err := p.Workspaces.List(ctx, &list); err != nil {
		return fmt.Errorf("listing Workspaces before the first poll: %w", err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		if w.DeletionTimestamp != nil {
			continue
		}
		access, err := p.Credentials.Access(ctx, w)
		if err != nil {
			return err
		}
		p.Knowledge.Observe(p.Clock.Now(), w, access)
	}
	return nil
}

// startDue starts every poll that is due and that there is room for.
func (p *Poller) startDue(ctx context.Context) {
	for ctx.Err() == nil {
		j, due := p.Knowledge.next(p.Clock.Now())
		if !due {
			return
		}
		p.running.Go(func() { p.poll(ctx, j) })
	}
}

// wait returns true when it may be time for another poll, false when ctx has ended.
func (p *Poller) wait(ctx context.Context) bool {
	var due <-chan time.Time
	if at, some := p.Knowledge.wakeAt(); some {
		timer := p.Clock.NewTimer(at.Sub(p.Clock.Now()))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-p.Knowledge.wake:
	case <-due:
	}
	return true
}

func (p *Poller) poll(ctx context.Context, poll schedule.Poll) {
	begun := p.Clock.Now()
	answer := p.ask(ctx, poll)
	ended := p.Clock.Now()
	if ctx.Err() != nil {
		// The leadership is over; that the question was cut off says nothing about the remote.
		return
	}
	p.Metrics.polled(answer.Outcome, ended.Sub(begun))
	if !poll.HintedAt.IsZero() {
		p.Metrics.pushAnswered(ended.Sub(poll.HintedAt))
	}
	for _, key := range p.Knowledge.finish(ended, poll, answer) {
		select {
		case p.Changed <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		case <-ctx.Done():
			return
		}
	}
}

// ask lists the refs of a remote once and says what each name means.
func (p *Poller) ask(ctx context.Context, poll schedule.Poll) schedule.Answer {
	credential, err := p.Credentials.Credential(ctx, poll.Access, poll.URL)
	if err != nil {
		return schedule.Answer{Outcome: schedule.Refused, Trouble: &schedule.Trouble{Reason: v1alpha1.ReasonCredentialInvalid, Message: err.Error()}}
	}
	var wanted []string
	for _, name := range poll.Names {
		wanted = append(wanted, name.Candidates()...)
	}
	advertised, err := p.Lister.List(ctx, poll.URL, credential, wanted)
	if err != nil {
		p.Log.WarnContext(ctx, "a remote cannot be polled", "remote", poll.Remote, "error", err)
		outcome, retryAfter := outcomeOf(err)
		return schedule.Answer{Outcome: outcome, RetryAfter: retryAfter, Trouble: &schedule.Trouble{Reason: v1alpha1.ReasonRemoteUnavailable, Message: err.Error()}}
	}
	findings := make(map[string]schedule.Finding, len(poll.Names))
	for _, name := range poll.Names {
		findings[name.String()] = schedule.FindingOf(refs.Resolve(advertised, name))
	}
	return schedule.Answer{Findings: findings}
}

// outcomeOf tells a remote that somebody must mend from one that is only away.
func outcomeOf(err error) (schedule.Outcome, time.Duration) {
	var refused *remote.RefusedError
	if errors.As(err, &refused) {
		return schedule.Refused, refused.RetryAfter
	}
	var busy *remote.BusyError
	if errors.As(err, &busy) {
		return schedule.Unreachable, busy.RetryAfter
	}
	return schedule.Unreachable, 0
}
