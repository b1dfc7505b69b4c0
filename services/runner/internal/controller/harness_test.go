package controller

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/testcluster"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runs"
	"magosproject.io/services/runner/internal/runspec"
)

var config *rest.Config

func TestMain(m *testing.M) { testcluster.Main(m, func(c *rest.Config) { config = c }) }

// world is one namespace with one Workspace. Its own client never crashes; the runner's may.
type world struct {
	t         *testing.T
	admin     client.WithWatch
	namespace string
	uid       string
	now       time.Time

	runner client.WithWatch
	// api reads for the runner what it does not read from its cache; nil for the same client.
	api client.Reader
	// logs has what keeper printed, by the name of its pod.
	logs map[string]func() ([]byte, error)
	// podsMade has the Jobs for which the Job controller, that is the test, made a pod.
	podsMade map[types.UID]string
}

func newWorld(t *testing.T) *world {
	admin := testcluster.Client(t, config)
	w := &world{t: t, admin: admin, runner: admin, namespace: testcluster.Namespace(t, admin), now: time.Now(), podsMade: map[types.UID]string{}, logs: map[string]func() ([]byte, error){}}
	// Every pod of the tests passes the restricted Pod Security Standard, or is refused here.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	w.must(admin.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vpc", Finalizers: []string{v1alpha1.FinalizerWorkspace}},
		Spec: v1alpha1.WorkspaceSpec{
			ProjectRef: v1alpha1.ProjectReference{Name: "net"},
			Source:     v1alpha1.WorkspaceSource{RepoURL: "https://git.example.com/x.git", TargetRevision: "main", Path: "."},
			Terraform:  v1alpha1.TerraformSpec{Version: "1.12.6", Engine: v1alpha1.EngineOpenTofu},
		},
	}
	w.must(admin.Create(t.Context(), ws))
	w.uid = string(ws.UID)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) runs() *runs.Runs {
	quantity := resource.MustParse("1Gi")
	var api client.Reader = w.runner
	if w.api != nil {
		api = w.api
	}
	return runs.New(runs.Config{
		Cache: w.runner, API: api, Writer: w.runner,
		Settings:      execution.Settings{RunImage: "run:1", PullPolicy: corev1.PullIfNotPresent, PlanGrace: time.Minute, ApplyGrace: 10 * time.Minute, StorageSize: quantity},
		NodeLossGrace: 5 * time.Minute, Now: func() time.Time { return w.now },
		Log: func(_ context.Context, pod types.NamespacedName, container string, lines int64) ([]byte, error) {
			if log := w.logs[pod.Name]; log != nil && container == runspec.ContainerKeeper && lines >= 100 {
				return log()
			}
			return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
		},
	})
}

func (w *world) workspace() *v1alpha1.Workspace {
	ws := &v1alpha1.Workspace{}
	w.must(w.admin.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "vpc"}, ws))
	return ws
}

func (w *world) runID(n string) string { return w.uid + "-" + n }

// record writes what the workspace service would have recorded before it asks for a phase.
func (w *world) record(run string, phase v1alpha1.RunPhase, digest string) {
	ws := w.workspace()
	at := metav1.NewTime(w.now)
	ws.Status.Run = &v1alpha1.WorkspaceRun{
		ID: run, Trigger: v1alpha1.TriggerSpec, Pass: "standing", Scope: v1alpha1.ScopeRun, Revision: testRevision, Fingerprint: "f",
		Phase: phase, StartedAt: at, PlanDigest: digest, AutoApply: true,
	}
	if phase == v1alpha1.RunApplying {
		ws.Status.Run.ApplyRequestedAt = &at
	}
	w.must(w.admin.Status().Update(w.t.Context(), ws))
}

const testRevision = "0123456789abcdef0123456789abcdef01234567"

func (w *world) request(run, phase, digest string) execution.Request {
	r := execution.Request{
		Key:     execution.Key{Namespace: w.namespace, Workspace: "vpc", WorkspaceUID: w.uid, RunID: run, Phase: phase},
		RepoURL: "https://git.example.com/x.git", Revision: testRevision, TargetRevision: "main", Path: ".",
		Engine: v1alpha1.EngineOpenTofu, ToolVersion: "1.12.6", ServiceAccount: "magos-job", Timeout: time.Hour, PlanDigest: digest,
	}
	if phase == runspec.PhasePlan {
		r.Variables = []execution.Variable{{Name: "a", Value: ptr.To("b")}}
	}
	return r
}

