package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corev1alpha1 "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/rpcclient"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/service"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/runner/internal/runspec"
)

const releaseNamespace = "magos-system"

var restConfig *rest.Config

func TestMain(m *testing.M) { testcluster.Main(m, func(c *rest.Config) { restConfig = c }) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is the real service, with the rights of rbac.yaml and no more, and a client of it.
type fixture struct {
	t         *testing.T
	admin     client.WithWatch
	namespace string
	address   string
	config    Config
	bundle    *certs.Bundle
	stop      func()
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, admin: testcluster.Client(t, restConfig), config: NewDefaultConfig()}
	f.config.RunImage = "magos-run:test"
	f.namespace = testcluster.Namespace(t, f.admin)
	f.grantRunner()
	f.makeCertificates()
	f.run()
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *fixture) grantRunner() {
	file, err := os.ReadFile("rbac.yaml")
	must(f.t, err)
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096)
	roles := []string{}
	for {
		role := &rbacv1.ClusterRole{}
		if err := decoder.Decode(role); errors.Is(err, io.EOF) {
			break
		} else {
			must(f.t, err)
		}
		must(f.t, client.IgnoreAlreadyExists(f.admin.Create(f.t.Context(), role)))
		roles = append(roles, role.Name)
	}
	kit := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-kit"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}}
	must(f.t, client.IgnoreAlreadyExists(f.admin.Create(f.t.Context(), kit)))
	f.bind("magos-runner", releaseNamespace, append(roles, kit.Name)...)
}

func (f *fixture) bind(account, namespace string, roles ...string) {
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account + "-" + namespace + "-" + role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		must(f.t, client.IgnoreAlreadyExists(f.admin.Create(f.t.Context(), binding)))
	}
}

func (f *fixture) makeCertificates() {
	t := f.t
	must(t, client.IgnoreAlreadyExists(f.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: releaseNamespace}})))
	core, err := corev1client.NewForConfig(restConfig)
	must(t, err)
	secrets := core.Secrets(releaseNamespace)
	must(t, certs.NewRotator(certs.RotatorConfig{Secrets: secrets, Namespace: releaseNamespace, Services: certs.Services()}).Rotate(t.Context()))
	secret, err := secrets.Get(t.Context(), certs.SecretTLS, metav1.GetOptions{})
	must(t, err)
	f.bundle = certs.NewBundle(certs.BundleConfig{})
	must(t, f.bundle.Load(secret.Data[certs.KeyBundle], secret.Data[certs.KeyCertificate], secret.Data[certs.KeyPrivate]))
}

// run starts the service; stop ends it and waits.
func (f *fixture) run() {
	f.address = testcluster.Address(f.t)
	config := service.NewDefaultConfig()
	config.GRPCListen, config.HTTPListen, config.AdvertiseAddress = f.address, "127.0.0.1:0", f.address
	config.ReleaseNamespace, config.LeaderElect, config.DrainDelay = releaseNamespace, false, 0
	config.DrainTimeout = 3 * time.Minute
	must(f.t, errors.Join(config.Validate(), f.config.Validate()))
	asRunner := rest.CopyConfig(restConfig)
	asRunner.Impersonate.UserName = "system:serviceaccount:" + releaseNamespace + ":magos-runner"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	d := definition(&f.config)
	options := d.Options
	d.Options = func(c service.Config, o *ctrl.Options) {
		options(c, o)
		// One process runs the service several times over.
		o.Controller.SkipNameValidation = ptr.To(true)
	}
	go func() { done <- service.RunWith(ctx, d, config, asRunner, slog.New(slog.DiscardHandler)) }()
	f.stop = func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("the service ended: %v", err)
		}
		f.stop = func() {}
	}
}

// client connects as a ServiceAccount with the rights, in the fixture's namespace alone.
func (f *fixture) client(account string, rules ...rbacv1.PolicyRule) pb.RunnerServiceClient {
	t := f.t
	token := testcluster.Token(t, f.admin, f.namespace, account, "magos-runner")
	if len(rules) > 0 {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: account}, Rules: rules}
		must(t, client.IgnoreAlreadyExists(f.admin.Create(t.Context(), role)))
		must(t, client.IgnoreAlreadyExists(f.admin.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: account},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.namespace, Name: account}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		})))
	}
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	connection, err := rpcclient.Dial(rpcclient.Config{Target: "passthrough:///" + f.address, ServerName: "magos-runner." + releaseNamespace + ".svc", TLS: f.bundle, TokenFile: file, Timeout: time.Minute})
	must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return pb.NewRunnerServiceClient(connection)
}

func workspaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"workspaces"}, Verbs: []string{"run", "get", "watch", "cancel"}},
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"workspaces/log"}, Verbs: []string{"get"}},
	}
}

const revision = "0123456789abcdef0123456789abcdef01234567"

// workspace makes one whose status has recorded a run in the phase.
func (f *fixture) workspace(name string) *v1alpha1.Workspace {
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.WorkspaceSpec{
			ProjectRef: v1alpha1.ProjectReference{Name: "net"},
			Source:     v1alpha1.WorkspaceSource{RepoURL: "https://git.example.com/x.git", TargetRevision: "main", Path: "."},
			Terraform:  v1alpha1.TerraformSpec{Version: "1.12.6", Engine: v1alpha1.EngineOpenTofu},
		},
	}
	must(f.t, f.admin.Create(f.t.Context(), ws))
	return ws
}

func (f *fixture) record(ws *v1alpha1.Workspace, phase v1alpha1.RunPhase, digest string) {
	f.updateStatus(ws, func() {
		now := metav1.Now()
		ws.Status.Run = &v1alpha1.WorkspaceRun{
			ID: string(ws.UID) + "-r1", Trigger: v1alpha1.TriggerSpec, Pass: "standing", Scope: v1alpha1.ScopeRun, Revision: revision, Fingerprint: "f",
			Phase: phase, StartedAt: now, AutoApply: true, PlanDigest: digest, ApplyRequestedAt: &now,
		}
	})
}

// updateStatus changes an object that the service, which runs beside the test, may change at the same moment.
func (f *fixture) updateStatus(obj client.Object, change func()) {
	must(f.t, retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		if err := f.admin.Get(f.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change()
		return f.admin.Status().Update(f.t.Context(), obj)
	}))
}

func request(ws *v1alpha1.Workspace, phase pb.Phase, digest string) *pb.StartRunRequest {
	return &pb.StartRunRequest{
		Key: &pb.RunKey{
			Workspace: &corev1alpha1.WorkspaceRef{Namespace: ws.Namespace, Name: ws.Name, Uid: string(ws.UID)}, RunId: string(ws.UID) + "-r1", Phase: phase},
		Source:             &pb.Source{RepoUrl: "https://git.example.com/x.git", Revision: revision, TargetRevision: "main", Path: "."},
		Tool:               &pb.Tool{Engine: corev1alpha1.Engine_ENGINE_OPENTOFU, Version: "1.12.6"},
		ServiceAccountName: "magos-job", Timeout: durationpb.New(time.Hour), PlanDigest: digest,
	}
}

// pod plays the Job controller.
func (f *fixture) pod(job, node string) *corev1.Pod {
	j := &batchv1.Job{}
	must(f.t, f.admin.Get(f.t.Context(), types.NamespacedName{Namespace: f.namespace, Name: job}, j))
	pod := &corev1.Pod{ObjectMeta: *j.Spec.Template.ObjectMeta.DeepCopy(), Spec: *j.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Spec.NodeName = f.namespace, job+"-x", node
	must(f.t, f.admin.Create(f.t.Context(), pod))
	return pod
}

// kubelet sets every container to the state.
func (f *fixture) kubelet(pod *corev1.Pod, state func(string) corev1.ContainerState) {
	f.updateStatus(pod, func() {
		pod.Status.ContainerStatuses = nil
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "x", ContainerID: "containerd://x", State: state(c.Name)})
		}
	})
}

func running(string) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

func exited(code int32, keeper string) func(string) corev1.ContainerState {
	return func(name string) corev1.ContainerState {
		end := &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
		if name == "keeper" {
			end.Message = keeper
		}
		return corev1.ContainerState{Terminated: end}
	}
}

// until reads the stream up to a run that is as wanted.
func until(t *testing.T, stream interface {
	Recv() (*pb.WatchRunsResponse, error)
}, what string, wanted func(*pb.Run) bool) *pb.Run {
	t.Helper()
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if wanted(m.GetRun()) {
			return m.GetRun()
		}
	}
}

func isState(state pb.RunState) func(*pb.Run) bool {
	return func(r *pb.Run) bool { return r.GetState() == state }
}

