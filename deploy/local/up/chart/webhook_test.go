package chart

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWebhooksAreOffWithoutASecret: with one, every replica listens on a port of its own behind a Service of its own, and reads that Secret from a folder, so
// that the service's account needs no right to it.
func TestWebhooksAreOffWithoutASecret(t *testing.T) {
	const name = "magos-refwatcher-webhook"
	find := func(objects []*unstructured.Unstructured) (service *corev1.Service, container corev1.Container, volumes []corev1.Volume) {
		for _, found := range of[corev1.Service](t, objects, "Service") {
			if found.Name == name {
				service = &found
			}
		}
		for _, deployment := range of[appsv1.Deployment](t, objects, "Deployment") {
			if deployment.Name == "magos-refwatcher" {
				container, volumes = deployment.Spec.Template.Spec.Containers[0], deployment.Spec.Template.Spec.Volumes
			}
		}
		return service, container, volumes
	}
	service, container, volumes := find(render(t, nil))
	if service != nil || strings.Contains(strings.Join(container.Args, " "), "webhook") || len(container.Ports) != 2 || len(volumes) != 1 {
		t.Errorf("without a Secret: Service %v, arguments %v, ports %v, volumes %v", service, container.Args, container.Ports, volumes)
	}
	plain := rightsOf(t, render(t, nil))

	objects := render(t, map[string]any{"refwatcher": map[string]any{"webhook": map[string]any{"secretName": "push-keys", "port": 9000}}})
	service, container, volumes = find(objects)
	if service == nil {
		t.Fatal("there is no Service")
	}
	facts := map[string]bool{
		"one port of the Service":              len(service.Spec.Ports) == 1 && service.Spec.Ports[0].Port == 9000 && service.Spec.Ports[0].TargetPort.StrVal == "webhook",
		"the pods of the refwatcher":           service.Spec.Selector["app.kubernetes.io/component"] == "refwatcher",
		"a port of the pod with this name":     slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "webhook" && p.ContainerPort == 9000 }),
		"the service told to listen":           slices.Contains(container.Args, "--webhook-listen=:9000"),
		"the keys in a folder, read-only":      isMounted(container, corev1.VolumeMount{Name: "webhook-keys", MountPath: "/var/run/secrets/magos/webhook", ReadOnly: true}),
		"the tokens for peers where they were": isMounted(container, corev1.VolumeMount{Name: "peer-tokens", MountPath: "/var/run/secrets/magos/tokens", ReadOnly: true}),
		"that Secret, which may come later": slices.ContainsFunc(volumes, func(v corev1.Volume) bool {
			return v.Name == "webhook-keys" && v.Secret != nil && v.Secret.SecretName == "push-keys" && *v.Secret.Optional
		}),
		"no further right": rightsOf(t, objects) == plain,
	}
	for fact, holds := range facts {
		if !holds {
			t.Errorf("want %s", fact)
		}
	}
}

func isMounted(container corev1.Container, want corev1.VolumeMount) bool {
	return slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return reflect.DeepEqual(m, want) })
}
