package chart

import (
	"context"
	"encoding/json"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

const (
	jobController     = "system:serviceaccount:kube-system:job-controller"
	controllerManager = "system:kube-controller-manager"
	onlyTheRunner     = "only the runner service says what a Job is to a run"
	staysSuspended    = "the Job is that of a cancelled run and stays suspended"
	onlyRunPods       = "only the pods of run Jobs are of a run"
)

var (
	runLabels = map[string]string{
		magosv1alpha1.LabelWorkspace: "vpc", magosv1alpha1.LabelWorkspaceUID: "u", magosv1alpha1.LabelRunID: "u-1", magosv1alpha1.LabelRunPhase: "apply",
	}
	runAnnotations = []string{magosv1alpha1.AnnotationRunResult, magosv1alpha1.AnnotationRequestDigest, magosv1alpha1.AnnotationRunVoid}
	guardedLabels  = []string{magosv1alpha1.LabelWorkspaceUID, magosv1alpha1.LabelRunID, magosv1alpha1.LabelRunPhase}
)

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
}

func (s installed) job(labels, templateLabels, annotations map[string]string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, GenerateName: "j-", Labels: labels, Annotations: annotations, Finalizers: []string{magosv1alpha1.FinalizerRunner},
		},
		Spec: batchv1.JobSpec{
			Suspend:  new(true), // Its template can then be changed.
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: templateLabels}, Spec: podSpec()},
		},
	}
}

func (s installed) pod(labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "p-", Labels: labels}, Spec: podSpec()}
}

// merge patches an object as JSON merge patches do; nil removes.
func merge(c client.Client, object client.Object, patch map[string]any, options ...client.PatchOption) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.Patch(context.Background(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, raw), options...)
}

func metadata(of, key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{of: map[string]any{key: value}}}
}

// allow gives users what the policies then limit: everything about Jobs and Pods.
func (s installed) allow(t *testing.T, users ...string) {
	t.Helper()
	for _, user := range users {
		s.bind(t, "cluster-admin", user)
	}
}

func testRunJobs(t *testing.T, s installed) {
	create := func(user client.Client, job *batchv1.Job, options ...client.CreateOption) error {
		return user.Create(t.Context(), job, options...)
	}
	runner, person := s.as(t, byRunner), s.as(t, "somebody-with-jobs")
	s.allow(t, "somebody-with-jobs", jobController)
	for _, key := range runAnnotations {
		check(t, create(person, s.job(nil, nil, map[string]string{key: "x"})), onlyTheRunner)
	}
	for _, key := range guardedLabels {
		label := map[string]string{key: "x"}
		check(t, create(person, s.job(label, nil, nil)), onlyTheRunner)
		check(t, create(person, s.job(nil, label, nil)), onlyTheRunner)
		check(t, create(s.as(t, jobController), s.job(label, nil, nil)), onlyTheRunner)
	}
	check(t, create(person, s.job(map[string]string{"app": "x"}, map[string]string{"app": "x"}, nil)), "")
	check(t, create(person, s.job(nil, nil, nil)), "")
	digest := map[string]string{magosv1alpha1.AnnotationRequestDigest: "d"}
	job := s.job(runLabels, runLabels, digest)
	check(t, create(runner, job), "")

	for _, other := range []client.Client{person, s.admin, s.as(t, jobController)} {
		for _, value := range []any{"y", nil} {
			for _, key := range guardedLabels {
				check(t, merge(other, job, metadata("labels", key, value)), onlyTheRunner)
				template := map[string]any{"spec": map[string]any{"template": metadata("labels", key, value)}}
				check(t, merge(other, job, template), onlyTheRunner)
			}
			check(t, merge(other, job, metadata("annotations", magosv1alpha1.AnnotationRequestDigest, value)), onlyTheRunner)
		}
		check(t, merge(other, job, metadata("annotations", magosv1alpha1.AnnotationRunResult, "{}")), onlyTheRunner)
		check(t, merge(other, job, metadata("annotations", magosv1alpha1.AnnotationRunVoid, "true")), onlyTheRunner)
	}
	suspend := func(value any) map[string]any { return map[string]any{"spec": map[string]any{"suspend": value}} }
	check(t, merge(person, job, suspend(false)), "")
	check(t, merge(person, job, suspend(true)), "")
	check(t, merge(runner, job, metadata("annotations", magosv1alpha1.AnnotationRunVoid, "true")), "")
	for _, other := range []client.Client{person, s.admin, s.as(t, jobController)} {
		check(t, merge(other, job, suspend(false)), staysSuspended)
		check(t, merge(other, job, suspend(nil)), staysSuspended)
	}
	check(t, merge(runner, job, metadata("annotations", magosv1alpha1.AnnotationRunResult, "{}")), "")
	check(t, merge(person, job, metadata("annotations", magosv1alpha1.AnnotationRunResult, nil)), onlyTheRunner)

	check(t, merge(person, job, metadata("annotations", "example.com/note", "beside a result")), "")
	check(t, merge(person, job, map[string]any{"spec": map[string]any{"parallelism": 1}}), "")
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"ready":0}}`))
	check(t, s.as(t, jobController).Status().Patch(t.Context(), job.DeepCopy(), status), "")
	check(t, person.Delete(t.Context(), job), "")
	check(t, merge(person, job, map[string]any{"metadata": map[string]any{"finalizers": nil}}), "")
	if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Job is not gone: %v", err)
	}
}

func testRunPods(t *testing.T, s installed) {
	const somebody, kubelet = "somebody-with-pods", "somebody-like-a-kubelet"
	s.allow(t, somebody, kubelet, controllerManager)
	person := s.as(t, somebody)
	for _, key := range guardedLabels {
		check(t, person.Create(t.Context(), s.pod(map[string]string{key: "x"})), onlyRunPods)
		check(t, s.admin.Create(t.Context(), s.pod(map[string]string{key: "x"})), onlyRunPods)
	}
	check(t, person.Create(t.Context(), s.pod(map[string]string{"app": "x"})), "")
	check(t, person.Create(t.Context(), s.pod(nil)), "")
	check(t, s.as(t, controllerManager).Create(t.Context(), s.pod(runLabels)), "")
	pod := s.pod(runLabels)
	pod.Finalizers = []string{magosv1alpha1.FinalizerResult, "batch.kubernetes.io/job-tracking"}
	check(t, s.as(t, jobController).Create(t.Context(), pod), "")

	for _, key := range guardedLabels {
		for _, value := range []any{"y", nil} {
			for _, other := range []client.Client{person, s.admin, s.as(t, jobController), s.as(t, byRunner)} {
				check(t, merge(other, pod, metadata("labels", key, value)), onlyRunPods)
			}
		}
	}
	check(t, merge(person, pod, metadata("labels", "app", "x")), "")
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))
	check(t, s.as(t, kubelet).Status().Patch(t.Context(), pod.DeepCopy(), status), "")
	check(t, merge(s.as(t, jobController), pod, map[string]any{"metadata": map[string]any{"finalizers": []string{magosv1alpha1.FinalizerResult}}}), "")
	check(t, person.Delete(t.Context(), pod, client.GracePeriodSeconds(0)), "")
	check(t, merge(s.as(t, byRunner), pod, map[string]any{"metadata": map[string]any{"finalizers": nil}}), "")
	if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Pod is not gone: %v", err)
	}
}
