package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/up"
)

// stages tell KWOK how its node and pods live: the node is ready, and pods have ended as soon as they are there. The pod of a plan says that there is one resource to
// add, in the words that keeper would use.
//
//go:embed stages.yaml
var stages []byte

const (
	fakeNode = "kwok"
	// benchTaint keeps new pods off the real node, where the services run on.
	benchTaint = "bench"
)

// startKwok makes a node whose pods KWOK plays, and sends every new pod there. The returned function ends KWOK.
func startKwok(ctx context.Context, installation *up.Installation, c client.WithWatch) (stop func(), err error) {
	built, err := parts.Build(ctx, os.Stderr, parts.Kwok)
	if err != nil {
		return nil, err
	}
	folder := installation.Cluster().StateDir()
	config := filepath.Join(folder, "kwok.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return nil, fmt.Errorf("writing KWOK's stages: %w", err)
	}
	log, err := os.Create(filepath.Join(folder, "logs", "kwok.log"))
	if err != nil {
		return nil, fmt.Errorf("opening KWOK's log: %w", err)
	}
	command := exec.Command(built[parts.Kwok], "--kubeconfig", installation.Kubeconfig(), "--config", config,
		"--manage-all-nodes=false", "--manage-nodes-with-label-selector=type=kwok", "--node-lease-duration-seconds=40", "--cidr=10.219.0.0/16")
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting KWOK: %w", err), log.Close())
	}
	stop = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
	}
	if err := moveToFakeNode(ctx, installation, c); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func moveToFakeNode(ctx context.Context, installation *up.Installation, c client.WithWatch) error {
	real := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: installation.Cluster().NodeName()}, real); err != nil {
		return fmt.Errorf("looking for the node: %w", err)
	}
	fake := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fakeNode, Labels: map[string]string{
		"type": "kwok", corev1.LabelHostname: fakeNode, corev1.LabelArchStable: real.Labels[corev1.LabelArchStable], corev1.LabelOSStable: "linux",
	}}}
	many := corev1.ResourceList{"cpu": resource.MustParse("100k"), "memory": resource.MustParse("100Ti"), "pods": resource.MustParse("1M")}
	fake.Status = corev1.NodeStatus{Capacity: many, Allocatable: many}
	if err := c.Create(ctx, fake); err != nil {
		return fmt.Errorf("creating KWOK's node: %w", err)
	}
	before := real.DeepCopy()
	real.Spec.Taints = append(real.Spec.Taints, corev1.Taint{Key: benchTaint, Effect: corev1.TaintEffectNoSchedule})
	if err := c.Patch(ctx, real, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("keeping pods off the real node: %w", err)
	}
	return await(ctx, 3*time.Minute, "KWOK's node to be ready", func() (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(fake), fake); err != nil {
			return false, err
		}
		for _, condition := range fake.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// provisionVolumes gives each claim a volume that exists on paper only, at any node, until ctx ends: the cluster's own provisioner
// would tie them to the real node.
func provisionVolumes(ctx context.Context, c client.WithWatch) error {
	classes := &storagev1.StorageClassList{}
	if err := c.List(ctx, classes); err != nil {
		return fmt.Errorf("listing storage classes: %w", err)
	}
	const isDefault = "storageclass.kubernetes.io/is-default-class"
	for i := range classes.Items {
		class := &classes.Items[i]
		before := class.DeepCopy()
		delete(class.Annotations, isDefault)
		if err := c.Patch(ctx, class, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("changing storage class %s: %w", class.Name, err)
		}
	}
	binding, reclaim := storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "bench", Annotations: map[string]string{isDefault: "true"}},
		Provisioner: "magosproject.io/bench", VolumeBindingMode: &binding, ReclaimPolicy: &reclaim,
	}
	if err := c.Create(ctx, class); err != nil {
		return fmt.Errorf("creating a storage class: %w", err)
	}
	claims, err := c.Watch(ctx, &corev1.PersistentVolumeClaimList{})
	if err != nil {
		return fmt.Errorf("watching claims: %w", err)
	}
	go func() {
		defer claims.Stop()
		for event := range claims.ResultChan() {
			claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
			if !ok || event.Type != watch.Added || claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != class.Name {
				continue
			}
			if err := c.Create(ctx, volumeFor(claim)); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "creating a volume:", err)
			}
		}
	}()
	return nil
}

func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent"}},
		},
	}
}

// await asks every tenth of a second until it is so.
func await(ctx context.Context, limit time.Duration, what string, is func() (bool, error)) error {
	for end := time.Now().Add(limit); ; {
		ok, err := is()
		if ok && err == nil {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("waiting for %s: not within %s", what, limit), err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}
