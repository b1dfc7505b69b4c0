package up

import (
	"context"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up/chart"
)

// Summary writes which commit each Workspace has applied, and commands to try.
func (i *Installation) Summary(ctx context.Context, output io.Writer) error {
	v, err := i.look(ctx)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(output, "\nobservedRevision of each Workspace, the commit that it has applied:")
	for _, w := range v.workspaces {
		_, _ = fmt.Fprintf(output, "  %-14s %s\n", w.Name, w.Status.ObservedRevision)
	}
	service, err := i.kube.CoreV1().Services(chart.Namespace).Get(ctx, "magos-workspace", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("looking for the workspace service: %w", err)
	}
	_, err = io.WriteString(output, i.hints(service.Spec.ClusterIP))
	return err
}

// hints are commands as somebody can paste them into a shell.
func (i *Installation) hints(workspaceService string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nTry:\n  export KUBECONFIG=%s\n", i.kubeconfig)
	address := workspaceService + ":8443"
	if i.local != nil {
		fmt.Fprintf(&b, "  export PATH=%s:$PATH\n", i.programFolder())
	} else {
		fmt.Fprintf(&b, "  kubectl -n %s port-forward service/magos-workspace 8443 &\n", chart.Namespace)
		address = "127.0.0.1:8443"
	}
	fmt.Fprintf(&b, "  kubectl -n %s get projects,rollouts,workspaces\n", demo.Namespace)
	fmt.Fprintf(&b, "  kubectl -n %s get secret tfstate-default-prod -o jsonpath='{.data.tfstate}' | base64 -d | gunzip\n", demo.Namespace)
	fmt.Fprintf(&b, `  grpcurl -cacert <(kubectl -n %s get secret magos-tls -o jsonpath='{.data.ca\.crt}' | base64 -d) \
    -servername magos-workspace.%s.svc \
    -H "authorization: Bearer $(kubectl -n %s create token demo-user --audience magos-workspace)" \
    -d '{"namespace": "%s"}' %s magos.workspace.v1alpha1.WorkspaceService/ListWorkspaces
`, chart.Namespace, chart.Namespace, demo.Namespace, demo.Namespace, address)
	fmt.Fprintf(&b, "  make demo-push        # commits to the demo repository and shows the commit go from dev to prod\n")
	if i.local != nil {
		fmt.Fprintf(&b, "  git clone http://$(kubectl -n %s get service %s -o jsonpath='{.spec.clusterIP}')/demo.git   # change, commit and push by hand\n", demo.Namespace, demo.Server)
	}
	fmt.Fprintf(&b, "  make down             # removes all of it\n")
	return b.String()
}
