package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
)

// patience bounds every wait for the cluster; what is waited for usually takes seconds.
const patience = 5 * time.Minute

// world is a test's view of the cluster.
type world struct {
	*testing.T
	client.WithWatch
}

func newWorld(t *testing.T) world {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", local.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return world{T: t, WithWatch: c}
}

// eventually waits until holds returns nil, and fails with what it said last.
func (w world) eventually(what string, holds func(context.Context) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.describe()
			w.Fatalf("waiting until %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// describe logs where everything stands, so that a failure can be understood from the log alone.
func (w world) describe() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, arguments := range [][]string{
		{"get", "ro,ws,jobs,pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"logs", "-n", "magos-system", "-l", "app.kubernetes.io/name=magos", "--prefix", "--tail=40", "--max-log-requests=20"},
	} {
		out, err := w.kubectl(ctx, arguments...)
		w.Logf("kubectl %s (%v):\n%s", strings.Join(arguments, " "), err, out)
	}
}

func (w world) kubectl(ctx context.Context, arguments ...string) (string, error) {
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	command := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", local.Kubeconfig()}, arguments...)...)
	out, err := command.CombinedOutput()
	return string(out), err
}

func (w world) workspace(ctx context.Context, namespace, name string) (*v1alpha1.Workspace, error) {
	ws := &v1alpha1.Workspace{}
	err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ws)
	return ws, err
}

// demoWorkspace is the demo's Workspace of a step.
func (w world) demoWorkspace(ctx context.Context, step string) (*v1alpha1.Workspace, error) {
	return w.workspace(ctx, demo.Namespace, demo.Project+"-"+step)
}

// expectApplied waits until the Workspace is at rest with the commit.
func (w world) expectApplied(namespace, name, commit string) *v1alpha1.Workspace {
	w.Helper()
	var ws *v1alpha1.Workspace
	w.eventually(fmt.Sprintf("%s is Applied at %s", name, commit), func(ctx context.Context) (err error) {
		if ws, err = w.workspace(ctx, namespace, name); err != nil {
			return err
		}
		if ws.Status.Phase != v1alpha1.PhaseApplied || ws.Status.ObservedRevision != commit {
			return fmt.Errorf("it is %s/%s at %q: %s", ws.Status.Phase, ws.Status.Reason, ws.Status.ObservedRevision, ws.Status.Message)
		}
		return nil
	})
	return ws
}

// expectRolledOut waits until every step of the demo is at rest with the commit, and the Rollout says so.
func (w world) expectRolledOut(commit string) {
	w.Helper()
	for _, step := range demo.Steps {
		w.expectApplied(demo.Namespace, demo.Project+"-"+step, commit)
	}
	w.eventually("the Rollout has succeeded", func(ctx context.Context) error {
		ro := &v1alpha1.Rollout{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: demo.Namespace, Name: demo.Project}, ro); err != nil {
			return err
		}
		if ro.Status.Phase != v1alpha1.RolloutSucceeded {
			return fmt.Errorf("it is %s/%s: %s", ro.Status.Phase, ro.Status.Reason, ro.Status.Message)
		}
		return nil
	})
}

// jobs returns the run Jobs of a Workspace.
func (w world) jobs(ctx context.Context, namespace, workspace string) ([]batchv1.Job, error) {
	list := &batchv1.JobList{}
	err := w.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelWorkspace: workspace})
	return list.Items, err
}

// repository is a clone of the demo's repository.
type repository struct {
	world
	dir string
}

func (w world) clone() repository {
	w.Helper()
	svc := &corev1.Service{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: demo.Namespace, Name: demo.Server}, svc); err != nil {
		w.Fatal(err)
	}
	r := repository{world: w, dir: w.TempDir()}
	r.git("clone", "-q", "http://"+svc.Spec.ClusterIP+"/demo.git", ".")
	return r
}

