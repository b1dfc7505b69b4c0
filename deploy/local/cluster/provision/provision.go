// Package provision makes the volumes of a local cluster: folders of the host, offered to the node as PersistentVolumes
// of type local, so that the kubelet applies a pod's fsGroup to them, which it does not do for hostPath.
package provision

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

const (
	// StorageClass is the name of the class whose claims are served.
	StorageClass = "magos-local"
	// Name is the provisioner of the class.
	Name = "magosproject.io/local"

	// The scheduler says with the first annotation where the claim's pod will run; the volume controller and we know
	// our own volumes by the second.
	selectedNode  = "volume.kubernetes.io/selected-node"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// Config says which node's volumes are made, and where. All fields are required.
type Config struct {
	Kubeconfig string
	Node       string
	Folder     string
}

// item is a claim (with namespace) or a volume (without).
type item = cache.ObjectName

type provisioner struct {
	config  Config
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   workqueue.TypedRateLimitingInterface[item]
}

// Run serves claims until the context ends.
func Run(ctx context.Context, config Config) error {
	restConfig, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the provisioner: %w", err)
	}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	p := &provisioner{
		config:  config,
		client:  client,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: factory.Core().V1().PersistentVolumes().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[item](200*time.Millisecond, 30*time.Second)),
	}
	enqueue := cache.ResourceEventHandlerFuncs{
		AddFunc:    p.enqueue,
		UpdateFunc: func(_, object any) { p.enqueue(object) },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().PersistentVolumeClaims().Informer(),
		factory.Core().V1().PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(enqueue); err != nil {
			return fmt.Errorf("watching volumes: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, p.queue.ShutDown)
	for p.next(ctx) {
	}
	return nil
}

func (p *provisioner) enqueue(object any) {
	if name, err := cache.ObjectToName(object); err == nil {
		p.queue.Add(name)
	}
}

func (p *provisioner) next(ctx context.Context) bool {
	name, shutDown := p.queue.Get()
	if shutDown {
		return false
	}
	defer p.queue.Done(name)
	var err error
	if name.Namespace == "" {
		err = p.release(ctx, name.Name)
	} else {
		err = p.provision(ctx, name)
	}
	if err != nil {
		slog.Error("volume not handled", "name", name.String(), "error", err)
		p.queue.AddRateLimited(name)
		return true
	}
	p.queue.Forget(name)
	return true
}

// provision makes the volume of a claim that waits for one. Doing it again is harmless: the names follow from the
// claim's UID.
func (p *provisioner) provision(ctx context.Context, name item) error {
	claim, err := p.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	if !needsVolume(claim, p.config.Node) {
		return nil
	}
	folder := filepath.Join(p.config.Folder, volumeName(claim))
	// Owned by root and closed to others, like a fresh block device: what a pod may write to, its fsGroup decides.
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making the folder of the volume: %w", err)
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, renderVolume(claim, p.config.Node, folder), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the volume: %w", err)
	}
	return nil
}

// release deletes a volume, with its content, once its claim is gone.
func (p *provisioner) release(ctx context.Context, name string) error {
	volume, err := p.volumes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the volume: %w", err)
	}
	if !needsRemoval(volume) {
		return nil
	}
	// The folder follows from the name, not from the object: whoever may edit volumes must not choose what is deleted.
	if filepath.Base(name) != name {
		return fmt.Errorf("volume name %q is no folder name", name)
	}
	if err := os.RemoveAll(filepath.Join(p.config.Folder, name)); err != nil {
		return fmt.Errorf("deleting the folder of the volume: %w", err)
	}
	err = p.client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(volume.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the volume: %w", err)
	}
	return nil
}

func needsVolume(claim *corev1.PersistentVolumeClaim, node string) bool {
	return claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == StorageClass &&
		claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil && claim.Annotations[selectedNode] == node
}

func needsRemoval(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[provisionedBy] == Name && volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

func volumeName(claim *corev1.PersistentVolumeClaim) string {
	return "pvc-" + string(claim.UID)
}

func renderVolume(claim *corev1.PersistentVolumeClaim, node, folder string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim),
			Annotations: map[string]string{provisionedBy: Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			StorageClassName:              StorageClass,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
					}},
				}},
			}},
		},
	}
}
