// Package runs starts, reads and cancels runs: it observes Kubernetes, lets package execution decide, and acts.
package runs

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
)

// EventUID is the field by which events of an object are found; the cache has an index of this name, the API server a selector.
const EventUID = "involvedObject.uid"

// Config of Runs. All fields are required.
type Config struct {
	// Cache reads what the watches have brought; it may be behind.
	Cache client.Reader
	// API reads what is true now.
	API client.Reader
	// Writer writes.
	Writer client.Client
	// Settings of every run.
	Settings execution.Settings
	// NodeLossGrace is how long after the loss of its node a pod counts as running.
	NodeLossGrace time.Duration
	// Now is the clock.
	Now func() time.Time
	// Log reads the last lines of a container's log, at most as many as are asked for.
	Log func(ctx context.Context, pod types.NamespacedName, container string, lines int64) ([]byte, error)
}

// Runs knows the runs of the cluster. It is safe for concurrent use.
type Runs struct {
	Config
	lists *together
	// accounts exist, and architectures are those of nodes. Were one of them wrong by now, the pod would not start and the run begin anew.
	accounts      *recent[struct{}]
	architectures *recent[string]
}

// New makes Runs.
func New(config Config) *Runs {
	return &Runs{
		Config: config, lists: newTogether(config.API),
		accounts: newRecent[struct{}](time.Minute), architectures: newRecent[string](10 * time.Minute),
	}
}

// Run is one phase of a run as callers see it.
type Run struct {
	execution.Key
	execution.Result
	JobName   string
	CreatedAt metav1.Time
}

// Get reads one phase of a run; found is false where its Job does not exist. A Job that the cache does not know is asked
// for from the API server: only that may say that there is none.
func (r *Runs) Get(ctx context.Context, key execution.Key) (run Run, found bool, err error) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: execution.JobName(key.RunID, key.Phase)}
	job := &batchv1.Job{}
	reader := r.Cache
	if err = reader.Get(ctx, name, job); apierrors.IsNotFound(err) {
		reader = r.API
		err = reader.Get(ctx, name, job)
	}
	if apierrors.IsNotFound(err) {
		return Run{}, false, nil
	}
	if err != nil {
		return Run{}, false, fmt.Errorf("reading job %s: %w", name, err)
	}
	if k, ok := execution.KeyOf(job.Namespace, job.Labels); !ok || k != key {
		return Run{}, false, nil
	}
	run, err = r.describe(ctx, reader, job)
	return run, err == nil, err
}

// Cached reads a run by the name of its Job from the cache alone.
func (r *Runs) Cached(ctx context.Context, name types.NamespacedName) (run Run, found bool, err error) {
	job := &batchv1.Job{}
	if err := r.Cache.Get(ctx, name, job); err != nil {
		return Run{}, false, client.IgnoreNotFound(err)
	}
	if _, ok := execution.KeyOf(job.Namespace, job.Labels); !ok {
		return Run{}, false, nil
	}
	run, err = r.describe(ctx, r.Cache, job)
	return run, err == nil, err
}

// describe judges the Job. What has ended is told only once it is kept: else a pod that vanishes in between would make
// the same question have two answers.
func (r *Runs) describe(ctx context.Context, reader client.Reader, job *batchv1.Job) (Run, error) {
	key, _ := execution.KeyOf(job.Namespace, job.Labels)
	run := Run{Key: key, JobName: job.Name, CreatedAt: job.CreationTimestamp}
	if kept, ok := execution.KeptResult(job); ok {
		run.Result = kept
		return run, nil
	}
	o, err := r.Observe(ctx, reader, job)
	if err != nil {
		return Run{}, err
	}
	j := execution.Judge(o)
	if j.State.Terminal() {
		j.Result = execution.Result{State: execution.StatePending, Started: j.Started, StartedAt: j.StartedAt, Pod: j.Pod, Node: j.Node}
		if j.Started {
			j.State = execution.StateRunning
		}
	}
	run.Result = j.Result
	return run, nil
}

// Observe gathers what is known of a Job through reader. Nodes are looked for only where a pod looks lost.
func (r *Runs) Observe(ctx context.Context, reader client.Reader, job *batchv1.Job) (execution.Observation, error) {
	o := execution.Observation{Now: r.Now(), Job: job, NodeLossGrace: r.NodeLossGrace, NodesGone: map[string]bool{}}
	pods := &corev1.PodList{}
	selector := client.MatchingLabels{v1alpha1.LabelRunID: job.Labels[v1alpha1.LabelRunID], v1alpha1.LabelRunPhase: job.Labels[v1alpha1.LabelRunPhase]}
	if err := reader.List(ctx, pods, client.InNamespace(job.Namespace), selector); err != nil {
		return o, fmt.Errorf("listing the pods of job %s/%s: %w", job.Namespace, job.Name, err)
	}
	for i := range pods.Items {
		o.Pods = append(o.Pods, &pods.Items[i])
	}
	return o, r.complete(ctx, reader, &o)
}

// complete adds events, lost nodes and a person's word to an observation that has the Job and its pods.
func (r *Runs) complete(ctx context.Context, reader client.Reader, o *execution.Observation) error {
	j := execution.Judge(*o)
	if j.State == execution.StatePending {
		if err := r.addEvents(ctx, reader, o); err != nil {
			return err
		}
	}
	if len(j.Suspects) > 0 || j.Reason == v1alpha1.ReasonNodeLost {
		key, _ := execution.KeyOf(o.Job.Namespace, o.Job.Labels)
		var err error
		if o.Confirmed, err = r.confirmed(ctx, reader, key); err != nil {
			return err
		}
	}
	for _, node := range j.Suspects {
		gone, err := r.nodeGone(ctx, node)
		if err != nil {
			return err
		}
		o.NodesGone[node] = gone
	}
	return nil
}

// confirmed reports whether a person has said of this very run that it has ended.
func (r *Runs) confirmed(ctx context.Context, reader client.Reader, key execution.Key) (bool, error) {
	ws := &v1alpha1.Workspace{}
	name := types.NamespacedName{Namespace: key.Namespace, Name: key.Workspace}
	if err := reader.Get(ctx, name, ws); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading workspace %s: %w", name, err)
	}
	return string(ws.UID) == key.WorkspaceUID && key.RunID != "" && ws.Annotations[v1alpha1.AnnotationConfirmEnded] == key.RunID, nil
}

func (r *Runs) addEvents(ctx context.Context, reader client.Reader, o *execution.Observation) error {
	about := []types.UID{o.Job.UID}
	for _, pod := range o.Pods {
		about = append(about, pod.UID)
	}
	for _, uid := range about {
		events := &corev1.EventList{}
		if err := reader.List(ctx, events, client.InNamespace(o.Job.Namespace), client.MatchingFields{EventUID: string(uid)}); err != nil {
			return fmt.Errorf("listing the events about %s: %w", uid, err)
		}
		for i := range events.Items {
			o.Events = append(o.Events, &events.Items[i])
		}
	}
	return nil
}

// nodeGone asks the API server whether the node exists.
func (r *Runs) nodeGone(ctx context.Context, name string) (bool, error) {
	_, err := r.node(ctx, name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// NodeArch is the CPU architecture of a node; empty when the node is gone.
func (r *Runs) NodeArch(ctx context.Context, name string) (string, error) {
	if arch, known := r.architectures.get(name, r.Now()); known {
		return arch, nil
	}
	node, err := r.node(ctx, name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	arch := node.Labels[corev1.LabelArchStable]
	r.architectures.put(name, arch, r.Now())
	return arch, nil
}

func (r *Runs) node(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := r.API.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}
