package peertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// Side says which half of an RPC is lost.
type Side int

// The sides.
const (
	// Nothing is lost.
	Nothing Side = iota
	// Request: the RPC never arrives.
	Request
	// Answer: the RPC has its effect, and its answer is lost.
	Answer
)

// Job is what the runner keeps of one phase of a run.
type Job struct {
	// Request that made it; nil for a tombstone.
	Request *runnerv1alpha1.StartRunRequest
	// Run as GetRun tells it.
	Run *runnerv1alpha1.Run
}

// Runner keeps Jobs in memory, as Kubernetes would: it outlives the workspace services that call it.
type Runner struct {
	runnerv1alpha1.UnimplementedRunnerServiceServer

	// Workspaces reads the status that StartRun checks.
	Workspaces client.Reader
	// Auto ends every Job with success as soon as it is made.
	Auto bool
	// Empty makes the plans that end by Auto find nothing to do.
	Empty bool

	mutex    sync.Mutex
	jobs     map[string]*Job
	order    []string
	calls    []string
	failAt   int
	failSide Side
	refuse   error
	refused  string
	watchers map[chan *runnerv1alpha1.Run]bool
}

// NewRunner makes a runner without Jobs.
func NewRunner(workspaces client.Reader) *Runner {
	return &Runner{Workspaces: workspaces, jobs: map[string]*Job{}, watchers: map[chan *runnerv1alpha1.Run]bool{}}
}

func name(key *runnerv1alpha1.RunKey) string {
	half := map[runnerv1alpha1.Phase]string{runnerv1alpha1.Phase_PHASE_PLAN: "plan", runnerv1alpha1.Phase_PHASE_APPLY: "apply"}[key.GetPhase()]
	return half + " " + key.GetRunId()
}

// Lose makes the call with this number, counted from the first call of all, lose a side.
func (r *Runner) Lose(call int, side Side) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.failAt, r.failSide = call, side
}

// Refuse makes every call fail with err; nil ends that.
func (r *Runner) Refuse(err error) { r.RefuseOnly("", err) }

// RefuseOnly makes every call fail with err that begins like prefix, such as "StartRun apply"; nil ends that.
func (r *Runner) RefuseOnly(prefix string, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.refused, r.refuse = prefix, err
}

// Calls lists every unary call, as "StartRun plan <run ID>".
func (r *Runner) Calls() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.calls)
}

// Started lists the Jobs that were made, in order, as "plan <run ID>"; tombstones are none.
func (r *Runner) Started() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.order)
}

// Job returns the Job by its name, nil where there is none.
func (r *Runner) Job(name string) *Job {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.jobs[name]
}

// Set changes what is known of a Job, and tells those who watch.
func (r *Runner) Set(name string, change func(*runnerv1alpha1.Run)) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(r.jobs[name].Run)
	r.tell(r.jobs[name].Run)
}

// Succeed ends a Job with success.
func (r *Runner) Succeed(name string, empty bool) {
	r.Set(name, func(run *runnerv1alpha1.Run) { succeed(run, empty) })
}

// Delete makes a Job vanish.
func (r *Runner) Delete(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.jobs, name)
}

func succeed(run *runnerv1alpha1.Run, empty bool) {
	run.State = runnerv1alpha1.RunState_RUN_STATE_SUCCEEDED
	if run.GetKey().GetPhase() == runnerv1alpha1.Phase_PHASE_PLAN {
		run.Plan = &runnerv1alpha1.PlanResult{Digest: "sealed-" + run.GetKey().GetRunId(), Empty: empty, Reviewable: true, Changes: &corev1alpha1.Changes{Add: 2}}
	}
}

// enter counts a call. The returned function is to be asked for the error once the effect is there.
func (r *Runner) enter(method string, key *runnerv1alpha1.RunKey) (after func() error, before error) {
	call := method + " " + name(key)
	r.calls = append(r.calls, call)
	lost := rpcerr.New(codes.Unavailable, rpcerr.KubernetesUnavailable, "lost")
	side := Nothing
	if len(r.calls) == r.failAt {
		side = r.failSide
	}
	switch {
	case r.refuse != nil && strings.HasPrefix(call, r.refused):
		return nil, r.refuse
	case side == Request:
		return nil, lost
	}
	return func() error {
		if side == Answer {
			return lost
		}
		return nil
	}, nil
}

// StartRun makes a Job, under the conditions of the contract.
func (r *Runner) StartRun(ctx context.Context, request *runnerv1alpha1.StartRunRequest) (*runnerv1alpha1.StartRunResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	after, before := r.enter("StartRun", request.GetKey())
	if before != nil {
		return nil, before
	}
	job, err := r.start(ctx, request)
	if err == nil {
		err = after()
	}
	if err != nil {
		return nil, err
	}
	return &runnerv1alpha1.StartRunResponse{Run: job.Run}, nil
}

func (r *Runner) start(ctx context.Context, request *runnerv1alpha1.StartRunRequest) (*Job, error) {
	key := request.GetKey()
	if job := r.jobs[name(key)]; job != nil {
		switch {
		case job.Run.GetState() == runnerv1alpha1.RunState_RUN_STATE_VOID:
			return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.RunVoid, "cancelled before it existed")
		case !proto.Equal(job.Request, request):
			return nil, rpcerr.New(codes.AlreadyExists, rpcerr.RequestDiffers, "the Job exists for another request")
		}
		return job, nil
	}
	if err := r.checkRecord(ctx, request); err != nil {
		return nil, err
	}
	for _, job := range r.jobs {
		state := job.Run.GetState()
		live := state == runnerv1alpha1.RunState_RUN_STATE_PENDING || state == runnerv1alpha1.RunState_RUN_STATE_RUNNING
		if live && job.Run.GetKey().GetWorkspace().GetUid() == key.GetWorkspace().GetUid() {
			return nil, rpcerr.New(codes.FailedPrecondition, rpcerr.RunStillLive, "%s has not ended", name(job.Run.GetKey()))
		}
	}
	job := &Job{Request: request, Run: &runnerv1alpha1.Run{Key: key, State: runnerv1alpha1.RunState_RUN_STATE_RUNNING}}
	r.jobs[name(key)] = job
	r.order = append(r.order, name(key))
	if r.Auto {
		succeed(job.Run, r.Empty)
	}
	r.tell(job.Run)
	return job, nil
}