// ready waits until the service answers, and until the API server has seen the caller's rights.
func (f *fixture) ready(c pb.RunnerServiceClient, key *pb.RunKey) {
	f.t.Helper()
	f.eventually("the service answers", func() error {
		_, err := c.GetRun(f.t.Context(), &pb.GetRunRequest{Key: key})
		if rpcerr.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
}

// eventually repeats what only needs time; the bound ends a test that has failed.
func (f *fixture) eventually(what string, try func() error) {
	f.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestPlanAndApplyOverTheWire(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := f.client("workspace", workspaceRules()...)
	ws := f.workspace("vpc")
	plan := request(ws, pb.Phase_PHASE_PLAN, "")
	f.ready(c, plan.GetKey())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + f.namespace, Labels: map[string]string{corev1.LabelArchStable: "arm64"}}}
	must(t, f.admin.Create(ctx, node))

	_, err := c.GetRun(ctx, &pb.GetRunRequest{Key: plan.GetKey()})
	expectRefusal(t, "a run that is not there", err, codes.NotFound, rpcerr.RunNotFound)
	_, err = c.StartRun(ctx, plan)
	expectRefusal(t, "a run that is not recorded", err, codes.FailedPrecondition, rpcerr.RunNotRecorded)

	watch, err := c.WatchRuns(ctx, &pb.WatchRunsRequest{Namespace: f.namespace})
	must(t, err)
	f.record(ws, v1alpha1.RunPlanning, "")
	started, err := c.StartRun(ctx, plan)
	must(t, err)
	if started.GetRun().GetState() != pb.RunState_RUN_STATE_PENDING {
		t.Errorf("just started: %v", started.GetRun())
	}
	until(t, watch, "the start", isState(pb.RunState_RUN_STATE_PENDING))

	f.event(started.GetRun().GetJobName(), "FailedCreate", `pods "x" is forbidden: exceeded quota: small`)
	until(t, watch, "the quota", func(r *pb.Run) bool { return r.GetReason() == v1alpha1.ReasonQuotaExceeded })
	pod := f.pod(started.GetRun().GetJobName(), node.Name)
	f.kubelet(pod, running)
	until(t, watch, "running", isState(pb.RunState_RUN_STATE_RUNNING))
	record := `{"v":1,"runID":"` + plan.GetKey().GetRunId() + `","outcome":"Planned","digest":"sha256:12345678","changes":{"add":2,"forget":1}}`
	f.kubelet(pod, exited(0, record))
	planned := until(t, watch, "success", isState(pb.RunState_RUN_STATE_SUCCEEDED))
	if planned.GetPlan().GetDigest() != "sha256:12345678" || planned.GetPlan().GetChanges().GetAdd() != 2 || planned.GetPlan().GetChanges().GetForget() != 1 || planned.GetPlan().GetEmpty() {
		t.Errorf("the plan is %v", planned.GetPlan())
	}

	f.record(ws, v1alpha1.RunApplying, "sha256:12345678")
	apply, err := c.StartRun(ctx, request(ws, pb.Phase_PHASE_APPLY, "sha256:12345678"))
	must(t, err)
	pod = f.pod(apply.GetRun().GetJobName(), node.Name)
	if pod.Spec.NodeSelector[corev1.LabelArchStable] != "arm64" {
		t.Errorf("the apply goes to any node: %v", pod.Spec.NodeSelector)
	}
	f.kubelet(pod, exited(0, ""))
	until(t, watch, "the apply", func(r *pb.Run) bool {
		return r.GetKey().GetPhase() == pb.Phase_PHASE_APPLY && r.GetState() == pb.RunState_RUN_STATE_SUCCEEDED
	})

	// A new process knows it all, and tells the same.
	f.stop()
	must(t, f.admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	f.run()
	c = f.client("workspace")
	f.ready(c, plan.GetKey())
	again, err := c.GetRun(ctx, &pb.GetRunRequest{Key: plan.GetKey()})
	must(t, err)
	if again.GetRun().String() != planned.String() {
		t.Errorf("before the restart %v, then %v", planned, again.GetRun())
	}
	watch, err = c.WatchRuns(ctx, &pb.WatchRunsRequest{Namespace: f.namespace})
	must(t, err)
	until(t, watch, "the apply in the present state", func(r *pb.Run) bool { return r.GetKey().GetPhase() == pb.Phase_PHASE_APPLY })
}

func (f *fixture) event(job, reason, text string) {
	j := &batchv1.Job{}
	must(f.t, f.admin.Get(f.t.Context(), types.NamespacedName{Namespace: f.namespace, Name: job}, j))
	must(f.t, f.admin.Create(f.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: f.namespace, GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: f.namespace, Name: job, UID: j.UID},
		Reason:         reason, Message: text, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now(),
	}))
}

func expectRefusal(t *testing.T, what string, err error, code codes.Code, reason string) {
	t.Helper()
	if rpcerr.Code(err) != code || rpcerr.Reason(err) != reason {
		t.Errorf("%s: %v (%v, %q), want %v, %q", what, err, rpcerr.Code(err), rpcerr.Reason(err), code, reason)
	}
}

