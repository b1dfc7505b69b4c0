package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up"
)

// phaseLimit bounds each part of a measurement; a machine that needs longer has other worries.
const phaseLimit = 45 * time.Minute

// scale measures what many Workspaces cost, with pods that end at once.
type scale struct {
	client.WithWatch
	installation *up.Installation
}

// withScale brings up a cluster whose pods KWOK plays, hands it to measure, and removes it.
func withScale(ctx context.Context, measure func(context.Context, scale) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	options := up.Options{Name: "bench", UnsafeNoFsync: true, Audit: true, Progress: os.Stderr}
	defer func() {
		cancel()
		if downErr := takeDown(options); err == nil {
			err = downErr
		}
	}()
	installation, err := up.Start(ctx, options)
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	c, err := newClient(installation.Kubeconfig())
	if err != nil {
		return err
	}
	if err := provisionVolumes(ctx, c); err != nil {
		return err
	}
	stop, err := startKwok(ctx, installation, c)
	if err != nil {
		return err
	}
	defer stop()
	return measure(ctx, scale{WithWatch: c, installation: installation})
}

// many does something for each number below count, some at a time: what creates must not be slower than what is measured.
func many(ctx context.Context, count int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (s scale) namespace(ctx context.Context, name string) error {
	err := s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	// Without its default account a namespace takes no pods.
	return await(ctx, time.Minute, "the default account of "+name, func() (bool, error) {
		err := s.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// bareJobs is the yardstick: how long the same control plane takes for Jobs that nobody of ours has to do with.
func (s scale) bareJobs(ctx context.Context, count int) (time.Duration, error) {
	const namespace = "bench-jobs"
	if err := s.namespace(ctx, namespace); err != nil {
		return 0, err
	}
	return s.timed(ctx, &batchv1.JobList{}, namespace, count, func(object client.Object) bool {
		for _, condition := range object.(*batchv1.Job).Status.Conditions {
			if condition.Type == batchv1.JobComplete && condition.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}, func(ctx context.Context, i int) error {
		none := int32(0)
		return s.Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("job-%04d", i)},
			Spec: batchv1.JobSpec{BackoffLimit: &none, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "magos.local/none:1"}},
			}}},
		})
	})
}

// timed creates objects and measures until all of the namespace are done, by a watch.
func (s scale) timed(ctx context.Context, list client.ObjectList, namespace string, count int, isDone func(client.Object) bool, create func(context.Context, int) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, phaseLimit)
	defer cancel()
	seen := make(chan client.Object, 1000)
	begin := time.Now()
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.follow(workCtx, list, namespace, seen) })
	work.Go(func() error { return many(workCtx, count, create) })
	work.Go(func() error { return countDone(workCtx, namespace, count, seen, isDone) })
	err := work.Wait()
	if errors.Is(err, errAllDone) {
		return time.Since(begin), nil
	}
	return 0, err
}

// errAllDone ends the work of timed.
var errAllDone = errors.New("all are done")

func countDone(ctx context.Context, namespace string, count int, seen <-chan client.Object, isDone func(client.Object) bool) error {
	begin := time.Now()
	done := map[types.UID]bool{}
	beat := time.NewTicker(20 * time.Second)
	defer beat.Stop()
	for len(done) < count {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d were done in namespace %s: %w", len(done), count, namespace, ctx.Err())
		case <-beat.C:
			fmt.Fprintf(os.Stderr, "%s: %d of %d after %s\n", namespace, len(done), count, time.Since(begin).Round(time.Second))
		case object := <-seen:
			if isDone(object) {
				done[object.GetUID()] = true
			}
		}
	}
	return errAllDone
}

