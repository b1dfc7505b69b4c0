package runs

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/status"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// conflictTries is how often a decision is taken anew because an object changed under it.
const conflictTries = 4

// Start makes the Job of the request, or finds it again; created says which. Errors are of package rpcerr.
func (r *Runs) Start(ctx context.Context, req execution.Request) (run Run, created bool, err error) {
	if err := invalid(execution.Check(req)); err != nil {
		return Run{}, false, err
	}
	digest, err := req.Digest()
	if err != nil {
		return Run{}, false, err
	}
	// A tombstone stands longer than any request can take that did not see it.
	ctx, cancel := context.WithTimeout(ctx, execution.TombstoneAge/2)
	defer cancel()
	for range conflictTries {
		run, created, err = r.start(ctx, req, digest)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return run, created, err
}

func (r *Runs) start(ctx context.Context, req execution.Request, digest string) (Run, bool, error) {
	// Jobs before Workspace: a Job that was void and is gone by now was let go of only after the Workspace had given its run up.
	others, own, err := r.observeWorkspace(ctx, req)
	if err != nil {
		return Run{}, false, err
	}
	ws, err := r.workspace(ctx, req.Key)
	if err != nil {
		return Run{}, false, err
	}
	if own != nil {
		run, err := r.found(ctx, own, req.Key, digest)
		return run, false, err
	}
	if err := recorded(ws, req); err != nil {
		return Run{}, false, err
	}
	if err := r.noneLive(ctx, others); err != nil {
		return Run{}, false, err
	}
	plan, err := r.planFacts(ctx, ws, others, req)
	if err != nil {
		return Run{}, false, err
	}
	config, err := r.prepare(ctx, ws, req, digest, plan)
	if err != nil {
		return Run{}, false, err
	}
	return r.create(ctx, req, digest, config, plan)
}

func (r *Runs) create(ctx context.Context, req execution.Request, digest, config string, plan execution.PlanFacts) (Run, bool, error) {
	job := execution.RenderJob(req, r.Settings, digest, config, plan)
	err := r.Writer.Create(ctx, job)
	if err == nil {
		run, err := r.describe(ctx, r.Cache, job)
		return run, true, err
	}
	if !apierrors.IsAlreadyExists(err) {
		return Run{}, false, fmt.Errorf("creating job %s/%s: %w", job.Namespace, job.Name, err)
	}
	existing := &batchv1.Job{}
	if err := r.API.Get(ctx, client.ObjectKeyFromObject(job), existing); err != nil {
		return Run{}, false, fmt.Errorf("reading job %s/%s: %w", job.Namespace, job.Name, err)
	}
	run, err := r.found(ctx, existing, req.Key, digest)
	return run, false, err
}

// found answers a request whose Job exists.
func (r *Runs) found(ctx context.Context, job *batchv1.Job, key execution.Key, digest string) (Run, error) {
	if k, ok := execution.KeyOf(job.Namespace, job.Labels); !ok || k != key {
		return Run{}, rpcerr.New(codes.AlreadyExists, rpcerr.RequestDiffers, "job %s/%s exists and is not of this run", job.Namespace, job.Name)
	}
	if execution.IsVoid(job) {
		return Run{}, rpcerr.New(codes.FailedPrecondition, rpcerr.RunVoid, "the %s of run %s was cancelled before it began", key.Phase, key.RunID).With("run_id", key.RunID)
	}
	if job.Annotations[v1alpha1.AnnotationRequestDigest] != digest {
		return Run{}, rpcerr.New(codes.AlreadyExists, rpcerr.RequestDiffers, "the %s of run %s was asked for with another request", key.Phase, key.RunID).With("run_id", key.RunID)
	}
	return r.describe(ctx, r.API, job)
}

// workspace reads the Workspace as it is now, and only the one with the UID of the key.
func (r *Runs) workspace(ctx context.Context, key execution.Key) (*v1alpha1.Workspace, error) {
	ws := &v1alpha1.Workspace{}
	err := r.API.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Workspace}, ws)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading workspace %s/%s: %w", key.Namespace, key.Workspace, err)
	}
	if err != nil || string(ws.UID) != key.WorkspaceUID {
		return nil, rpcerr.New(codes.NotFound, rpcerr.WorkspaceNotFound, "workspace %s/%s with UID %s does not exist", key.Namespace, key.Workspace, key.WorkspaceUID)
	}
	return ws, nil
}

