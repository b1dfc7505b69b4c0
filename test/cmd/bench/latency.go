package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up"
)

// samples is how many runs of the demo are measured, three for each commit.
const samples = 12

// planToApply measures, over runs of the demo, the time from the moment at which the API server tells that the plan's pod has
// ended to the moment at which it tells of the apply's Job, both as this process sees them.
func planToApply(ctx context.Context, installation *up.Installation, c client.WithWatch) (middle, spread float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	pods, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(demo.Namespace))
	if err != nil {
		return 0, 0, fmt.Errorf("watching pods: %w", err)
	}
	defer pods.Stop()
	jobs, err := c.Watch(ctx, &batchv1.JobList{}, client.InNamespace(demo.Namespace))
	if err != nil {
		return 0, 0, fmt.Errorf("watching jobs: %w", err)
	}
	defer jobs.Stop()

	// Two watches race: either half of a run may be read first, and a run counts when both are known.
	ended, asked := map[string]time.Time{}, map[string]time.Time{}
	begun := time.Now()
	var values []float64
	count := func(run string) {
		from, known := ended[run]
		to, also := asked[run]
		if known && also {
			values = append(values, float64(to.Sub(from).Microseconds())/1000)
			fmt.Fprintf(os.Stderr, "plan to apply: %.0f ms\n", values[len(values)-1])
		}
	}
	next := 0
	for len(values) < samples {
		// A commit at a time: what is measured is the service, not the queue for two cores.
		if len(values) >= next*len(demo.Steps) {
			next++
			if _, err := installation.PushMessage(ctx, fmt.Sprintf("Measured greeting %d", next)); err != nil {
				return 0, 0, fmt.Errorf("pushing: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("measuring plan to apply: %d of %d runs in time: %w", len(values), samples, ctx.Err())
		case event, open := <-pods.ResultChan():
			if !open {
				return 0, 0, errors.New("the watch of pods ended")
			}
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Labels[v1alpha1.LabelRunPhase] != "plan" || pod.Status.Phase != corev1.PodSucceeded || pod.CreationTimestamp.Time.Before(begun) {
				continue
			}
			if run := pod.Labels[v1alpha1.LabelRunID]; ended[run].IsZero() {
				ended[run] = time.Now()
				count(run)
			}
		case event, open := <-jobs.ResultChan():
			if !open {
				return 0, 0, errors.New("the watch of jobs ended")
			}
			job, ok := event.Object.(*batchv1.Job)
			if !ok || event.Type != watch.Added || job.Labels[v1alpha1.LabelRunPhase] != "apply" || job.CreationTimestamp.Time.Before(begun) {
				continue
			}
			if run := job.Labels[v1alpha1.LabelRunID]; asked[run].IsZero() {
				asked[run] = time.Now()
				count(run)
			}
		}
	}
	middle, spread = median(values)
	return middle, spread, nil
}
