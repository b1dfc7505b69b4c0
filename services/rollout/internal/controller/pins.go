package controller

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"magosproject.io/api/v1alpha1"
	refwatcherpb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/rollout/internal/progression"
)

// Answer is what the refwatcher says about a Workspace.
type Answer struct {
	// Revision is the full commit SHA.
	Revision string
	// Key is what the Workspace had when it was asked about.
	Key progression.Key
}

// Revisions asks the refwatcher which commit the target revision of a Workspace is now.
type Revisions interface {
	// Resolve returns an error of the RPC vocabulary (package rpcerr) when there is no answer.
	Resolve(ctx context.Context, workspace types.NamespacedName) (Answer, error)
}

const (
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
	// hintMemory is how long the answer to one hint stands: while a watcher lags behind, its annotation hints at the same commit
	// again and again.
	hintMemory = 30 * time.Second
	// asksAtOnce bounds the questions of one Project that are on their way together.
	asksAtOnce = 8
)

// pins gets commits from the refwatcher, and does not ask again at once after an error.
type pins struct {
	revisions Revisions
	clock     clock.PassiveClock
	metrics   *Metrics

	mutex sync.Mutex
	known map[types.NamespacedName]map[progression.Key]memory
}

// memory is an answer that stands for a while.
type memory struct {
	resolution progression.Resolution
	until      time.Time
	failures   int
	hint       string
}

func newPins(revisions Revisions, clock clock.PassiveClock, metrics *Metrics) *pins {
	return &pins{revisions: revisions, clock: clock, metrics: metrics, known: map[types.NamespacedName]map[progression.Key]memory{}}
}

// answer puts a Resolution for each request into the Snapshot. It returns when to ask again what could not be answered, or was not confirmed.
func (p *pins) answer(ctx context.Context, o *observed, requests []progression.PinRequest) (time.Duration, error) {
	resolutions := make([]memory, len(requests))
	var group errgroup.Group
	group.SetLimit(asksAtOnce)
	for i, request := range requests {
		group.Go(func() error {
			resolutions[i] = p.one(ctx, o.key, request)
			return nil
		})
	}
	_ = group.Wait()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var retry time.Duration
	resolved := maps.Clone(o.Resolved)
	for i, request := range requests {
		resolved[request.Key] = resolutions[i].resolution
		if revision := resolutions[i].resolution.Revision; revision == "" || request.Hint != "" && revision != request.Hint {
			// A commit that the remote does not confirm yet may be one that it shows in a moment.
			retry = soonest(retry, max(resolutions[i].until.Sub(p.clock.Now()), time.Millisecond))
		}
	}
	o.Resolved = resolved
	return retry, nil
}

// one answers from memory while an error's back-off lasts or a hint is the same, else asks.
func (p *pins) one(ctx context.Context, key types.NamespacedName, request progression.PinRequest) memory {
	known := p.remembered(key, request.Key)
	fresh := p.clock.Now().Before(known.until)
	if fresh && (known.resolution.Revision == "" || request.Hint != "" && request.Hint == known.hint) {
		return known
	}
	asked, err := p.revisions.Resolve(ctx, types.NamespacedName{Namespace: key.Namespace, Name: request.Member})
	next := memory{resolution: resolution(asked, err, request.Key), hint: request.Hint}
	p.metrics.resolved(next.resolution.Reason)
	if next.resolution.Revision == "" {
		next.failures = known.failures + 1
		next.until = p.clock.Now().Add(backoff(next.failures))
	} else {
		next.until = p.clock.Now().Add(hintMemory)
	}
	p.remember(key, request.Key, next)
	return next
}

func backoff(failures int) time.Duration {
	delay := firstRetry
	for i := 1; i < failures && delay < lastRetry; i++ {
		delay *= 2
	}
	return min(delay, lastRetry)
}

// resolution tells an answer to another question, which the Workspace's edit has made, from one to this.
func resolution(asked Answer, err error, key progression.Key) progression.Resolution {
	if err == nil && asked.Key == key {
		return progression.Resolution{Revision: asked.Revision}
	}
	if err == nil {
		return progression.Resolution{Reason: v1alpha1.ReasonAwaitingRevision, Message: "the Workspace was edited meanwhile; asking again"}
	}
	reason, message := v1alpha1.ReasonAwaitingRevision, cut(err.Error(), maxWords)
	switch rpcerr.Reason(err) {
	case rpcerr.RevisionNotFound:
		reason = v1alpha1.ReasonRevisionNotFound
	case rpcerr.AmbiguousRevision:
		reason = v1alpha1.ReasonAmbiguousRevision
	case rpcerr.RemoteUnavailable, rpcerr.SchemeNotAllowed, rpcerr.CredentialInvalid, rpcerr.WorkspaceNotFound, rpcerr.InvalidField:
	default:
		code := rpcerr.Code(err)
		if code == codes.InvalidArgument || code == codes.NotFound {
			break
		}
		reason, message = v1alpha1.ReasonRefWatcherRefused, rpcerr.Advice(refwatcherpb.RefWatcherService_ResolveRevision_FullMethodName, err)
		if rpcerr.Silent(err) {
			reason = v1alpha1.ReasonRefWatcherUnavailable
		}
	}
	return progression.Resolution{Reason: reason, Message: message}
}

// maxWords is how much of an error's text a status repeats, in characters.
const maxWords = 500

// cut shortens text to at most limit characters.
func cut(text string, limit int) string {
	characters := []rune(text)
	if len(characters) <= limit {
		return text
	}
	return string(characters[:limit-1]) + "…"
}

func (p *pins) remembered(key types.NamespacedName, of progression.Key) memory {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.known[key][of]
}

func (p *pins) remember(key types.NamespacedName, of progression.Key, m memory) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.known[key] == nil {
		p.known[key] = map[progression.Key]memory{}
	}
	p.known[key][of] = m
}

// forget drops what is known for a Project that is gone.
func (p *pins) forget(key types.NamespacedName) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.known, key)
}