func (w *world) job(run, phase string) *batchv1.Job {
	job := &batchv1.Job{}
	w.must(w.admin.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: execution.JobName(run, phase)}, job))
	return job
}

// makePod plays the Job controller: one pod per Job that is neither suspended nor being deleted.
func (w *world) makePod(job *batchv1.Job) *corev1.Pod {
	w.t.Helper()
	name := job.Name + "-x"
	if _, made := w.podsMade[job.UID]; !made {
		if *job.Spec.Suspend || !job.DeletionTimestamp.IsZero() {
			w.t.Fatalf("job %s asks for no pod", job.Name)
		}
		template := job.Spec.Template.DeepCopy()
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name = w.namespace, name
		pod.Spec.NodeName = "node-" + w.namespace
		w.must(w.admin.Create(w.t.Context(), pod))
		w.podsMade[job.UID] = job.Name
	}
	return w.pod(name)
}

func (w *world) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	w.must(w.admin.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, pod))
	return pod
}

// kubelet sets every container of the pod to the state, keeper's with the message.
func (w *world) kubelet(pod *corev1.Pod, phase corev1.PodPhase, state func(container string) corev1.ContainerState) {
	w.t.Helper()
	pod = w.pod(pod.Name)
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "x", ContainerID: "containerd://" + c.Name, State: state(c.Name)}
		if end := status.State.Terminated; end != nil && end.StartedAt.IsZero() {
			status.ContainerID = ""
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	w.must(w.admin.Status().Update(w.t.Context(), pod))
}

func running(string) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Minute))}}
}

func exited(code int32, keeper string) func(string) corev1.ContainerState {
	return func(container string) corev1.ContainerState {
		end := &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: metav1.NewTime(time.Now().Add(-time.Minute)), FinishedAt: metav1.Now()}
		if container == runspec.ContainerKeeper {
			end.Message = keeper
		}
		return corev1.ContainerState{Terminated: end}
	}
}

// neverRan is how a kubelet reports the containers of a pod that was deleted before it started.
func neverRan(string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}}
}

func planned(run, digest string) string {
	data, err := json.Marshal(runspec.Record{Version: runspec.Version, RunID: run, Outcome: runspec.OutcomePlanned, Digest: digest, Changes: runspec.Changes{Add: 1}})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// settle runs both reconcilers over everything of the Workspace until nothing is written any more.
func (w *world) settle() error {
	jobs := &Jobs{Runs: w.runs(), Metrics: w.metrics()}
	workspaces := &Workspaces{Runs: w.runs()}
	for range 30 {
		before := w.fingerprint()
		list := &batchv1.JobList{}
		w.must(w.admin.List(w.t.Context(), list, client.InNamespace(w.namespace)))
		names := []string{}
		for _, j := range list.Items {
			names = append(names, j.Name)
		}
		pods := &corev1.PodList{}
		w.must(w.admin.List(w.t.Context(), pods, client.InNamespace(w.namespace)))
		for i := range pods.Items {
			names = append(names, jobOf(&pods.Items[i]).Name)
		}
		for _, name := range names {
			_, err := jobs.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}})
			if err != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
		_, err := workspaces.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: "vpc"}})
		if err != nil && !apierrors.IsConflict(err) {
			return err
		}
		if slices.Equal(before, w.fingerprint()) {
			return nil
		}
	}
	return errors.New("the reconcilers never come to rest")
}

func (w *world) metrics() *Metrics {
	m, err := NewMetrics(prometheus.NewRegistry())
	w.must(err)
	return m
}

// fingerprint lists every object with its resourceVersion.
func (w *world) fingerprint() []string {
	var all []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.ConfigMapList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceAccountList{}, &v1alpha1.WorkspaceList{}} {
		w.must(w.admin.List(context.Background(), list, client.InNamespace(w.namespace)))
		raw, err := json.Marshal(list)
		w.must(err)
		var items struct {
			Items []struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
			} `json:"items"`
		}
		w.must(json.Unmarshal(raw, &items))
		for _, item := range items.Items {
			all = append(all, item.Metadata.Name+"@"+item.Metadata.ResourceVersion)
		}
	}
	return all
}
