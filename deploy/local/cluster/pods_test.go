package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// renderPod renders a pod without root that runs the probe once.
func renderPod(name string, arguments ...string) *corev1.Pod {
	user, yes, no := nobody, true, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullNever, Args: arguments,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

func mountClaim(pod *corev1.Pod, claim, subPath string) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: subPath}}
}

func renderClaim(name string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

func create[T any](t *testing.T, call func(context.Context, *T, metav1.CreateOptions) (*T, error), object *T) *T {
	t.Helper()
	created, err := call(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// runPod runs the pod to its end and returns what it said, which is read through the kubelet. The controller manager
// may not have made the namespace's ServiceAccount yet, so creating is tried until it works.
func runPod(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) string {
	t.Helper()
	ctx := t.Context()
	pods := client.CoreV1().Pods(namespace)
	eventually(t, "pod "+pod.Name+" is created", func() error {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	phase := corev1.PodPending
	eventually(t, "pod "+pod.Name+" ends", func() error {
		current, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase = current.Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			return nil
		}
		return fmt.Errorf("it is %s: %+v", phase, current.Status.ContainerStatuses)
	})
	said, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		t.Fatalf("reading the log of pod %s: %v", pod.Name, err)
	}
	if phase != corev1.PodSucceeded {
		t.Fatalf("pod %s is %s and said %q", pod.Name, phase, said)
	}
	return string(said)
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if last = check(); last == nil {
			return
		}
	}
	t.Fatalf("%s: not within five minutes: %v", what, last)
}