func (r *Runner) checkRecord(ctx context.Context, request *runnerv1alpha1.StartRunRequest) error {
	ref := request.GetKey().GetWorkspace()
	w := &v1alpha1.Workspace{}
	if err := r.Workspaces.Get(ctx, client.ObjectKey{Namespace: ref.GetNamespace(), Name: ref.GetName()}, w); err != nil {
		return rpcerr.New(codes.NotFound, rpcerr.WorkspaceNotFound, "reading the Workspace: %w", err)
	}
	phase := v1alpha1.RunPlanning
	if request.GetKey().GetPhase() == runnerv1alpha1.Phase_PHASE_APPLY {
		phase = v1alpha1.RunApplying
	}
	run := w.Status.Run
	if string(w.UID) != ref.GetUid() || run == nil || run.ID != request.GetKey().GetRunId() || run.Phase != phase || run.PlanDigest != request.GetPlanDigest() {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.RunNotRecorded, "status has %+v", run)
	}
	return nil
}

// GetInputs has what the plan of a run was given.
func (r *Runner) GetInputs(_ context.Context, request *runnerv1alpha1.GetInputsRequest) (*runnerv1alpha1.GetInputsResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	after, before := r.enter("GetInputs", request.GetKey())
	if before != nil {
		return nil, before
	}
	job := r.jobs[name(request.GetKey())]
	if job == nil || job.Request == nil {
		return nil, rpcerr.New(codes.NotFound, rpcerr.RunNotFound, "nothing is kept of %s", name(request.GetKey()))
	}
	given := job.Request
	return &runnerv1alpha1.GetInputsResponse{
		Source: given.GetSource(), Tool: given.GetTool(), TfvarsPath: given.GetTfvarsPath(), Variables: given.GetVariables(),
		ServiceAccountName: given.GetServiceAccountName(), MountServiceAccountToken: given.GetMountServiceAccountToken(),
	}, after()
}

// GetRun tells of a Job.
func (r *Runner) GetRun(_ context.Context, request *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	after, before := r.enter("GetRun", request.GetKey())
	if before != nil {
		return nil, before
	}
	job := r.jobs[name(request.GetKey())]
	if job == nil {
		return nil, rpcerr.New(codes.NotFound, rpcerr.RunNotFound, "no Job of %s", name(request.GetKey()))
	}
	return &runnerv1alpha1.GetRunResponse{Run: proto.CloneOf(job.Run)}, after()
}

// CancelRun makes a tombstone, or voids a Job that has not started. One that runs is asked to end, and runs until Set says otherwise.
func (r *Runner) CancelRun(_ context.Context, request *runnerv1alpha1.CancelRunRequest) (*runnerv1alpha1.CancelRunResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	method := "CancelRun"
	if request.GetOnlyIfNotStarted() {
		method = "CancelRun, if not started,"
	}
	after, before := r.enter(method, request.GetKey())
	if before != nil {
		return nil, before
	}
	job := r.jobs[name(request.GetKey())]
	if job == nil {
		job = &Job{Run: &runnerv1alpha1.Run{Key: request.GetKey(), State: runnerv1alpha1.RunState_RUN_STATE_VOID}}
		r.jobs[name(request.GetKey())] = job
	} else if job.Run.GetState() == runnerv1alpha1.RunState_RUN_STATE_PENDING {
		job.Run.State, job.Run.Reason, job.Run.Message = runnerv1alpha1.RunState_RUN_STATE_VOID, "", "cancelled"
		r.tell(job.Run)
	}
	return &runnerv1alpha1.CancelRunResponse{Run: proto.CloneOf(job.Run)}, after()
}

// WatchRuns sends the present Jobs, then each change.
func (r *Runner) WatchRuns(_ *runnerv1alpha1.WatchRunsRequest, stream runnerv1alpha1.RunnerService_WatchRunsServer) error {
	changes := make(chan *runnerv1alpha1.Run, 1000)
	r.mutex.Lock()
	for _, job := range r.jobs {
		changes <- proto.CloneOf(job.Run)
	}
	r.watchers[changes] = true
	r.mutex.Unlock()
	defer func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		delete(r.watchers, changes)
	}()
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case run, open := <-changes:
			if !open {
				return rpcerr.New(codes.Unavailable, rpcerr.KubernetesUnavailable, "the stream ends")
			}
			if err := stream.Send(&runnerv1alpha1.WatchRunsResponse{Run: run}); err != nil {
				return fmt.Errorf("sending: %w", err)
			}
		}
	}
}

// Watchers counts those who watch.
func (r *Runner) Watchers() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.watchers)
}

// EndStreams ends every WatchRuns.
func (r *Runner) EndStreams() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for changes := range r.watchers {
		close(changes)
		delete(r.watchers, changes)
	}
}

func (r *Runner) tell(run *runnerv1alpha1.Run) {
	for changes := range r.watchers {
		changes <- proto.CloneOf(run)
	}
}
