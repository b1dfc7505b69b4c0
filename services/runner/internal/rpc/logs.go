package rpc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runlog"
	"magosproject.io/services/runner/internal/runspec"
)

const (
	// logRetry is how often a follower looks whether the container has started, and how long it waits before it takes up a broken stream.
	logRetry = time.Second
	// logTries is how often in a row that may fail.
	logTries = 60
)

// StreamLogs sends the log of a container of the run.
func (s *Server) StreamLogs(in *runnerv1alpha1.StreamLogsRequest, stream grpc.ServerStreamingServer[runnerv1alpha1.StreamLogsResponse]) error {
	ctx := stream.Context()
	key, err := checkedKey(in.GetKey())
	if err != nil {
		return err
	}
	container, err := logContainer(in.GetContainer(), key.Phase)
	if err != nil {
		return err
	}
	pod, err := s.startedPod(ctx, key, container, in.GetFollow())
	if err != nil || pod == nil {
		return err
	}
	log := runlog.Log{
		Open: func(ctx context.Context, since time.Time, follow bool) (io.ReadCloser, error) {
			return s.openLog(ctx, pod, container, since, follow)
		},
		Ended: func(ctx context.Context) (bool, error) {
			present, err := s.pod(ctx, key)
			return present == nil || present.UID != pod.UID || hasEnded(present, container), err
		},
		Permanent: func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) },
		Pause:     logRetry, Tries: logTries,
	}
	err = log.Read(ctx, in.GetFollow(), sender(stream.Send))
	if apierrors.IsNotFound(err) {
		return logsGone(key)
	}
	return err
}

// openLog asks the kubelet for the log, by way of the API server. The kubelet knows whole seconds only: what comes too early is skipped.
func (s *Server) openLog(ctx context.Context, pod *corev1.Pod, container string, since time.Time, follow bool) (io.ReadCloser, error) {
	options := &corev1.PodLogOptions{Container: container, Follow: follow, Timestamps: true}
	if !since.IsZero() {
		options.SinceTime = &metav1.Time{Time: since.Truncate(time.Second)}
	}
	log, err := s.Pods.Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return log, nil
}

// sender sends pieces in messages. Send blocks while the reader is slow, and nothing is read meanwhile. gRPC has serialised
// a message when Send returns, so that its buffer can be used again.
func sender(send func(*runnerv1alpha1.StreamLogsResponse) error) func(runlog.Piece) error {
	return func(piece runlog.Piece) error {
		if piece.Missing {
			return send(&runnerv1alpha1.StreamLogsResponse{Missing: true, MissingBytes: piece.Bytes})
		}
		return send(&runnerv1alpha1.StreamLogsResponse{Data: piece.Data})
	}
}

func logContainer(name, phase string) (string, error) {
	if name == "" {
		return runspec.ContainerTool, nil
	}
	known := []string{runspec.ContainerTool}
	if phase == runspec.PhasePlan {
		known = []string{runspec.ContainerKeeper, runspec.ContainerTool, runspec.ContainerShow}
	}
	if !slices.Contains(known, name) {
		return "", rpcerr.Invalid("container", fmt.Sprintf("must be one of %q", known))
	}
	return name, nil
}

// startedPod is the pod of the run, once the container has run in it. Without follow, a container that has not is an empty log: no pod and no error.
func (s *Server) startedPod(ctx context.Context, key execution.Key, container string, follow bool) (*corev1.Pod, error) {
	for {
		run, found, err := s.Runs.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, notFound(key)
		}
		pod, err := s.pod(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case pod == nil && run.State.Terminal():
			return nil, logsGone(key)
		case pod != nil && hasRun(pod, container):
			return pod, nil
		case !follow || run.State.Terminal():
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(logRetry):
		}
	}
}

func (s *Server) pod(ctx context.Context, key execution.Key) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	selector := client.MatchingLabels{v1alpha1.LabelRunID: key.RunID, v1alpha1.LabelRunPhase: key.Phase}
	if err := s.Runs.Cache.List(ctx, pods, client.InNamespace(key.Namespace), selector); err != nil {
		return nil, fmt.Errorf("listing the pods of run %s: %w", key.RunID, err)
	}
	if len(pods.Items) == 0 {
		return nil, nil
	}
	return &pods.Items[0], nil
}

func hasRun(pod *corev1.Pod, container string) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Running != nil || s.State.Terminated != nil
		}
	}
	return false
}

func hasEnded(pod *corev1.Pod, container string) bool {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Terminated != nil
		}
	}
	return false
}

func logsGone(key execution.Key) error {
	return rpcerr.New(codes.NotFound, rpcerr.LogsGone, "the pod of the %s of run %s is gone, and its log with it", key.Phase, key.RunID).With("run_id", key.RunID)
}
