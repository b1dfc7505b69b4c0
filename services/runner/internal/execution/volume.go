package execution

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	class := s.StorageClass
	if asked := ws.Spec.Storage; asked != nil {
		if size, err := resource.ParseQuantity(asked.Size); err == nil {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
		}
		if asked.AccessMode != "" {
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(asked.AccessMode)}
		}
		if asked.StorageClassName != "" {
			class = asked.StorageClassName
		}
	}
	if class != "" {
		claim.Spec.StorageClassName = ptr.To(class)
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

// VolumeChange says what has to be done so that a claim that exists is as the Workspace asks: the size to which it has to grow, nil for none,
// or why it can never be so.
func VolumeChange(claim *corev1.PersistentVolumeClaim, asked *v1alpha1.WorkspaceStorage) (grow *resource.Quantity, refusal string) {
	if asked == nil {
		return nil, ""
	}
	if class := ptr.Deref(claim.Spec.StorageClassName, ""); asked.StorageClassName != "" && class != asked.StorageClassName {
		return nil, fmt.Sprintf("storageClassName %q: the volume was made with %q and keeps it", asked.StorageClassName, class)
	}
	if asked.AccessMode != "" && !slices.Contains(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(asked.AccessMode)) {
		return nil, fmt.Sprintf("accessMode %s: the volume was made with %v and keeps it", asked.AccessMode, claim.Spec.AccessModes)
	}
	size, err := resource.ParseQuantity(asked.Size)
	if err != nil {
		return nil, ""
	}
	present := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch size.Cmp(present) {
	case 1:
		return &size, ""
	case -1:
		return nil, fmt.Sprintf("size %s: the volume has %s and cannot be made smaller", asked.Size, present.String())
	}
	return nil, ""
}

// RenderServiceAccount renders the account that the runner makes where it is missing: without a token and without rights.
func RenderServiceAccount(namespace string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DefaultServiceAccountName},
		AutomountServiceAccountToken: ptr.To(false),
	}
}
