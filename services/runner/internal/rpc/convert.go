package rpc

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runs"
	"magosproject.io/services/runner/internal/runspec"
)

var phases = map[runnerv1alpha1.Phase]string{
	runnerv1alpha1.Phase_PHASE_PLAN:  runspec.PhasePlan,
	runnerv1alpha1.Phase_PHASE_APPLY: runspec.PhaseApply,
}

var states = map[execution.State]runnerv1alpha1.RunState{
	execution.StatePending:   runnerv1alpha1.RunState_RUN_STATE_PENDING,
	execution.StateRunning:   runnerv1alpha1.RunState_RUN_STATE_RUNNING,
	execution.StateSucceeded: runnerv1alpha1.RunState_RUN_STATE_SUCCEEDED,
	execution.StateFailed:    runnerv1alpha1.RunState_RUN_STATE_FAILED,
	execution.StateVoid:      runnerv1alpha1.RunState_RUN_STATE_VOID,
}

// keyOf converts a key as it came; an unknown phase becomes an empty one, which no check lets pass.
func keyOf(in *runnerv1alpha1.RunKey) execution.Key {
	ws := in.GetWorkspace()
	return execution.Key{
		Namespace: ws.GetNamespace(), Workspace: ws.GetName(), WorkspaceUID: ws.GetUid(),
		RunID: in.GetRunId(), Phase: phases[in.GetPhase()],
	}
}

// requestOf converts a request as it came; only what has no place in an execution.Request is refused here.
func requestOf(in *runnerv1alpha1.StartRunRequest) (execution.Request, error) {
	request := execution.Request{
		Key:     keyOf(in.GetKey()),
		RepoURL: in.GetSource().GetRepoUrl(), Revision: in.GetSource().GetRevision(),
		TargetRevision: in.GetSource().GetTargetRevision(), Path: in.GetSource().GetPath(),
		RecurseSubmodules: in.GetSource().GetRecurseSubmodules(), RepositorySecrets: in.GetRepositorySecrets(),
		Engine: v1alpha1.Engine(engines[in.GetTool().GetEngine()]), ToolVersion: in.GetTool().GetVersion(),
		TfvarsPath: in.GetTfvarsPath(), ServiceAccount: in.GetServiceAccountName(), MountToken: in.GetMountServiceAccountToken(),
		PodAnnotations: in.GetPodAnnotations(), PlanDigest: in.GetPlanDigest(),
		TFLogLevel: in.GetTfLogLevel(), Destroy: in.GetDestroy(),
	}
	if err := in.GetTimeout().CheckValid(); in.GetTimeout() != nil && err != nil {
		return request, rpcerr.Invalid("timeout", "is no duration")
	}
	request.Timeout = in.GetTimeout().AsDuration()
	for i, v := range in.GetVariables() {
		variable := execution.Variable{Name: v.GetName()}
		switch source := v.GetSource().(type) {
		case *runnerv1alpha1.Variable_Value:
			variable.Value = &source.Value
		case *runnerv1alpha1.Variable_SecretKeyRef:
			variable.Secret = refOf(source.SecretKeyRef)
		case *runnerv1alpha1.Variable_ConfigMapKeyRef:
			variable.ConfigMap = refOf(source.ConfigMapKeyRef)
		default:
			return request, rpcerr.Invalid(fmt.Sprintf("variables[%d]", i), "must have exactly one source")
		}
		request.Variables = append(request.Variables, variable)
	}
	return request, nil
}

func refOf(in *runnerv1alpha1.KeyRef) *execution.KeyRef {
	return &execution.KeyRef{Name: in.GetName(), Key: in.GetKey(), Optional: in.GetOptional()}
}

// message converts a run for the wire.
func message(run runs.Run) *runnerv1alpha1.Run {
	out := &runnerv1alpha1.Run{
		Key: &runnerv1alpha1.RunKey{
			Workspace: &corev1alpha1.WorkspaceRef{Namespace: run.Namespace, Name: run.Workspace, Uid: run.WorkspaceUID},
			RunId:     run.RunID, Phase: runnerv1alpha1.Phase_PHASE_PLAN,
		},
		State: states[run.State], Reason: run.Reason, Message: run.Message,
		CreatedAt: timestamppb.New(run.CreatedAt.Time), Started: run.Started, StartedAt: timestamp(run.StartedAt), FinishedAt: timestamp(run.FinishedAt),
		JobName: run.JobName, PodName: run.Pod,
	}
	if run.Phase == runspec.PhaseApply {
		out.Key.Phase = runnerv1alpha1.Phase_PHASE_APPLY
	}
	if run.Plan != nil {
		c := run.Plan.Changes
		out.Plan = &runnerv1alpha1.PlanResult{
			Digest: run.Plan.Digest, Empty: run.Plan.Empty, Warnings: run.Plan.Warnings,
			Changes: &corev1alpha1.Changes{
				Add: c.Add, Change: c.Change, Destroy: c.Destroy, Replace: c.Replace,
				Import: c.Import, Forget: c.Forget, Move: c.Move, Outputs: c.Outputs,
			},
			Reviewable: run.Plan.Review != "", UnreviewableBecause: run.Plan.Unreadable,
			DriftedResources: run.Plan.Drifted, DriftedTotal: run.Plan.DriftedTotal,
		}
	}
	return out
}

func timestamp(at *metav1.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return timestamppb.New(at.Time)
}
