package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"magosproject.io/services/runner/internal/runspec"
)

// errWaited is wrapped when a wait exceeded its limit.
var errWaited = errors.New("waited too long")

// wait returns when done answers true or fails, ctx ends, or limit has passed. It says from time to time what it waits
// for, so that a log shows where a run stands.
func (c *container) wait(ctx context.Context, what string, limit time.Duration, done func() (bool, error)) error {
	begin := time.Now()
	said := begin
	for {
		finished, err := done()
		if err != nil || finished {
			return err
		}
		now := time.Now()
		if now.Sub(begin) > limit {
			return fmt.Errorf("waiting for %s: %w (%s)", what, errWaited, limit)
		}
		if now.Sub(said) >= c.cfg.Progress {
			said = now
			c.log.Info("waiting", "for", what, "since", now.Sub(begin).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return interrupted(ctx)
		case <-time.After(c.cfg.Poll):
		}
	}
}

// waitForSignal returns the content of keeper's signal, or how keeper ended without it.
func (c *container) waitForSignal(ctx context.Context, name string, limit time.Duration) ([]byte, error) {
	keeper := &peer{folder: c.cfg.Paths.Locks, name: runspec.ContainerKeeper}
	began := time.Now()
	var content []byte
	err := c.wait(ctx, "keeper ("+name+")", limit, func() (bool, error) {
		// The state comes first: a signal that keeper gave before its end must not be missed.
		state, err := keeper.state()
		if err != nil {
			return false, err
		}
		content, err = readSignal(c.cfg.Paths.Signals, name)
		switch {
		case err != nil:
			return false, err
		case content != nil:
			return true, nil
		case state == peerEnded:
			return false, failf(runspec.ExitPeerEnded, reasonPlanFailed, "keeper ended before it was done; it says why")
		case state == peerAbsent && time.Since(began) > c.cfg.PeerStart:
			return false, failf(runspec.ExitPeerEnded, reasonPlanFailed, "keeper did not start within %s", c.cfg.PeerStart)
		}
		return false, nil
	})
	if errors.Is(err, errWaited) {
		return nil, fail(runspec.ExitTimedOut, reasonTimedOut, err)
	}
	return content, err
}

// waitForEnd returns when the container called name has ended, or early answers true.
func (c *container) waitForEnd(ctx context.Context, name string, limit time.Duration, early func() (bool, error)) error {
	other := &peer{folder: c.cfg.Paths.Locks, name: name}
	began := time.Now()
	err := c.wait(ctx, name, limit, func() (bool, error) {
		state, err := other.state()
		if err != nil {
			return false, err
		}
		if early != nil {
			if done, err := early(); done || err != nil {
				return done, err
			}
		}
		if state == peerAbsent && time.Since(began) > c.cfg.PeerStart {
			return false, failf(runspec.ExitPeerEnded, reasonPlanFailed, "container %s did not start within %s", name, c.cfg.PeerStart)
		}
		return state == peerEnded, nil
	})
	if errors.Is(err, errWaited) {
		return fail(runspec.ExitTimedOut, reasonTimedOut, err)
	}
	return err
}
