package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
)

// stepLabel says which step a Workspace belongs to.
const stepLabel = "bench/step"

// rollouts fills the figures of ordered Workspaces.
func (s scale) rollouts(ctx context.Context, out *figures) error {
	const steps, members, foreign = 10, 1000, 10_000
	from := time.Now()
	advance, err := s.pass(ctx, "bench-steps", steps, members/steps)
	if err != nil {
		return fmt.Errorf("measuring %d Workspaces in %d steps: %w", members, steps, err)
	}
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	asked, err := readAudit(s.installation.Cluster().AuditLog(), from, time.Now())
	if err != nil {
		return err
	}
	asked.describe(members)
	middle, spread := median(advance)
	fmt.Fprintf(os.Stderr, "from the last Applied of a step to the first grant of the next: %.0f ms, quartiles %.0f ms apart\n", middle, spread)
	out.StepAdvanceMS = value(middle)
	out.RolloutRequestsPerMember = value(float64(asked.counted["rollout"]) / members)

	alone, err := s.reconcileCost(ctx, "bench-alone")
	if err != nil {
		return err
	}
	if err := s.foreign(ctx, foreign); err != nil {
		return fmt.Errorf("creating %d Workspaces of other Projects: %w", foreign, err)
	}
	beside, err := s.reconcileCost(ctx, "bench-beside")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "CPU of the rollout service per reconcile: %.2f ms alone, %.2f ms beside %d others\n", alone*1000, beside*1000, foreign)
	out.Foreign10000CostRatio = value(beside / alone)
	return nil
}

// pass takes a Rollout of new Workspaces through its steps, and returns how many milliseconds passed between them, as a watch tells.
func (s scale) pass(ctx context.Context, namespace string, steps, each int) ([]float64, error) {
	if err := s.namespace(ctx, namespace); err != nil {
		return nil, err
	}
	if err := s.createRollout(ctx, namespace, steps); err != nil {
		return nil, err
	}
	turns := make([]turn, steps)
	see := func(object client.Object) bool {
		w := object.(*v1alpha1.Workspace)
		step, err := strconv.Atoi(w.Labels[stepLabel])
		if err != nil || step >= steps {
			return false
		}
		now := time.Now()
		if _, granted := v1alpha1.ReadGrant(w, true); granted && turns[step].granted.IsZero() {
			turns[step].granted = now
		}
		if isApplied(w) {
			turns[step].applied = now
			return true
		}
		return false
	}
	applied := map[string]bool{}
	once := func(object client.Object) bool {
		// What happens to a Workspace after its Applied does not count.
		if applied[object.GetName()] {
			return true
		}
		applied[object.GetName()] = see(object)
		return applied[object.GetName()]
	}
	_, err := s.timed(ctx, &v1alpha1.WorkspaceList{}, namespace, steps*each, once, func(ctx context.Context, i int) error {
		step := strconv.Itoa(i % steps)
		return s.Create(ctx, workspace(namespace, namespace, fmt.Sprintf("ws-%04d", i), map[string]string{stepLabel: step}))
	})
	if err != nil {
		return nil, err
	}
	var between []float64
	for i := 1; i < steps; i++ {
		if turns[i].granted.Before(turns[i-1].applied) {
			return nil, fmt.Errorf("step %d was granted before step %d was Applied", i, i-1)
		}
		between = append(between, float64(turns[i].granted.Sub(turns[i-1].applied).Microseconds())/1000)
	}
	return between, nil
}

// turn has when the first grant and the last Applied of a step were seen.
type turn struct{ granted, applied time.Time }

func (s scale) createRollout(ctx context.Context, namespace string, steps int) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: namespace}
	rollout := &v1alpha1.Rollout{ObjectMeta: meta}
	rollout.Spec.ProjectRef = namespace
	for i := range steps {
		rollout.Spec.Strategy.Steps = append(rollout.Spec.Strategy.Steps, v1alpha1.RolloutStep{
			Name: fmt.Sprintf("step-%d", i), Selector: metav1.LabelSelector{MatchLabels: map[string]string{stepLabel: strconv.Itoa(i)}},
		})
	}
	project := &v1alpha1.Project{ObjectMeta: meta, Spec: v1alpha1.ProjectSpec{Orchestration: v1alpha1.OrchestrationRollout}}
	if err := errors.Join(s.Create(ctx, project), s.Create(ctx, rollout)); err != nil {
		return fmt.Errorf("creating Project and Rollout: %w", err)
	}
	return nil
}

// reconcileCost is the CPU time of the rollout service per reconcile, in seconds, while a small Rollout passes.
func (s scale) reconcileCost(ctx context.Context, namespace string) (float64, error) {
	before, err := s.rolloutWork(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := s.pass(ctx, namespace, 4, 25); err != nil {
		return 0, err
	}
	after, err := s.rolloutWork(ctx)
	if err != nil {
		return 0, err
	}
	count := after.reconciles - before.reconciles
	if count < 1 {
		return 0, errors.New("the rollout service reconciled nothing")
	}
	return (after.cpu - before.cpu) / count, nil
}

type work struct{ cpu, reconciles float64 }

// rolloutWork sums over the replicas, of which one works.
func (s scale) rolloutWork(ctx context.Context) (w work, err error) {
	for name, into := range map[string]*float64{"process_cpu_seconds_total": &w.cpu, "controller_runtime_reconcile_total": &w.reconciles} {
		values, err := s.metric(ctx, "rollout", name)
		if err != nil {
			return w, err
		}
		for _, v := range values {
			*into += v
		}
	}
	return w, nil
}

// foreign creates Workspaces of a hundred Projects that wait for a Rollout that never comes, and lets the services come to rest.
func (s scale) foreign(ctx context.Context, count int) error {
	const namespace, projects = "bench-foreign", 100
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	for i := range projects {
		project := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("other-%02d", i)}}
		project.Spec.Orchestration = v1alpha1.OrchestrationRollout
		if err := s.Create(ctx, project); err != nil {
			return err
		}
	}
	waits := func(object client.Object) bool {
		return object.(*v1alpha1.Workspace).Status.Phase == v1alpha1.PhasePending
	}
	_, err := s.timed(ctx, &v1alpha1.WorkspaceList{}, namespace, count, waits, func(ctx context.Context, i int) error {
		return s.Create(ctx, workspace(namespace, fmt.Sprintf("other-%02d", i%projects), fmt.Sprintf("ws-%05d", i), nil))
	})
	if err != nil {
		return err
	}
	return pause(ctx, 20*time.Second)
}