// recorded checks that the Workspace's status has recorded the intent to start this phase of this run.
func recorded(ws *v1alpha1.Workspace, req execution.Request) error {
	refuse := func(format string, args ...any) error {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.RunNotRecorded, format, args...).With("run_id", req.RunID)
	}
	run := ws.Status.Run
	if run == nil || run.ID != req.RunID {
		return refuse("the status of workspace %s/%s does not name run %s", ws.Namespace, ws.Name, req.RunID)
	}
	want := v1alpha1.RunPlanning
	if req.Phase == runspec.PhaseApply {
		want = v1alpha1.RunApplying
	}
	switch {
	case run.Phase != want:
		return refuse("run %s is recorded as %s, which asks for no %s", run.ID, run.Phase, req.Phase)
	case req.Destroy != (run.Trigger == v1alpha1.TriggerDestroy):
		return refuse("run %s is recorded with trigger %s, and the request has destroy %t", run.ID, run.Trigger, req.Destroy)
	case req.Destroy && (ws.DeletionTimestamp.IsZero() || ws.Spec.DeletionPolicy != v1alpha1.DeletionDestroy):
		return refuse("workspace %s/%s is not being deleted with spec.deletionPolicy %s: nothing is destroyed", ws.Namespace, ws.Name, v1alpha1.DeletionDestroy)
	case req.Destroy && (ws.Spec.Suspend || ws.Annotations[v1alpha1.AnnotationAbandon] == string(ws.UID)):
		return refuse("the destroy of workspace %s/%s is suspended or abandoned by now: nothing is destroyed", ws.Namespace, ws.Name)
	case run.Revision != req.Revision:
		return refuse("run %s is recorded with commit %s, not %s", run.ID, run.Revision, req.Revision)
	case req.Phase == runspec.PhaseApply && (run.PlanDigest != req.PlanDigest || run.ApplyRequestedAt == nil):
		return refuse("run %s is not recorded as applying the plan %s", run.ID, req.PlanDigest)
	}
	return nil
}

// observeWorkspace observes every Job of the Workspace as it is now, and finds the request's own among them. Pods
// without a Job come as an observation of a Job that is gone.
func (r *Runs) observeWorkspace(ctx context.Context, req execution.Request) (others []execution.Observation, own *batchv1.Job, err error) {
	jobs, pods, err := r.lists.ask(ctx, req.Namespace, req.WorkspaceUID)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for what lives of workspace %s/%s: %w", req.Namespace, req.Workspace, err)
	}
	ownName := execution.JobName(req.RunID, req.Phase)
	podsOf := map[string][]*corev1.Pod{}
	for i := range pods {
		key, _ := execution.KeyOf(req.Namespace, pods[i].Labels)
		name := execution.JobName(key.RunID, key.Phase)
		podsOf[name] = append(podsOf[name], &pods[i])
	}
	for i := range jobs {
		job := &jobs[i]
		if job.Name == ownName {
			own = job
		} else {
			others = append(others, r.observation(job, podsOf[job.Name]))
		}
		delete(podsOf, job.Name)
	}
	for name, orphans := range podsOf {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: name, Labels: orphans[0].Labels}}
		others = append(others, r.observation(job, orphans))
	}
	return others, own, nil
}

func (r *Runs) observation(job *batchv1.Job, pods []*corev1.Pod) execution.Observation {
	return execution.Observation{Now: r.Now(), Job: job, Pods: pods, NodeLossGrace: r.NodeLossGrace, NodesGone: map[string]bool{}}
}

// noneLive refuses while anything of another phase or run lives, or may still come to life.
func (r *Runs) noneLive(ctx context.Context, others []execution.Observation) error {
	for _, o := range others {
		live, err := r.live(ctx, o)
		if err != nil {
			return err
		}
		if live != "" {
			return rpcerr.New(codes.FailedPrecondition, rpcerr.RunStillLive, "%s", live).With("job", o.Job.Name)
		}
	}
	return nil
}

func (r *Runs) live(ctx context.Context, o execution.Observation) (string, error) {
	if o.Job.UID == "" {
		return r.liveOrphan(ctx, o)
	}
	if err := r.complete(ctx, r.API, &o); err != nil {
		return "", err
	}
	if j := execution.Judge(o); !j.State.Terminal() {
		return fmt.Sprintf("job %s/%s has not provably ended: %s", o.Job.Namespace, o.Job.Name, j.Message), nil
	}
	// A result says what became of the run, and not what somebody has made of its Job since then.
	if live := execution.LivePods(o); len(live) > 0 {
		return fmt.Sprintf("pod %s/%s has not provably ended, though its job was over; %s", live[0].Namespace, live[0].Name, execution.HowToConfirm(o.Job)), nil
	}
	return "", nil
}

// liveOrphan looks at pods whose Job is gone.
func (r *Runs) liveOrphan(ctx context.Context, o execution.Observation) (string, error) {
	for _, pod := range o.Pods {
		ended, err := r.PodEnded(ctx, pod)
		if err != nil {
			return "", err
		}
		if !ended {
			return fmt.Sprintf("pod %s/%s has not provably ended, and its job is gone", pod.Namespace, pod.Name), nil
		}
	}
	return "", nil
}

