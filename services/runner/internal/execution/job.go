package execution

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

// backstop is how long after timeout and grace the Job controller ends a pod whose executor did not. It is late on
// purpose: the Job controller deletes the Pod, and with it what could be read.
const backstop = time.Hour

// schedulingGateVoid keeps the pod of a tombstone from ever being scheduled, should somebody resume its Job.
const schedulingGateVoid = v1alpha1.GroupName + "/void"

// RenderJob renders the Job of one phase of a run, which reads the ConfigMap of the name config. plan is what an apply takes over from
// its plan, and nothing for a plan.
func RenderJob(r Request, s Settings, digest, config string, plan PlanFacts) *batchv1.Job {
	grace := s.Grace(r.Phase)
	job := newJob(r.Key)
	job.Annotations = map[string]string{v1alpha1.AnnotationRequestDigest: digest}
	job.Spec.ActiveDeadlineSeconds = ptr.To(int64((r.Timeout + grace + backstop) / time.Second))
	job.Spec.Template = renderPodTemplate(r, s, config, plan)
	return job
}

// RenderTombstone renders a Job that takes the one name of this phase and never runs, so that a StartRun that is still
// on its way finds its place taken. Its result is there from the start.
func RenderTombstone(k Key, s Settings, now time.Time) (*batchv1.Job, error) {
	job := newJob(k)
	result, err := VoidResult(now).Encode()
	if err != nil {
		return nil, err
	}
	job.Annotations = map[string]string{v1alpha1.AnnotationRunVoid: "true", v1alpha1.AnnotationRunResult: result}
	job.Spec.Suspend = ptr.To(true)
	job.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: k.Labels()},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			SecurityContext:              podSecurity(),
			SchedulingGates:              []corev1.PodSchedulingGate{{Name: schedulingGateVoid}},
			Containers: []corev1.Container{{
				Name: "void", Image: s.RunImage, ImagePullPolicy: s.PullPolicy, Command: []string{runspec.ExecutablePath}, Args: []string{"void"},
				SecurityContext: containerSecurity(), Resources: s.Show,
			}},
		},
	}
	return job, nil
}

// newJob has what every Job of a run has. It has no owner reference: a foreground deletion of the Workspace would kill
// a running apply. Our finalizer keeps it until its pod has provably ended.
func newJob(k Key) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: JobName(k.RunID, k.Phase), Labels: k.Labels(),
			Finalizers: []string{v1alpha1.FinalizerRunner},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(int32(1)), Completions: ptr.To(int32(1)), BackoffLimit: ptr.To(int32(0)),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Suspend:              ptr.To(false),
		},
	}
}
