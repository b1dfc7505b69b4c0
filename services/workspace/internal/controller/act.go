package controller

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	refwatcherv1alpha1 "magosproject.io/gen/magos/refwatcher/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/workspace/internal/inputs"
	"magosproject.io/services/workspace/internal/lifecycle"
)

func refOf(w *v1alpha1.Workspace) *corev1alpha1.WorkspaceRef {
	return &corev1alpha1.WorkspaceRef{Namespace: w.Namespace, Name: w.Name, Uid: string(w.UID)}
}

func keyOf(w *v1alpha1.Workspace, runID string, half lifecycle.Half) *runnerv1alpha1.RunKey {
	phase := runnerv1alpha1.Phase_PHASE_PLAN
	if half == lifecycle.Apply {
		phase = runnerv1alpha1.Phase_PHASE_APPLY
	}
	return &runnerv1alpha1.RunKey{Workspace: refOf(w), RunId: runID, Phase: phase}
}

// observeRun asks the runner, which alone knows. That there is no such Job is an answer.
func (r *Reconciler) observeRun(ctx context.Context, w *v1alpha1.Workspace, half lifecycle.Half) (*lifecycle.RunView, error) {
	response, err := r.Runner.GetRun(ctx, &runnerv1alpha1.GetRunRequest{Key: keyOf(w, w.Status.Run.ID, half)})
	if rpcerr.Reason(err) == rpcerr.RunNotFound {
		return &lifecycle.RunView{State: lifecycle.RunAbsent}, nil
	}
	if err != nil {
		return nil, runnerTrouble(runnerv1alpha1.RunnerService_GetRun_FullMethodName, err)
	}
	return viewOf(response.GetRun())
}

var runStates = map[runnerv1alpha1.RunState]lifecycle.RunState{
	runnerv1alpha1.RunState_RUN_STATE_PENDING:   lifecycle.RunPending,
	runnerv1alpha1.RunState_RUN_STATE_RUNNING:   lifecycle.RunRunning,
	runnerv1alpha1.RunState_RUN_STATE_SUCCEEDED: lifecycle.RunSucceeded,
	runnerv1alpha1.RunState_RUN_STATE_FAILED:    lifecycle.RunFailed,
	runnerv1alpha1.RunState_RUN_STATE_VOID:      lifecycle.RunVoid,
}

func viewOf(run *runnerv1alpha1.Run) (*lifecycle.RunView, error) {
	state, known := runStates[run.GetState()]
	if !known {
		err := fmt.Errorf("reading the runner's answer: unknown state %s", run.GetState())
		return nil, &trouble{reason: v1alpha1.ReasonRunnerRefused, message: "the runner tells of a state that this release does not know: see whether all services are of one release", err: err}
	}
	view := &lifecycle.RunView{State: state, Reason: run.GetReason(), Message: run.GetMessage()}
	// A runner of before says no more than when; of a pod that was lost with its node it does not know that either.
	view.NeverStarted = state == lifecycle.RunFailed && !run.GetStarted() && run.GetStartedAt() == nil && view.Reason != v1alpha1.ReasonRunLost
	if plan := run.GetPlan(); plan != nil {
		c := plan.GetChanges()
		view.Plan = &lifecycle.PlanView{Digest: plan.GetDigest(), Empty: plan.GetEmpty(), Warnings: plan.GetWarnings(), Changes: v1alpha1.Changes{
			Add: c.GetAdd(), Change: c.GetChange(), Destroy: c.GetDestroy(), Replace: c.GetReplace(),
			Import: c.GetImport(), Forget: c.GetForget(), Move: c.GetMove(), Outputs: c.GetOutputs(),
		}, Drifted: plan.GetDriftedResources(), DriftedTotal: plan.GetDriftedTotal()}
		if !plan.GetReviewable() {
			view.Plan.Unreadable = orDefault(plan.GetUnreviewableBecause(), "the runner has nothing of it for people to read")
		}
	}
	return view, nil
}

