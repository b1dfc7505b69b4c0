package up

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	deploymentTimeout = 5 * time.Minute
	pollInterval      = 250 * time.Millisecond
	heartbeat         = 10 * time.Second
)

// awaitDeployments waits until the newest version of each Deployment is ready, and no pod of an older one is left. When
// one is not in time, the error says what its pods say.
func (i *Installation) awaitDeployments(ctx context.Context, namespace string, names ...string) error {
	begin := time.Now()
	beat := begin
	for {
		var waiting []string
		for _, name := range names {
			deployment, err := i.kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading deployment %s: %w", name, err)
			}
			if !isRolledOut(deployment) {
				waiting = append(waiting, name)
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		if time.Since(begin) > deploymentTimeout {
			return fmt.Errorf("deployment %s is not ready after %s:\n%s", waiting[0], deploymentTimeout, i.describePods(ctx, namespace, waiting[0]))
		}
		if time.Since(beat) > heartbeat {
			beat = time.Now()
			_, _ = fmt.Fprintf(i.options.Progress, "still waiting for %s (%s)\n", strings.Join(waiting, ", "), time.Since(begin).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", strings.Join(waiting, ", "), ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func isRolledOut(d *appsv1.Deployment) bool {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == wanted && s.ReadyReplicas == wanted && s.Replicas == wanted
}

// describePods says why a Deployment's pods are not ready: what Kubernetes says, and the ends of their logs.
func (i *Installation) describePods(ctx context.Context, namespace, deployment string) string {
	found, err := i.kube.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	pods, err := i.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(found.Spec.Selector)})
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, pod := range pods.Items {
		line := fmt.Sprintf("  pod %s: %s", pod.Name, pod.Status.Phase)
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
				line += ", " + condition.Message
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			if waiting := container.State.Waiting; waiting != nil {
				line += fmt.Sprintf(", %s %s", waiting.Reason, waiting.Message)
			}
		}
		lines = append(lines, line, i.logTail(ctx, &pod))
	}
	if len(lines) == 0 {
		lines = append(lines, "  it has no pods")
	}
	return strings.Join(lines, "\n")
}

func (i *Installation) logTail(ctx context.Context, pod *corev1.Pod) string {
	tail := int64(5)
	log, err := i.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &tail}).DoRaw(ctx)
	if err != nil {
		return "    (no log: " + err.Error() + ")"
	}
	return "    " + strings.ReplaceAll(strings.TrimSpace(string(log)), "\n", "\n    ")
}