// PodEnded reports whether a pod is proven ended, its node and a person's word looked for if need be.
func (r *Runs) PodEnded(ctx context.Context, pod *corev1.Pod) (bool, error) {
	w := execution.Witness{Now: r.Now(), NodeLossGrace: r.NodeLossGrace}
	if execution.PodEnded(pod, w) {
		return true, nil
	}
	key, _ := execution.KeyOf(pod.Namespace, pod.Labels)
	var err error
	if w.Confirmed, err = r.confirmed(ctx, r.API, key); err != nil {
		return false, err
	}
	if pod.Spec.NodeName != "" {
		if w.NodeGone, err = r.nodeGone(ctx, pod.Spec.NodeName); err != nil {
			return false, err
		}
	}
	return execution.PodEnded(pod, w), nil
}

// prepare makes what the Job needs, each object only where it is missing, and returns the name of the run's ConfigMap.
func (r *Runs) prepare(ctx context.Context, ws *v1alpha1.Workspace, req execution.Request, digest string, plan execution.PlanFacts) (config string, err error) {
	if err := r.hold(ctx, ws); err != nil {
		return "", err
	}
	if err := r.ensureAccount(ctx, req); err != nil {
		return "", err
	}
	if err := r.ensureVolume(ctx, ws, req.Phase); err != nil {
		return "", err
	}
	rendered, err := execution.RenderConfigMap(req, r.Settings, digest, plan)
	if err != nil {
		return "", err
	}
	return rendered.Name, r.ensureConfigMap(ctx, rendered)
}

// ensureConfigMap makes the run's ConfigMap, or accepts the one that an earlier attempt made. Its name can be foreseen by
// others, and the executor does what it says: one that says anything else is not used.
func (r *Runs) ensureConfigMap(ctx context.Context, config *corev1.ConfigMap) error {
	err := r.Writer.Create(ctx, config)
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating configmap %s/%s: %w", config.Namespace, config.Name, err)
	}
	present := &corev1.ConfigMap{}
	if err := r.API.Get(ctx, client.ObjectKeyFromObject(config), present); err != nil {
		return fmt.Errorf("reading configmap %s/%s: %w", config.Namespace, config.Name, err)
	}
	if !execution.SameConfigMap(present, config) {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.ConfigMapDiffers,
			"configmap %s/%s exists and is not what the runner would make for this run: somebody else made it; delete it",
			config.Namespace, config.Name).With("configmap", config.Name)
	}
	return nil
}

// hold puts the runner's finalizer on the Workspace before anything of it exists.
func (r *Runs) hold(ctx context.Context, ws *v1alpha1.Workspace) error {
	if slices.Contains(ws.Finalizers, v1alpha1.FinalizerRunner) {
		return nil
	}
	if !ws.DeletionTimestamp.IsZero() {
		return rpcerr.New(codes.NotFound, rpcerr.WorkspaceNotFound, "workspace %s/%s is being deleted and never ran: nothing is started for it", ws.Namespace, ws.Name)
	}
	return status.PatchFinalizers(ctx, r.Writer, ws, append(slices.Clone(ws.Finalizers), v1alpha1.FinalizerRunner))
}

func (r *Runs) ensureAccount(ctx context.Context, req execution.Request) error {
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	name := types.NamespacedName{Namespace: req.Namespace, Name: req.ServiceAccount}
	// A namespace that was deleted and made again has other Workspaces, and not the accounts that it had.
	remembered := req.WorkspaceUID + " " + name.String()
	if _, known := r.accounts.get(remembered, r.Now()); known {
		return nil
	}
	err := r.API.Get(ctx, name, account)
	switch {
	case err == nil:
		r.accounts.put(remembered, struct{}{}, r.Now())
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading serviceaccount %s: %w", name, err)
	case req.ServiceAccount != v1alpha1.DefaultServiceAccountName:
		return rpcerr.New(codes.FailedPrecondition, rpcerr.ServiceAccountNotFound, "serviceaccount %s does not exist; create it or set spec.serviceAccountName", name)
	}
	if err := r.Writer.Create(ctx, execution.RenderServiceAccount(req.Namespace)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating serviceaccount %s: %w", name, err)
	}
	return nil
}

// invalid makes one error of all violations; nil when there is none.
func invalid(violations []execution.Violation) error {
	if len(violations) == 0 {
		return nil
	}
	e := rpcerr.Invalid(violations[0].Field, violations[0].Description)
	for _, v := range violations[1:] {
		e = e.WithViolation(v.Field, v.Description)
	}
	return e
}
