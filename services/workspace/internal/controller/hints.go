package controller

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

const (
	firstPause = 200 * time.Millisecond
	lastPause  = 15 * time.Second
)

// Hints follows the runner's WatchRuns and turns each message into a hint that a Workspace may have something to do.
// A hint that is lost costs time and nothing else: a run in flight is asked about every half minute anyway.
type Hints struct {
	runner     runnerv1alpha1.RunnerServiceClient
	namespaces []string
	clock      clock.Clock
	log        *slog.Logger
	channel    chan event.GenericEvent
}

// NewHints follows the runs of the namespaces; none means of all.
func NewHints(runner runnerv1alpha1.RunnerServiceClient, namespaces []string, clock clock.Clock, log *slog.Logger) *Hints {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	return &Hints{runner: runner, namespaces: namespaces, clock: clock, log: log, channel: make(chan event.GenericEvent)}
}

// Channel gives the hints.
func (h *Hints) Channel() <-chan event.GenericEvent { return h.channel }

// NeedLeaderElection is true: hints are for the replica that reconciles.
func (h *Hints) NeedLeaderElection() bool { return true }

// Start follows until ctx ends. It connects again after every end of a stream, with growing pauses while none comes about.
func (h *Hints) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, namespace := range h.namespaces {
		group.Go(func() error { h.follow(ctx, namespace); return nil })
	}
	return group.Wait()
}

func (h *Hints) follow(ctx context.Context, namespace string) {
	pause := firstPause
	for ctx.Err() == nil {
		received, err := h.watch(ctx, namespace)
		if ctx.Err() != nil {
			return
		}
		if received {
			pause = firstPause
		}
		h.log.Info("the runner's stream of runs ended; it is opened again", "namespace", namespace, "code", rpcerr.Code(err).String(), "pause", pause.String())
		select {
		case <-ctx.Done():
			return
		case <-h.clock.After(pause + rand.N(pause/2)):
		}
		pause = min(2*pause, lastPause)
	}
}

// watch passes on one stream until it ends, and reports whether anything came.
func (h *Hints) watch(ctx context.Context, namespace string) (received bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.runner.WatchRuns(ctx, &runnerv1alpha1.WatchRunsRequest{Namespace: namespace})
	if err != nil {
		return false, err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		ref := message.GetRun().GetKey().GetWorkspace()
		hint := event.GenericEvent{Object: &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: ref.GetNamespace(), Name: ref.GetName()}}}
		select {
		case h.channel <- hint:
		case <-ctx.Done():
			return received, ctx.Err()
		}
	}
}