// follow passes on the objects of the namespace and their changes. The API server ends watches of clients that are slow: then it looks
// again.
func (s scale) follow(ctx context.Context, list client.ObjectList, namespace string, seen chan<- client.Object) error {
	pass := func(object runtime.Object) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case seen <- object.(client.Object):
			return nil
		}
	}
	for {
		// A new list each time: who reads the objects may not be done with those of the last.
		list := list.DeepCopyObject().(client.ObjectList)
		if err := s.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("listing namespace %s: %w", namespace, err)
		}
		if err := meta.EachListItem(list, pass); err != nil {
			return err
		}
		from := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		changes, err := s.Watch(ctx, list, from)
		if err != nil {
			return fmt.Errorf("watching namespace %s: %w", namespace, err)
		}
		for event := range changes.ResultChan() {
			if object, ok := event.Object.(client.Object); ok {
				if err := pass(object); err != nil {
					changes.Stop()
					return err
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func isApplied(object client.Object) bool {
	return object.(*v1alpha1.Workspace).Status.Phase == v1alpha1.PhaseApplied
}

// workspace is one of many; they look for drift once a day, so that each runs once while it is measured.
func workspace(namespace, project, name string, labels map[string]string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationReconcileInterval: "24h"},
	}}
	w.Spec.ProjectRef.Name = project
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: demo.RepositoryURL, TargetRevision: "main", Path: "env/dev"}
	w.Spec.Terraform = v1alpha1.TerraformSpec{Engine: v1alpha1.EngineOpenTofu, Version: demo.OpenTofuVersion}
	return w
}

// apply takes so many Workspaces of a new Project to Applied.
func (s scale) apply(ctx context.Context, namespace string, count int) (time.Duration, error) {
	if err := s.namespace(ctx, namespace); err != nil {
		return 0, err
	}
	if err := s.Create(ctx, &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "many"}}); err != nil {
		return 0, fmt.Errorf("creating the Project: %w", err)
	}
	return s.timed(ctx, &v1alpha1.WorkspaceList{}, namespace, count, isApplied, func(ctx context.Context, i int) error {
		return s.Create(ctx, workspace(namespace, "many", fmt.Sprintf("ws-%04d", i), nil))
	})
}

// workspaces fills the figures of many Workspaces without an order.
func (s scale) workspaces(ctx context.Context, out *figures) error {
	const few, lots = 200, 2000
	jobs, err := s.bareJobs(ctx, 2*few)
	if err != nil {
		return fmt.Errorf("measuring bare Jobs: %w", err)
	}
	from := time.Now()
	applied, err := s.apply(ctx, "bench-few", few)
	if err != nil {
		return fmt.Errorf("measuring %d Workspaces: %w", few, err)
	}
	// What the services still have to do for these runs is theirs too.
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	asked, err := readAudit(s.installation.Cluster().AuditLog(), from, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d bare Jobs took %s, %d Workspaces %s\n", 2*few, jobs.Round(time.Millisecond), few, applied.Round(time.Millisecond))
	asked.describe(few)
	out.AppliedRatio = value(applied.Seconds() / jobs.Seconds())
	out.RequestsPerRun = value(float64(asked.sum()) / few)
	out.ConflictShare = value(float64(asked.conflicts) / float64(max(asked.sum(), 1)))

	more, err := s.apply(ctx, "bench-lots", lots)
	if err != nil {
		return fmt.Errorf("measuring %d Workspaces: %w", lots, err)
	}
	fmt.Fprintf(os.Stderr, "%d Workspaces took %s\n", lots, more.Round(time.Millisecond))
	out.Growth2000 = value((more.Seconds() / lots) / (applied.Seconds() / few))
	memory, err := s.metric(ctx, "workspace", "process_resident_memory_bytes")
	if err != nil {
		return err
	}
	largest := 0.0
	for _, bytes := range memory {
		largest = max(largest, bytes/megabyte)
	}
	out.WorkspaceRSSMB2000 = value(largest)
	return nil
}

// metric sums a metric over its labels for each pod of one service.
func (s scale) metric(ctx context.Context, service, name string) (map[string]float64, error) {
	return total(ctx, s, name, client.MatchingLabels{"app.kubernetes.io/component": service})
}