func TestWhoMayCallWhat(t *testing.T) {
	f := newFixture(t)
	ws := f.workspace("vpc")
	plan := request(ws, pb.Phase_PHASE_PLAN, "")
	reader := f.client("reader", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"workspaces"}, Verbs: []string{"get", "watch", "list"}})
	f.ready(reader, plan.GetKey())
	_, err := reader.StartRun(t.Context(), plan)
	expectDenied(t, "StartRun", err, "run", "workspaces")
	_, err = reader.CancelRun(t.Context(), &pb.CancelRunRequest{Key: plan.GetKey()})
	expectDenied(t, "CancelRun", err, "cancel", "workspaces")
	logs, err := reader.StreamLogs(t.Context(), &pb.StreamLogsRequest{Key: plan.GetKey()})
	must(t, err)
	_, err = logs.Recv()
	expectDenied(t, "StreamLogs", err, "get", "workspaces/log")
	all, err := reader.WatchRuns(t.Context(), &pb.WatchRunsRequest{})
	must(t, err)
	_, err = all.Recv()
	expectDenied(t, "WatchRuns of all namespaces", err, "watch", "workspaces")
}

func expectDenied(t *testing.T, what string, err error, verb, resource string) {
	t.Helper()
	expectRefusal(t, what, err, codes.PermissionDenied, rpcerr.PermissionDenied)
	if err != nil && (!strings.Contains(err.Error(), verb) || !strings.Contains(err.Error(), resource)) {
		t.Errorf("%s: %q names neither %q nor %q", what, err, verb, resource)
	}
}

func TestEveryWrongFieldIsNamed(t *testing.T) {
	f := newFixture(t)
	ws := f.workspace("vpc")
	c := f.client("workspace", workspaceRules()...)
	plan := request(ws, pb.Phase_PHASE_PLAN, "")
	f.ready(c, plan.GetKey())
	plan.Source.Revision, plan.Tool.Version, plan.Timeout = "main", "latest", nil
	_, err := c.StartRun(t.Context(), plan)
	expectRefusal(t, "three wrong fields", err, codes.InvalidArgument, rpcerr.InvalidField)
	var refusal *rpcerr.Error
	if errors.As(err, &refusal) {
		fields := map[string]bool{}
		for _, v := range refusal.Violations() {
			fields[v.Field] = true
		}
		if !fields["source.revision"] || !fields["tool.version"] || !fields["timeout"] || len(fields) != 3 {
			t.Errorf("fields: %v", fields)
		}
	}
	logs, err := c.StreamLogs(t.Context(), &pb.StreamLogsRequest{Key: plan.GetKey(), Container: "sidecar"})
	must(t, err)
	_, err = logs.Recv()
	expectRefusal(t, "a container that is none of ours", err, codes.InvalidArgument, rpcerr.InvalidField)
}

// The API server passes the kubelet's log on; here the test is the kubelet.
func TestLogsComeWholeAndInPieces(t *testing.T) {
	f := newFixture(t)
	ws := f.workspace("vpc")
	c := f.client("workspace", workspaceRules()...)
	plan := request(ws, pb.Phase_PHASE_PLAN, "")
	f.ready(c, plan.GetKey())
	text := string(runspec.LogMark("tool", 0)) + strings.Repeat("line of the log\n", 40_000)
	const half = 20_000
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if !strings.HasSuffix(r.URL.Path, "/tool") || query.Get("timestamps") != "true" {
			http.Error(w, "unexpected "+r.URL.String(), http.StatusBadRequest)
			return
		}
		// A stream that follows breaks off in the middle of the log, while the container works on.
		serveLog(w, text, query.Get("sinceTime"), query.Get("follow") == "true", half)
	}))
	defer kubelet.Close()
	node := f.node(kubelet.Listener.Addr().String())
	f.record(ws, v1alpha1.RunPlanning, "")
	started, err := c.StartRun(t.Context(), plan)
	must(t, err)
	logs, err := c.StreamLogs(t.Context(), &pb.StreamLogsRequest{Key: plan.GetKey()})
	must(t, err)
	if _, err := logs.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the log of a pod that has not started: %v", err)
	}

	// A follower that comes early waits for the container.
	logs, err = c.StreamLogs(t.Context(), &pb.StreamLogsRequest{Key: plan.GetKey(), Follow: true})
	must(t, err)
	pod := f.pod(started.GetRun().GetJobName(), node)
	f.kubelet(pod, running)
	var got bytes.Buffer
	for ended := false; ; {
		if !ended && got.Len() > half*16 {
			f.kubelet(pod, exited(1, ""))
			ended = true
		}
		m, err := logs.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if len(m.GetData()) > 64<<10 {
			t.Fatalf("a piece has %d bytes", len(m.GetData()))
		}
		if m.GetMissing() {
			t.Error("something is said to be missing")
		}
		got.Write(m.GetData())
	}
	if got.String() != text {
		t.Errorf("%d bytes came, want %d", got.Len(), len(text))
	}
	f.eventually("the run has failed", func() error {
		r, err := c.GetRun(t.Context(), &pb.GetRunRequest{Key: plan.GetKey()})
		if err == nil && r.GetRun().GetState() != pb.RunState_RUN_STATE_FAILED {
			err = fmt.Errorf("it is %v", r.GetRun())
		}
		return err
	})
	must(t, f.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	f.eventually("the log is gone with the pod", func() error {
		logs, err := c.StreamLogs(t.Context(), &pb.StreamLogsRequest{Key: plan.GetKey()})
		must(t, err)
		if _, err = logs.Recv(); rpcerr.Reason(err) != rpcerr.LogsGone {
			return fmt.Errorf("it gave %w", err)
		}
		return nil
	})
}

