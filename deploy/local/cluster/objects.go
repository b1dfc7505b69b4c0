package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"magosproject.io/deploy/local/cluster/provision"
)

// ensureObjects creates what a cluster has from the beginning: the default StorageClass, and the rights of the two
// components that Kubernetes does not know itself.
func ensureObjects(ctx context.Context, client kubernetes.Interface) error {
	class := renderStorageClass()
	_, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating StorageClass %s: %w", class.Name, err)
	}
	for user, rules := range componentRules() {
		if err := ensureRights(ctx, client, user, rules); err != nil {
			return err
		}
	}
	return nil
}

func renderStorageClass() *storagev1.StorageClass {
	binding, reclaim := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        provision.StorageClass,
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       provision.Name,
		VolumeBindingMode: &binding,
		ReclaimPolicy:     &reclaim,
	}
}

func componentRules() map[string][]rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return map[string][]rbacv1.PolicyRule{
		userCoreDNS: {
			{APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces"}, Verbs: read},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		},
		userProvisioner: {
			{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: read},
			{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: append([]string{"create", "delete"}, read...)},
		},
	}
}

// ensureRights keeps a ClusterRole named like the user, and binds it to the user.
func ensureRights(ctx context.Context, client kubernetes.Interface, user string, rules []rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("creating the ClusterRole of %s: %w", user, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("binding the ClusterRole of %s: %w", user, err)
	}
	return nil
}
