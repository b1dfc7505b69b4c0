package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/deploy/local/demo"
)

// services are the gRPC services with a harmless call of each.
var services = map[string]struct{ service, call, body, expect string }{
	"rollout":    {"magos.rollout.v1alpha1.RolloutService", "GetRollout", `{"rollout":{"namespace":"magos-demo","name":"demo"}}`, `"phase": "Succeeded"`},
	"workspace":  {"magos.workspace.v1alpha1.WorkspaceService", "GetWorkspace", `{"workspace":{"namespace":"magos-demo","name":"demo-prod"}}`, `"phase": "Applied"`},
	"refwatcher": {"magos.refwatcher.v1alpha1.RefWatcherService", "ResolveRevision", `{"workspace":{"namespace":"magos-demo","name":"demo-prod"}}`, `"ref": "refs/heads/main"`},
	"runner":     {"magos.runner.v1alpha1.RunnerService", "WatchRuns", `{"namespace":"magos-demo"}`, `"state": "RUN_STATE_SUCCEEDED"`},
}

func TestGrpcurlListsAndCallsEverythingWithATokenAndNothingWithout(t *testing.T) {
	w := newWorld(t)
	for _, step := range demo.Steps {
		ws, err := w.demoWorkspace(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		w.expectApplied(ws.Namespace, ws.Name, w.clone().head())
	}
	w.apply(`apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: magos-demo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nobody, namespace: magos-demo}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: magos-demo}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: magos-viewer}
subjects: [{kind: ServiceAccount, name: reader, namespace: magos-demo}]
`)
	for name, s := range services {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			target := w.grpc(name)
			method := s.service + "/" + s.call

			if out, err := target.call("", "list"); err == nil || !strings.Contains(out, "Unauthenticated") {
				t.Errorf("without a token, list gave %v\n%s", err, out)
			}
			if out, err := target.call("", "-d", s.body, method); err == nil || !strings.Contains(out, "Unauthenticated") {
				t.Errorf("without a token, the call gave %v\n%s", err, out)
			}
			elsewhere := w.token("reader", "somebody-else")
			if out, err := target.call(elsewhere, "-d", s.body, method); err == nil || !strings.Contains(out, "Unauthenticated") {
				t.Errorf("with a token for somebody else, the call gave %v\n%s", err, out)
			}

			reader := w.token("reader", "magos-"+name)
			if out, err := target.call(reader, "list"); err != nil || !strings.Contains(out, s.service) || !strings.Contains(out, "grpc.health.v1.Health") {
				t.Errorf("list gave %v\n%s", err, out)
			}
			// The watch has no end of its own: a deadline after its first answers is one, which a busy machine may need longer for.
			var out string
			var err error
			for _, seconds := range []string{"5", "20", "120"} {
				if s.call != "WatchRuns" {
					seconds = "120"
				}
				if out, err = target.call(reader, "-max-time", seconds, "-d", s.body, method); strings.Contains(out, s.expect) {
					break
				}
			}
			if !strings.Contains(out, s.expect) || (err != nil && s.call != "WatchRuns") {
				t.Errorf("the call gave %v\n%s\nwant %s", err, out, s.expect)
			}

			nobody := w.token("nobody", "magos-"+name)
			out, err = target.call(nobody, "-d", s.body, method)
			if err == nil || !strings.Contains(out, "PermissionDenied") || !strings.Contains(out, "magos-demo") {
				t.Errorf("without rights the call gave %v\n%s", err, out)
			}
			for _, word := range rightsOf(s.call) {
				if !strings.Contains(out, word) {
					t.Errorf("the refusal does not name %q:\n%s", word, out)
				}
			}
		})
	}
	t.Run("StartRun is for the workspace service alone", func(t *testing.T) {
		w := newWorld(t)
		out, err := w.grpc("runner").call(w.token("reader", "magos-runner"), "-d",
			`{"key":{"workspace":{"namespace":"magos-demo","name":"demo-prod","uid":"x"},"run_id":"x","phase":"PHASE_APPLY"}}`,
			"magos.runner.v1alpha1.RunnerService/StartRun")
		if err == nil || !strings.Contains(out, "PermissionDenied") || !strings.Contains(out, "run") || !strings.Contains(out, "workspaces") {
			t.Errorf("it gave %v\n%s", err, out)
		}
	})
}

// rightsOf names what a refusal of a call has to name: the verb and the resource.
func rightsOf(call string) []string {
	switch call {
	case "GetRollout":
		return []string{"get", "rollouts"}
	case "WatchRuns":
		return []string{"watch", "workspaces"}
	}
	return []string{"get", "workspaces"}
}

// target is one gRPC server as grpcurl sees it.
type target struct {
	world
	address, authority, ca string
}

func (w world) grpc(service string) target {
	w.Helper()
	svc := &corev1.Service{}
	if err := w.Get(w.Context(), types.NamespacedName{Namespace: "magos-system", Name: "magos-" + service}, svc); err != nil {
		w.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := w.Get(w.Context(), types.NamespacedName{Namespace: "magos-system", Name: "magos-tls"}, secret); err != nil {
		w.Fatal(err)
	}
	ca := filepath.Join(w.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, secret.Data["ca.crt"], 0o600); err != nil {
		w.Fatal(err)
	}
	return target{world: w, address: svc.Spec.ClusterIP + ":8443", authority: "magos-" + service + ".magos-system.svc", ca: ca}
}

func (t target) call(token string, arguments ...string) (string, error) {
	flags := []string{"-cacert", t.ca, "-authority", t.authority}
	if token != "" {
		flags = append(flags, "-H", "authorization: Bearer "+token)
	}
	// Options come before the address, the verb or method after it.
	last := arguments[len(arguments)-1]
	flags = append(append(flags, arguments[:len(arguments)-1]...), t.address, last)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Getenv("MAGOS_TEST_GRPCURL"), flags...).CombinedOutput()
	return string(out), err
}

// token asks the API server for a token of an account of the demo's namespace, as kubectl create token does.
func (w world) token(account, audience string) string {
	w.Helper()
	out, err := w.kubectl(w.Context(), "create", "token", account, "-n", demo.Namespace, "--audience", audience, "-o", "json")
	if err != nil {
		w.Fatalf("creating a token: %v\n%s", err, out)
	}
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(out), &request); err != nil {
		w.Fatal(err)
	}
	return request.Status.Token
}