// startPlan asks for the plan Job. A refusal that passes by itself, a void run and a request that can never succeed are
// outcomes; anything else is an error and leaves no trace.
func (r *Reconciler) startPlan(ctx context.Context, seen observation, d lifecycle.Decision) (lifecycle.Outcome, error) {
	w := seen.Workspace
	request := requestFor(w, d.Run, lifecycle.Plan)
	request.TfvarsPath = w.Spec.Terraform.TfvarsPath
	if d.Run.Trigger == v1alpha1.TriggerDestroy {
		asApplied(request, seen.kept)
		request.TfvarsPath = seen.kept.GetTfvarsPath()
	}
	request.Variables = variablesOf(seen.composition)
	var err error
	if request.RepositorySecrets, err = r.Objects.RepositorySecrets(ctx, w.Namespace); err != nil {
		return lifecycle.Outcome{}, err
	}
	err = r.startRun(ctx, request)
	if err == nil {
		return lifecycle.Outcome{Kind: lifecycle.OutcomeDone}, nil
	}
	switch rpcerr.Reason(err) {
	case rpcerr.RequestDiffers:
		// An earlier attempt got through, with other timeouts or pod annotations. The inputs are those of the record, so it counts.
		return lifecycle.Outcome{Kind: lifecycle.OutcomeDone}, nil
	case rpcerr.RunVoid:
		return lifecycle.Outcome{Kind: lifecycle.OutcomeVoid}, nil
	}
	if reason := refusal(err); reason != "" {
		return lifecycle.Outcome{Kind: lifecycle.OutcomeWaiting, Reason: reason, Message: err.Error()}, nil
	}
	if rpcerr.Code(err) == codes.InvalidArgument {
		return lifecycle.Outcome{Kind: lifecycle.OutcomeRefused, Reason: v1alpha1.ReasonPlanFailed, Message: "the runner refused the plan: " + err.Error()}, nil
	}
	return lifecycle.Outcome{}, runnerTrouble(runnerv1alpha1.RunnerService_StartRun_FullMethodName, err)
}

// refusal is the reason of a refusal of StartRun that passes by itself or that a person can mend; empty for any other error.
func refusal(err error) v1alpha1.Reason {
	switch rpcerr.Reason(err) {
	case rpcerr.RunStillLive, rpcerr.VolumeNotReady, rpcerr.ConfigMapDiffers:
		return v1alpha1.ReasonRunPending
	case rpcerr.ServiceAccountNotFound:
		return v1alpha1.ReasonServiceAccountNotFound
	case rpcerr.ReviewUnavailable:
		return v1alpha1.ReasonPlanUnreadable
	}
	return ""
}

// startApply asks for the apply Job, after its intent was recorded. Whatever goes wrong, nobody asks a second time: the
// next pass finds a Job or none. The error is a trouble, so that status can say why there is none.
func (r *Reconciler) startApply(ctx context.Context, seen observation, d lifecycle.Decision) error {
	request := requestFor(seen.Workspace, d.Run, lifecycle.Apply)
	request.PlanDigest = d.Run.PlanDigest
	if d.Run.Trigger == v1alpha1.TriggerDestroy {
		asApplied(request, seen.kept)
	}
	if err := r.startRun(ctx, request); err != nil {
		switch reason := refusal(err); reason {
		case v1alpha1.ReasonServiceAccountNotFound, v1alpha1.ReasonPlanUnreadable:
			return &trouble{reason: reason, message: err.Error(), err: err}
		case v1alpha1.ReasonRunPending:
			return &trouble{reason: v1alpha1.ReasonRunnerRefused, message: "the runner refuses the apply: " + err.Error(), err: err}
		}
		return runnerTrouble(runnerv1alpha1.RunnerService_StartRun_FullMethodName, err)
	}
	if !d.Approved {
		r.Metrics.applyStarted(d.Run.ID, r.Clock.Now())
	}
	return nil
}

// startRun gives the runner as long as it allows itself: an answer that is not waited for costs the run.
func (r *Reconciler) startRun(ctx context.Context, request *runnerv1alpha1.StartRunRequest) error {
	ctx, done := context.WithTimeout(ctx, runnerPatience)
	defer done()
	_, err := r.Runner.StartRun(ctx, request)
	return err
}

// cancelRun makes sure that a half never starts, or ends, and returns what its answer makes of d.
func (r *Reconciler) cancelRun(ctx context.Context, seen observation, d lifecycle.Decision) (lifecycle.Decision, error) {
	ctx, done := context.WithTimeout(ctx, runnerPatience)
	defer done()
	response, err := r.Runner.CancelRun(ctx, &runnerv1alpha1.CancelRunRequest{Key: keyOf(seen.Workspace, d.Run.ID, d.Half), OnlyIfNotStarted: !d.Interrupts})
	if err != nil {
		return d, runnerTrouble(runnerv1alpha1.RunnerService_CancelRun_FullMethodName, err)
	}
	view, err := viewOf(response.GetRun())
	if err != nil {
		return d, err
	}
	return lifecycle.Cancelled(seen.Snapshot, d, *view), nil
}

