package controller

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/runspec"
)

func (w *world) claim() *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.admin.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: "vpc-data"}, claim))
	return claim
}

func (w *world) storage(storage v1alpha1.WorkspaceStorage) {
	ws := w.workspace()
	ws.Spec.Storage = &storage
	w.must(w.admin.Update(w.t.Context(), ws))
}

// bind plays the volume controllers: the claim is bound to a volume of the class.
func (w *world) bind() {
	claim := w.claim()
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	w.must(w.admin.Status().Update(w.t.Context(), claim))
}

func (w *world) class(suffix string, grows bool) string {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: suffix + "-" + w.namespace}, Provisioner: "example.com/none", AllowVolumeExpansion: ptr.To(grows),
	}
	w.must(w.admin.Create(w.t.Context(), class))
	w.t.Cleanup(func() { _ = w.admin.Delete(w.t.Context(), class) })
	return class.Name
}

func TestStorageIsHonouredOrRefusedWithTheReason(t *testing.T) {
	for name, grows := range map[string]bool{"a class that lets volumes grow": true, "a class that does not": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			class := w.class("class", grows)
			asked := v1alpha1.WorkspaceStorage{Size: "2Gi", StorageClassName: class, AccessMode: "ReadWriteOncePod"}
			w.storage(asked)
			run := w.runID("r1")
			w.kubelet(w.makePod(w.startPlan(run)), corev1.PodSucceeded, exited(0, planned(run, digest)))
			w.must(w.settle())
			claim := w.claim()
			size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
			if size.String() != "2Gi" || *claim.Spec.StorageClassName != class || claim.Spec.AccessModes[0] != corev1.ReadWriteOncePod {
				t.Errorf("the claim is %+v", claim.Spec)
			}
			w.bind()

			for what, change := range map[string]func(*v1alpha1.WorkspaceStorage){
				"cannot be made smaller":     func(s *v1alpha1.WorkspaceStorage) { s.Size = "1Gi" },
				"storageClassName \"other\"": func(s *v1alpha1.WorkspaceStorage) { s.StorageClassName = "other" },
				"accessMode ReadWriteMany":   func(s *v1alpha1.WorkspaceStorage) { s.AccessMode = "ReadWriteMany" },
			} {
				other := asked
				change(&other)
				w.storage(other)
				w.record(w.runID("r2"), v1alpha1.RunPlanning, "")
				_, err := w.start(w.runID("r2"), runspec.PhasePlan, "")
				w.refused(what, err, codes.FailedPrecondition, rpcerr.VolumeNotReady)
				if err != nil && !strings.Contains(err.Error(), what) {
					t.Errorf("%q does not say %q", err, what)
				}
			}

			larger := asked
			larger.Size = "3Gi"
			w.storage(larger)
			// What waits to be applied lies on the volume as it is.
			w.record(run, v1alpha1.RunApplying, digest)
			_, err := w.start(run, runspec.PhaseApply, digest)
			w.must(err)
			w.kubelet(w.makePod(w.job(run, runspec.PhaseApply)), corev1.PodSucceeded, exited(0, ""))
			w.must(w.settle())
			w.record(w.runID("r2"), v1alpha1.RunPlanning, "")
			_, err = w.start(w.runID("r2"), runspec.PhasePlan, "")
			size = w.claim().Spec.Resources.Requests[corev1.ResourceStorage]
			if grows {
				w.must(err)
				if size.String() != "3Gi" {
					t.Errorf("the claim has %s", size.String())
				}
				return
			}
			w.refused("a size that cannot be had", err, codes.FailedPrecondition, rpcerr.VolumeNotReady)
			if size.String() != "2Gi" {
				t.Errorf("the claim has %s", size.String())
			}
		})
	}
}

func TestASizeThatIsNoneIsRefusedAtAdmission(t *testing.T) {
	w := newWorld(t)
	for _, size := range []string{"much", "-1Gi", "0"} {
		ws := w.workspace()
		ws.Spec.Storage = &v1alpha1.WorkspaceStorage{Size: size}
		if err := w.admin.Update(t.Context(), ws); err == nil || !strings.Contains(err.Error(), "write one such as 5Gi") {
			t.Errorf("%q: %v", size, err)
		}
	}
}