// serveLog serves a log as a kubelet does: each line with its time, from the time on. A stream that follows ends after so many lines.
func serveLog(w io.Writer, text, since string, follow bool, lines int) {
	from, _ := time.Parse(time.RFC3339, since)
	n := 0
	for line := range strings.Lines(text) {
		at := time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
		if n++; follow && n > lines+10 {
			return
		}
		if !at.Before(from) {
			_, _ = fmt.Fprintf(w, "%s %s", at.Format(time.RFC3339Nano), line)
		}
	}
}

// node registers a node whose kubelet listens at the address.
func (f *fixture) node(address string) string {
	host, port, err := net.SplitHostPort(address)
	must(f.t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	must(f.t, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kubelet-" + f.namespace}}
	must(f.t, f.admin.Create(f.t.Context(), node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	must(f.t, f.admin.Status().Update(f.t.Context(), node))
	return node.Name
}

// With the rights of rbac.yaml alone: a run is cancelled, and nothing is left of a deleted Workspace.
func TestCancelAndDeleteOverTheWire(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := f.client("workspace", workspaceRules()...)
	ws := f.workspace("vpc")
	plan := request(ws, pb.Phase_PHASE_PLAN, "")
	f.ready(c, plan.GetKey())
	f.record(ws, v1alpha1.RunPlanning, "")
	started, err := c.StartRun(ctx, plan)
	must(t, err)
	pod := f.pod(started.GetRun().GetJobName(), "node-"+f.namespace)
	f.kubelet(pod, running)
	watch, err := c.WatchRuns(ctx, &pb.WatchRunsRequest{Namespace: f.namespace})
	must(t, err)
	until(t, watch, "running", isState(pb.RunState_RUN_STATE_RUNNING))
	cancelled, err := c.CancelRun(ctx, &pb.CancelRunRequest{Key: plan.GetKey()})
	must(t, err)
	if cancelled.GetRun().GetState() != pb.RunState_RUN_STATE_RUNNING {
		t.Errorf("just cancelled: %v", cancelled.GetRun())
	}
	f.kubelet(pod, exited(74, ""))
	until(t, watch, "the interruption", func(r *pb.Run) bool { return r.GetReason() == v1alpha1.ReasonInterrupted })
	must(t, f.admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))

	f.record(ws, v1alpha1.RunFailed, "")
	must(t, f.admin.Delete(ctx, ws))
	f.eventually("the Workspace is let go", func() error {
		err := f.admin.Get(ctx, client.ObjectKeyFromObject(ws), &v1alpha1.Workspace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still held"), err)
	})
	jobs, maps := &batchv1.JobList{}, &corev1.ConfigMapList{}
	must(t, f.admin.List(ctx, jobs, client.InNamespace(f.namespace)))
	must(t, f.admin.List(ctx, maps, client.InNamespace(f.namespace), client.HasLabels{v1alpha1.LabelRunID}))
	claim := &corev1.PersistentVolumeClaim{}
	err = f.admin.Get(ctx, types.NamespacedName{Namespace: f.namespace, Name: "vpc-data"}, claim)
	if len(jobs.Items)+len(maps.Items) > 0 || (err == nil && claim.DeletionTimestamp.IsZero()) {
		t.Errorf("left: %d jobs, %d configmaps, volume %v (%v)", len(jobs.Items), len(maps.Items), claim.DeletionTimestamp, err)
	}
}
