package rpc

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// WatchRuns sends the present state of every run, then each change.
func (s *Server) WatchRuns(in *runnerv1alpha1.WatchRunsRequest, stream grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error {
	ctx := stream.Context()
	if in.GetNamespace() != "" && len(validation.IsDNS1123Label(in.GetNamespace())) > 0 {
		return rpcerr.Invalid("namespace", "is no namespace name")
	}
	// First the subscription, then the present state: a change in between is told twice rather than not at all.
	w, stop := s.Hub.watch(in.GetNamespace())
	defer stop()
	jobs := &batchv1.JobList{}
	if err := s.Runs.Cache.List(ctx, jobs, client.InNamespace(in.GetNamespace())); err != nil {
		return fmt.Errorf("listing the jobs of runs: %w", err)
	}
	for i := range jobs.Items {
		w.add(client.ObjectKeyFromObject(&jobs.Items[i]))
	}
	jobs = nil
	sent := map[types.NamespacedName]*runnerv1alpha1.Run{}
	for {
		name, err := w.next(ctx)
		if err != nil {
			return err
		}
		run, found, err := s.Runs.Cached(ctx, name)
		if err != nil {
			return err
		}
		if !found {
			delete(sent, name)
			continue
		}
		out := message(run)
		if proto.Equal(out, sent[name]) {
			continue
		}
		if err := stream.Send(&runnerv1alpha1.WatchRunsResponse{Run: out}); err != nil {
			return err
		}
		sent[name] = out
	}
}
