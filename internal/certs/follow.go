package certs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// retryDelay is the pause after a read that failed, and after a watch that ended.
	retryDelay = time.Second
	// watchLimit bounds a watch, so that one that died silently is noticed.
	watchLimit = 5 * time.Minute
)

// NeedLeaderElection makes every replica follow.
func (b *Bundle) NeedLeaderElection() bool { return false }

// Start follows the Secret until ctx ends. Nothing that goes wrong on the way ends it: the set at hand stays in use meanwhile.
func (b *Bundle) Start(ctx context.Context) error {
	waiting := false
	for ctx.Err() == nil {
		err := b.follow(ctx)
		switch {
		case ctx.Err() != nil:
		case apierrors.IsNotFound(err):
			if !waiting {
				b.config.Log.Info("waiting for the certificates", "secret", b.config.Name)
			}
			waiting = true
		case err != nil:
			b.config.Log.Warn("following the certificates", "secret", b.config.Name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-b.config.Clock.After(retryDelay):
		}
	}
	return nil
}

// follow reads the Secret once and then takes every change until the watch ends.
func (b *Bundle) follow(ctx context.Context) error {
	secret, err := b.config.Secrets.Get(ctx, b.config.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Secret: %w", err)
	}
	b.take(secret)

	seconds := int64(watchLimit / time.Second)
	changes, err := b.config.Secrets.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, b.config.Name).String(),
		ResourceVersion: secret.ResourceVersion,
		TimeoutSeconds:  &seconds,
	})
	if err != nil {
		return fmt.Errorf("watching the Secret: %w", err)
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		if change.Type == watch.Error {
			return fmt.Errorf("watching the Secret: %w", apierrors.FromObject(change.Object))
		}
		if secret, ok := change.Object.(*corev1.Secret); ok {
			b.notice(change.Type, secret)
		}
	}
	return nil
}

// notice takes a change, and wakes whoever restores a Secret that was deleted.
func (b *Bundle) notice(kind watch.EventType, secret *corev1.Secret) {
	if kind == watch.Deleted {
		b.config.Log.Warn("the Secret of the certificates was deleted; the present ones stay in use", "secret", secret.Name)
		b.announce()
		return
	}
	b.take(secret)
}