// requestFor has what plan and apply have in common.
func requestFor(w *v1alpha1.Workspace, run *v1alpha1.WorkspaceRun, half lifecycle.Half) *runnerv1alpha1.StartRunRequest {
	settings := w.Spec.Plan
	if half == lifecycle.Apply {
		settings = w.Spec.Apply
	}
	timeout := v1alpha1.DefaultTimeout
	if settings.TimeoutSeconds != nil {
		timeout = time.Duration(*settings.TimeoutSeconds) * time.Second
	}
	annotations := map[string]string{}
	maps.Copy(annotations, w.Spec.Annotations)
	maps.Copy(annotations, settings.Annotations)
	engine := corev1alpha1.Engine_ENGINE_TERRAFORM
	if w.Spec.Terraform.Engine == v1alpha1.EngineOpenTofu {
		engine = corev1alpha1.Engine_ENGINE_OPENTOFU
	}
	return &runnerv1alpha1.StartRunRequest{
		Key: keyOf(w, run.ID, half),
		Source: &runnerv1alpha1.Source{
			RepoUrl: w.Spec.Source.RepoURL, Revision: run.Revision, TargetRevision: w.Spec.Source.TargetRevision, Path: orDefault(w.Spec.Source.Path, "."),
			RecurseSubmodules: ptr.Deref(w.Spec.Source.RecurseSubmodules, true),
		},
		Tool:                     &runnerv1alpha1.Tool{Engine: engine, Version: w.Spec.Terraform.Version},
		ServiceAccountName:       orDefault(w.Spec.ServiceAccountName, v1alpha1.DefaultServiceAccountName),
		MountServiceAccountToken: w.Spec.MountServiceAccountToken,
		PodAnnotations:           annotations,
		Timeout:                  durationpb.New(timeout),
		TfLogLevel:               lifecycle.LogLevel(w),
	}
}

// variablesOf names the winning sources. Values of references stay where they are.
func variablesOf(c inputs.Composition) []*runnerv1alpha1.Variable {
	variables := make([]*runnerv1alpha1.Variable, 0, len(c.Winners))
	for _, winner := range c.Winners {
		v := &runnerv1alpha1.Variable{Name: winner.Variable.Name}
		ref, key, isReference := inputs.ReferenceOf(winner.Variable)
		keyRef := &runnerv1alpha1.KeyRef{Name: key.Name, Key: key.Key, Optional: key.Optional}
		switch {
		case isReference && ref.Kind == inputs.KindSecret:
			v.Source = &runnerv1alpha1.Variable_SecretKeyRef{SecretKeyRef: keyRef}
		case isReference:
			v.Source = &runnerv1alpha1.Variable_ConfigMapKeyRef{ConfigMapKeyRef: keyRef}
		default:
			value := ""
			if winner.Variable.Value != nil {
				value = *winner.Variable.Value
			}
			v.Source = &runnerv1alpha1.Variable_Value{Value: value}
		}
		variables = append(variables, v)
	}
	return variables
}

// resolve asks the refwatcher which commit the target revision is. That there is none is an answer, too.
func (r *Reconciler) resolve(ctx context.Context, w *v1alpha1.Workspace) *lifecycle.Resolution {
	response, err := r.RefWatcher.ResolveRevision(ctx, &refwatcherv1alpha1.ResolveRevisionRequest{
		Workspace: &corev1alpha1.ObjectRef{Namespace: w.Namespace, Name: w.Name},
	})
	if err == nil {
		if response.GetRepoUrl() != w.Spec.Source.RepoURL || response.GetTargetRevision() != w.Spec.Source.TargetRevision {
			return &lifecycle.Resolution{Reason: v1alpha1.ReasonAwaitingRevision, Message: "the source was edited while its commit was looked up; it is looked up again"}
		}
		return &lifecycle.Resolution{Revision: response.GetRevision()}
	}
	answer := &lifecycle.Resolution{Reason: v1alpha1.ReasonAwaitingRevision, Message: err.Error()}
	switch rpcerr.Reason(err) {
	case rpcerr.RevisionNotFound:
		answer.Reason = v1alpha1.ReasonRevisionNotFound
	case rpcerr.AmbiguousRevision:
		answer.Reason = v1alpha1.ReasonAmbiguousRevision
	case rpcerr.RemoteUnavailable:
		answer.Reason = v1alpha1.ReasonRemoteUnavailable
	case rpcerr.SchemeNotAllowed:
		answer.Reason = v1alpha1.ReasonSourceRefused
	case rpcerr.CredentialInvalid:
		answer.Reason = v1alpha1.ReasonCredentialInvalid
	case rpcerr.WorkspaceNotFound:
	default:
		answer.Reason = v1alpha1.ReasonRefWatcherRefused
		answer.Message = rpcerr.Advice(refwatcherv1alpha1.RefWatcherService_ResolveRevision_FullMethodName, err)
		if rpcerr.Silent(err) {
			answer.Reason = v1alpha1.ReasonRefWatcherUnavailable
		}
	}
	return answer
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
