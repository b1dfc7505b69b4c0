package up

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/deploy/local/cluster"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up/chart"
	"magosproject.io/deploy/local/up/helm"
)

// Down removes what Start and Demo made. A local cluster goes as a whole, with its images, volumes and states; from a
// cluster of the user's own go the demo and the release, and the CustomResourceDefinitions stay. What was built stays in
// the cache. It is no error when nothing is there.
func Down(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	if options.Kubeconfig == "" {
		return cluster.Down(ctx, options.cluster(), options.Progress)
	}
	installation, err := Open(ctx, options)
	if err != nil {
		return err
	}
	return installation.remove(ctx)
}

// remove takes the demo away first: the services must still be there to end its runs and let its Workspaces go.
func (i *Installation) remove(ctx context.Context) error {
	namespaces := i.kube.CoreV1().Namespaces()
	_, _ = fmt.Fprintf(i.options.Progress, "removing namespace %s\n", demo.Namespace)
	if err := namespaces.Delete(ctx, demo.Namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the demo: %w", err)
	}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		_, err := namespaces.Get(ctx, demo.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return fmt.Errorf("removing the demo: %w", err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("removing the demo: namespace %s is still there after 5 minutes; see `kubectl get workspaces -n %s -o yaml`",
				demo.Namespace, demo.Namespace)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	_, _ = fmt.Fprintf(i.options.Progress, "removing release %s\n", chart.Name)
	client := helm.Client{Binary: i.programs[parts.Helm], Kubeconfig: i.kubeconfig}
	if err := client.Uninstall(ctx, chart.Name, chart.Namespace); err != nil {
		return fmt.Errorf("removing the release: %w", err)
	}
	err := namespaces.Delete(ctx, chart.Namespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing namespace %s: %w", chart.Namespace, err)
	}
	return nil
}
