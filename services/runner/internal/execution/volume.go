package execution

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
)

// RenderVolume renders the claim of the Workspace's volume. A Workspace that is being deleted owns it no more: a
// foreground deletion would take it away from a run that still needs it, and the runner's finalizer removes it.
func RenderVolume(ws *v1alpha1.Workspace, s Settings) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ws.Namespace, Name: VolumeName(ws.Name),
			Labels: map[string]string{v1alpha1.LabelWorkspace: ws.Name, v1alpha1.LabelWorkspaceUID: string(ws.UID)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: s.StorageSize}},
		},
	}
	if s.StorageClass != "" {
		claim.Spec.StorageClassName = ptr.To(s.StorageClass)
	}
	if ws.DeletionTimestamp.IsZero() {
		claim.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Workspace", Name: ws.Name, UID: ws.UID,
			BlockOwnerDeletion: ptr.To(false),
		}}
	}
	return claim
}

// VolumeProblem says why the claim cannot be used for the Workspace; empty when it can.
func VolumeProblem(claim *corev1.PersistentVolumeClaim, workspaceUID string) string {
	switch {
	case !claim.DeletionTimestamp.IsZero():
		return "is being deleted; it is waited out"
	case claim.Labels[v1alpha1.LabelWorkspaceUID] != workspaceUID:
		return "was not made for this Workspace; delete it if nothing needs it"
	}
	return ""
}

// RenderServiceAccount renders the account that the runner makes where it is missing: without a token and without rights.
func RenderServiceAccount(namespace string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DefaultServiceAccountName},
		AutomountServiceAccountToken: ptr.To(false),
	}
}
