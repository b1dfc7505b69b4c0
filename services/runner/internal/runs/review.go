package runs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// reviewPatience is how long after its end a plan's review is asked for before the plan goes without: a node that answers no
// more must not hold the run.
const reviewPatience = 2 * time.Minute

// KeepReview keeps what people read of a plan that has just succeeded, and notes in its result that it did, or why it cannot. An
// error is one that may pass.
func (r *Runs) KeepReview(ctx context.Context, job *batchv1.Job, result *execution.Result) error {
	plan := result.Plan
	if plan == nil || plan.Empty {
		return nil
	}
	why, err := r.keepReview(ctx, job, result)
	if err != nil && result.FinishedAt != nil && r.Now().Sub(result.FinishedAt.Time) > reviewPatience {
		why, err = err.Error(), nil
	}
	if err == nil && why != "" {
		plan.Review, plan.Unreadable = "", why
	}
	return err
}

func (r *Runs) keepReview(ctx context.Context, job *batchv1.Job, result *execution.Result) (why string, err error) {
	if result.Plan.Review == "" {
		return "the plan's pod left nothing for people to read; the log of its container keeper says why", nil
	}
	key, _ := execution.KeyOf(job.Namespace, job.Labels)
	log, err := r.Log(ctx, types.NamespacedName{Namespace: job.Namespace, Name: result.Pod}, runspec.ContainerKeeper, runspec.MaxReviewLines)
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) {
		return "the log of the plan's pod cannot be read: " + err.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading what people are to read of run %s: %w", key.RunID, err)
	}
	packed, problem := runspec.FindReview(log, result.Plan.Review)
	if problem == nil {
		_, problem = runspec.DecodeReview(packed, key.RunID, result.Plan.Digest)
	}
	if problem != nil {
		return "the log of the plan's pod does not hold it: " + problem.Error(), nil //nolint:nilerr // it is told as the reason why the plan cannot be read
	}
	return r.storeReview(ctx, key, packed)
}

// storeReview makes the ConfigMap, or finds the one that an earlier attempt made.
func (r *Runs) storeReview(ctx context.Context, key execution.Key, packed []byte) (why string, err error) {
	config := execution.RenderReview(key, packed)
	err = r.Writer.Create(ctx, config)
	if err == nil {
		return "", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating configmap %s/%s: %w", config.Namespace, config.Name, err)
	}
	present := &corev1.ConfigMap{}
	if err := r.API.Get(ctx, client.ObjectKeyFromObject(config), present); err != nil {
		return "", fmt.Errorf("reading configmap %s/%s: %w", config.Namespace, config.Name, err)
	}
	if _, ok := execution.ReviewIn(present, runspec.ReviewSum(packed)); !ok {
		return "configmap " + config.Name + " exists with another content; delete it and plan again", nil
	}
	return "", nil
}

// Review is what people read of a run's plan. Errors are of package rpcerr.
func (r *Runs) Review(ctx context.Context, key execution.Key) (runspec.Review, error) {
	run, found, err := r.Get(ctx, key)
	if err != nil {
		return runspec.Review{}, err
	}
	if !found {
		return runspec.Review{}, rpcerr.New(codes.NotFound, rpcerr.RunNotFound, "run %s of workspace %s/%s has no plan", key.RunID, key.Namespace, key.Workspace).With("run_id", key.RunID)
	}
	unavailable := func(format string, args ...any) (runspec.Review, error) {
		return runspec.Review{}, rpcerr.New(codes.FailedPrecondition, rpcerr.ReviewUnavailable, "the plan of run "+key.RunID+" cannot be read: "+format, args...).With("run_id", key.RunID)
	}
	switch {
	case run.Plan == nil:
		return unavailable("it has not ended well; it is %s", run.State)
	case run.Plan.Empty:
		return unavailable("it changes nothing")
	}
	review, why, err := r.readReview(ctx, key, run.Plan)
	if err == nil && why != "" {
		return unavailable("%s", why)
	}
	return review, err
}

// readReview reads what people read of a plan that changes something, or says why there is nothing that they can rely on.
func (r *Runs) readReview(ctx context.Context, key execution.Key, plan *execution.Plan) (review runspec.Review, why string, err error) {
	if plan.Review == "" {
		return runspec.Review{}, cmp.Or(plan.Unreadable, "nothing of it was kept"), nil
	}
	name := types.NamespacedName{Namespace: key.Namespace, Name: execution.ReviewName(key.RunID, plan.Review)}
	config := &corev1.ConfigMap{}
	if err := r.API.Get(ctx, name, config); apierrors.IsNotFound(err) {
		return runspec.Review{}, fmt.Sprintf("configmap %s is gone", name), nil
	} else if err != nil {
		return runspec.Review{}, "", fmt.Errorf("reading configmap %s: %w", name, err)
	}
	packed, ok := execution.ReviewIn(config, plan.Review)
	if !ok {
		return runspec.Review{}, fmt.Sprintf("configmap %s is not what the plan left", name), nil
	}
	review, problem := runspec.DecodeReview(packed, key.RunID, plan.Digest)
	if problem != nil {
		return runspec.Review{}, fmt.Sprintf("configmap %s: %v", name, problem), nil
	}
	return review, "", nil
}
