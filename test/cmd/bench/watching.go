package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
)

// watching fills the figures of 5,000 Workspaces over 50 remotes, which wait for a Rollout that does not exist: what is measured is the watching alone.
func (s scale) watching(ctx context.Context, out *figures) error {
	const namespace, count, remotes, window = "bench-watching", 5000, 50, 3 * time.Minute
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	project := &v1alpha1.Project{}
	project.Namespace, project.Name = namespace, "watched"
	project.Spec.Orchestration = v1alpha1.OrchestrationRollout
	if err := s.Create(ctx, project); err != nil {
		return fmt.Errorf("creating the Project: %w", err)
	}
	took, err := s.timed(ctx, &v1alpha1.WorkspaceList{}, namespace, count, isDetected, func(ctx context.Context, i int) error {
		w := workspace(namespace, project.Name, fmt.Sprintf("ws-%04d", i), nil)
		// Another user is another remote, and the server asks for none.
		w.Spec.Source.RepoURL = strings.Replace(demo.RepositoryURL, "://", fmt.Sprintf("://r%02d@", i%remotes), 1)
		return s.Create(ctx, w)
	})
	if err != nil {
		return fmt.Errorf("measuring %d Workspaces: %w", count, err)
	}
	fmt.Fprintf(os.Stderr, "%d Workspaces had a revision after %s\n", count, took.Round(time.Millisecond))
	if err := pause(ctx, time.Minute); err != nil {
		return err
	}
	// Only the replica that polls counts polls beyond none, so that a sum over both is right.
	before, err := s.metric(ctx, "refwatcher", "magos_refwatcher_polls_total")
	if err != nil {
		return err
	}
	if err := pause(ctx, window); err != nil {
		return err
	}
	after, err := s.metric(ctx, "refwatcher", "magos_refwatcher_polls_total")
	if err != nil {
		return err
	}
	memory, err := s.metric(ctx, "refwatcher", "process_resident_memory_bytes")
	if err != nil {
		return err
	}
	polls, largest := 0.0, 0.0
	for pod, bytes := range memory {
		fmt.Fprintf(os.Stderr, "%s: %.0f polls, %.1f MB\n", pod, after[pod]-before[pod], bytes/megabyte)
		polls += after[pod] - before[pod]
		largest = max(largest, bytes/megabyte)
	}
	out.PollsPerMinute5000 = value(polls / window.Minutes())
	out.RefwatcherRSSMB5000 = value(largest)
	return nil
}

func isDetected(object client.Object) bool {
	return v1alpha1.DetectedRevision(object.(*v1alpha1.Workspace)) != ""
}