func (r repository) git(arguments ...string) string {
	r.Helper()
	command := exec.CommandContext(r.Context(), "git", arguments...)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@example.com")
	out, err := command.CombinedOutput()
	if err != nil {
		r.Fatalf("git %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) head() string { r.Helper(); return r.git("rev-parse", "HEAD") }

// write replaces files.
func (r repository) write(files map[string]string) {
	r.Helper()
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			r.Fatal(err)
		}
	}
}

// push commits everything to the branch and returns the commit.
func (r repository) push(branch, message string) string {
	r.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "-m", message)
	r.git("push", "-q", "origin", "HEAD:refs/heads/"+branch)
	return r.head()
}

// stateOf reads what the kubernetes backend keeps under a suffix.
func (w world) stateOf(namespace, suffix string) map[string]any {
	w.Helper()
	var state map[string]any
	if err := json.Unmarshal([]byte(w.stateTextOf(namespace, suffix)), &state); err != nil {
		w.Fatal(err)
	}
	return state
}

// stateTextOf is the same, as it is written.
func (w world) stateTextOf(namespace, suffix string) string {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "tfstate-default-" + suffix}, secret); err != nil {
		w.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(secret.Data["tfstate"]))
	if err != nil {
		w.Fatal(err)
	}
	data, err := io.ReadAll(zipped)
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

// outputOf is the value of an output in a state.
func outputOf(t *testing.T, state map[string]any, name string) string {
	t.Helper()
	outputs, _ := state["outputs"].(map[string]any)
	output, _ := outputs[name].(map[string]any)
	value, ok := output["value"].(string)
	if !ok {
		t.Fatalf("the state has no output %q: %v", name, outputs)
	}
	return value
}

// annotate sets one annotation as kubectl annotate --overwrite does.
func (w world) annotate(obj client.Object, key, value string) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		w.Fatal(err)
	}
	if err := w.Patch(w.Context(), obj, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		w.Fatal(err)
	}
}

// namespace makes one for a test, with what runs need there to keep their state, and removes it afterwards.
func (w world) namespace(name string) string {
	w.Helper()
	manifest := strings.ReplaceAll(`apiVersion: v1
kind: Namespace
metadata: {name: NS, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: state, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: state, namespace: NS}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: [get, list, create, update, delete]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: state, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: state}
subjects: [{kind: ServiceAccount, name: state, namespace: NS}]
`, "NS", name)
	w.apply(manifest)
	w.Cleanup(func() {
		if w.Failed() {
			w.describe()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if out, err := w.kubectl(ctx, "delete", "namespace", name, "--wait", "--timeout=4m"); err != nil {
			w.Errorf("removing namespace %s: %v\n%s", name, err, out)
		}
	})
	return name
}

// apply does what kubectl apply does.
func (w world) apply(manifest string) {
	w.Helper()
	file := filepath.Join(w.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		w.Fatal(err)
	}
	if out, err := w.kubectl(w.Context(), "apply", "-f", file); err != nil {
		w.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// newWorkspace is a Workspace of a branch and folder of the demo's repository, in a Project without a Rollout.
func newWorkspace(namespace, project, name, branch, path string) *v1alpha1.Workspace {
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{
				v1alpha1.AnnotationReconcileInterval: "30m",
				v1alpha1.AnnotationGitPollInterval:   "2s",
			},
		},
		Spec: v1alpha1.WorkspaceSpec{
			ProjectRef:               v1alpha1.ProjectReference{Name: project},
			Source:                   v1alpha1.WorkspaceSource{RepoURL: demo.RepositoryURL, TargetRevision: branch, Path: path},
			Terraform:                v1alpha1.TerraformSpec{Engine: v1alpha1.EngineOpenTofu, Version: demo.OpenTofuVersion},
			ServiceAccountName:       "state",
			MountServiceAccountToken: true,
		},
	}
}

func (w world) create(objects ...client.Object) {
	w.Helper()
	for _, obj := range objects {
		if err := w.Create(w.Context(), obj); err != nil {
			w.Fatal(err)
		}
	}
}
