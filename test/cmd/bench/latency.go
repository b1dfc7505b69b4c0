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

	seen := latencies{begun: time.Now(), ended: map[string]time.Time{}, asked: map[string]time.Time{}}
	for pushed := 0; len(seen.values) < samples; {
		// A commit at a time: what is measured is the service, not the queue for two cores.
		if len(seen.values) >= pushed*len(demo.Steps) {
			pushed++
			if _, err := installation.PushMessage(ctx, fmt.Sprintf("Measured greeting %d", pushed)); err != nil {
				return 0, 0, fmt.Errorf("pushing: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("measuring plan to apply: %d of %d runs in time: %w", len(seen.values), samples, ctx.Err())
		case event, open := <-pods.ResultChan():
			if !open {
				return 0, 0, errors.New("the watch of pods ended")
			}
			seen.pod(event)
		case event, open := <-jobs.ResultChan():
			if !open {
				return 0, 0, errors.New("the watch of jobs ended")
			}
			seen.job(event)
		}
	}
	middle, spread = median(seen.values)
	return middle, spread, nil
}

// latencies pairs the end of each run's plan with the creation of its apply. Two watches race: either may be read first, and a run
// counts when both are known.
type latencies struct {
	begun        time.Time
	ended, asked map[string]time.Time
	values       []float64
}

func (l *latencies) pod(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if ok && pod.Labels[v1alpha1.LabelRunPhase] == "plan" && haveEnded(pod.Status.ContainerStatuses) {
		l.note(l.ended, pod)
	}
}

// haveEnded is what the runner goes by. The phase of the pod follows about a second later, and the condition of the Job after that.
func haveEnded(containers []corev1.ContainerStatus) bool {
	for _, container := range containers {
		if container.State.Terminated == nil {
			return false
		}
	}
	return len(containers) > 0
}

func (l *latencies) job(event watch.Event) {
	job, ok := event.Object.(*batchv1.Job)
	if ok && event.Type == watch.Added && job.Labels[v1alpha1.LabelRunPhase] == "apply" {
		l.note(l.asked, job)
	}
}

// note keeps the first time at which half of a run was seen, and counts the run when that completes it.
func (l *latencies) note(half map[string]time.Time, obj client.Object) {
	run := obj.GetLabels()[v1alpha1.LabelRunID]
	if !half[run].IsZero() || obj.GetCreationTimestamp().Time.Before(l.begun) {
		return
	}
	half[run] = time.Now()
	from, to := l.ended[run], l.asked[run]
	if from.IsZero() || to.IsZero() {
		return
	}
	l.values = append(l.values, float64(to.Sub(from).Microseconds())/1000)
	fmt.Fprintf(os.Stderr, "plan to apply: %.0f ms\n", l.values[len(l.values)-1])
}
