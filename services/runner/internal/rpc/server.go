// Package rpc serves magos.runner.v1alpha1.RunnerService: it checks and converts, package runs does the work.
package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
	"magosproject.io/services/runner/internal/controller"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runs"
)

// Server implements RunnerService. All fields are required.
type Server struct {
	runnerv1alpha1.UnimplementedRunnerServiceServer

	Runs    *runs.Runs
	Hub     *Hub
	Pods    corev1client.PodsGetter
	Metrics *controller.Metrics
}

// startDeadline bounds a StartRun; it makes a handful of requests to the API server.
const startDeadline = 30 * time.Second

// Rules says what each method asks of its caller.
func Rules() map[string]rpcserver.Rule {
	return map[string]rpcserver.Rule{
		runnerv1alpha1.RunnerService_StartRun_FullMethodName: {Verb: "run", Resource: "workspaces", Deadline: startDeadline, Object: object},
		runnerv1alpha1.RunnerService_GetRun_FullMethodName:   {Verb: "get", Resource: "workspaces", Object: object},
		// What it answers has the literals of VariableSets, which not everybody may read who may read Workspaces.
		runnerv1alpha1.RunnerService_GetInputs_FullMethodName: {Verb: "run", Resource: "workspaces", Object: object},
		runnerv1alpha1.RunnerService_WatchRuns_FullMethodName: {Verb: "watch", Resource: "workspaces", Object: func(request any) (namespace, name string) {
			if r, ok := request.(*runnerv1alpha1.WatchRunsRequest); ok {
				return r.GetNamespace(), ""
			}
			return "", ""
		}},
		runnerv1alpha1.RunnerService_CancelRun_FullMethodName: {Verb: "cancel", Resource: "workspaces", Deadline: startDeadline, Object: object},
		runnerv1alpha1.RunnerService_ListRuns_FullMethodName: {Verb: "get", Resource: "workspaces", Object: func(request any) (namespace, name string) {
			if r, ok := request.(*runnerv1alpha1.ListRunsRequest); ok {
				return r.GetNamespace(), r.GetWorkspace()
			}
			return "", ""
		}},
		runnerv1alpha1.RunnerService_GetPlan_FullMethodName: {Verb: "get", Resource: "workspaces/plan", Object: func(request any) (namespace, name string) {
			if r, ok := request.(*runnerv1alpha1.GetPlanRequest); ok {
				return r.GetWorkspace().GetNamespace(), r.GetWorkspace().GetName()
			}
			return "", ""
		}},
		runnerv1alpha1.RunnerService_StreamLogs_FullMethodName: {Verb: "get", Resource: "workspaces/log", Object: object},
	}
}

// object is the Workspace that a request is about.
func object(request any) (namespace, name string) {
	if r, ok := request.(interface{ GetKey() *runnerv1alpha1.RunKey }); ok {
		ws := r.GetKey().GetWorkspace()
		return ws.GetNamespace(), ws.GetName()
	}
	return "", ""
}

// StartRun makes the Job of one phase of a run.
func (s *Server) StartRun(ctx context.Context, in *runnerv1alpha1.StartRunRequest) (*runnerv1alpha1.StartRunResponse, error) {
	request, err := requestOf(in)
	if err != nil {
		return nil, err
	}
	run, created, err := s.Runs.Start(ctx, request)
	s.Metrics.Started(request.Phase, startOutcome(created, err))
	if err != nil {
		return nil, err
	}
	return &runnerv1alpha1.StartRunResponse{Run: message(run)}, nil
}

func startOutcome(created bool, err error) string {
	switch {
	case err != nil:
		return controller.StartRefused
	case created:
		return controller.StartCreated
	}
	return controller.StartFound
}

// GetRun tells the present state of one phase of a run.
func (s *Server) GetRun(ctx context.Context, in *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
	key, err := checkedKey(in.GetKey())
	if err != nil {
		return nil, err
	}
	run, found, err := s.Runs.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound(key)
	}
	return &runnerv1alpha1.GetRunResponse{Run: message(run)}, nil
}

// CancelRun ends one phase of a run.
func (s *Server) CancelRun(ctx context.Context, in *runnerv1alpha1.CancelRunRequest) (*runnerv1alpha1.CancelRunResponse, error) {
	run, err := s.Runs.Cancel(ctx, keyOf(in.GetKey()), in.GetOnlyIfNotStarted())
	if err != nil {
		return nil, err
	}
	return &runnerv1alpha1.CancelRunResponse{Run: message(run)}, nil
}

func notFound(key execution.Key) error {
	return rpcerr.New(codes.NotFound, rpcerr.RunNotFound, "run %s of workspace %s/%s has no %s", key.RunID, key.Namespace, key.Workspace, key.Phase).With("run_id", key.RunID)
}

// checkedKey converts a key and refuses one that names nothing.
func checkedKey(in *runnerv1alpha1.RunKey) (execution.Key, error) {
	key := keyOf(in)
	violations := execution.CheckKey(key)
	if len(violations) == 0 {
		return key, nil
	}
	e := rpcerr.Invalid(violations[0].Field, violations[0].Description)
	for _, v := range violations[1:] {
		e = e.WithViolation(v.Field, v.Description)
	}
	return key, e
}

var engines = map[corev1alpha1.Engine]string{
	corev1alpha1.Engine_ENGINE_TERRAFORM: "Terraform",
	corev1alpha1.Engine_ENGINE_OPENTOFU:  "OpenTofu",
}
