package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	ended := map[string]time.Time{}
	seen := map[string]bool{}
	var values []float64
	begun := time.Now()
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
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Labels[v1alpha1.LabelRunPhase] == "plan" && pod.Status.Phase == corev1.PodSucceeded {
				if _, known := ended[pod.Labels[v1alpha1.LabelRunID]]; !known {
					ended[pod.Labels[v1alpha1.LabelRunID]] = time.Now()
				}
			}
		case event, open := <-jobs.ResultChan():
			if !open {
				return 0, 0, errors.New("the watch of jobs ended")
			}
			job, ok := event.Object.(*batchv1.Job)
			if !ok || event.Type != watch.Added || job.Labels[v1alpha1.LabelRunPhase] != "apply" || job.CreationTimestamp.Time.Before(begun) {
				continue
			}
			run := job.Labels[v1alpha1.LabelRunID]
			if at, known := ended[run]; known && !seen[run] {
				seen[run] = true
				values = append(values, float64(time.Since(at).Microseconds())/1000)
				fmt.Fprintf(os.Stderr, "plan to apply: %.0f ms\n", values[len(values)-1])
			}
		}
	}
	middle, spread = median(values)
	return middle, spread, nil
}

// fill creates Workspaces that wait for a Rollout that does not exist, so that they cost what a Workspace at rest costs.
func fill(ctx context.Context, c client.Client, count int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	if err := c.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	project := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "bench"}}
	project.Spec.Orchestration = v1alpha1.OrchestrationRollout
	if err := c.Create(ctx, project); err != nil {
		return fmt.Errorf("creating the Project: %w", err)
	}
	for i := range count {
		ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: fmt.Sprintf("ws-%03d", i)}}
		ws.Spec.ProjectRef.Name = "bench"
		ws.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: demo.RepositoryURL, TargetRevision: "main", Path: "env/dev"}
		ws.Spec.Terraform = v1alpha1.TerraformSpec{Engine: v1alpha1.EngineOpenTofu, Version: demo.OpenTofuVersion}
		if err := c.Create(ctx, ws); err != nil {
			return fmt.Errorf("creating Workspace %d: %w", i, err)
		}
	}
	return nil
}
