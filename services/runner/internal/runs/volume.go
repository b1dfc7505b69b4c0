package runs

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// ensureVolume makes the Workspace's volume, or finds it as the Workspace asks for it. An apply takes it as it is: what was sealed lies there.
func (r *Runs) ensureVolume(ctx context.Context, ws *v1alpha1.Workspace, phase string) error {
	claim := &corev1.PersistentVolumeClaim{}
	name := types.NamespacedName{Namespace: ws.Namespace, Name: execution.VolumeName(ws.Name)}
	err := r.Cache.Get(ctx, name, claim)
	if err == nil {
		if fits(claim, ws, phase) {
			// Were it gone by now, the pod would not start and the run begin anew.
			return nil
		}
		err = r.API.Get(ctx, name, claim)
	}
	if apierrors.IsNotFound(err) {
		claim = execution.RenderVolume(ws, r.Settings)
		err = r.Writer.Create(ctx, claim)
	}
	if apierrors.IsAlreadyExists(err) {
		err = r.API.Get(ctx, name, claim)
	}
	if err != nil {
		return fmt.Errorf("ensuring persistentvolumeclaim %s: %w", name, err)
	}
	if problem := execution.VolumeProblem(claim, string(ws.UID)); problem != "" {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.VolumeNotReady, "persistentvolumeclaim %s %s", name, problem)
	}
	if phase == runspec.PhasePlan {
		return r.changeVolume(ctx, ws, claim)
	}
	return nil
}

// fits reports whether nothing has to be done about a claim.
func fits(claim *corev1.PersistentVolumeClaim, ws *v1alpha1.Workspace, phase string) bool {
	if execution.VolumeProblem(claim, string(ws.UID)) != "" {
		return false
	}
	grow, refusal := execution.VolumeChange(claim, ws.Spec.Storage)
	return phase == runspec.PhaseApply || grow == nil && refusal == ""
}

// changeVolume makes a volume grow. What is asked for and cannot be had is refused, and not passed over.
func (r *Runs) changeVolume(ctx context.Context, ws *v1alpha1.Workspace, claim *corev1.PersistentVolumeClaim) error {
	grow, refusal := execution.VolumeChange(claim, ws.Spec.Storage)
	if grow != nil {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion},
			"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": grow.String()}}},
		})
		if err != nil {
			return fmt.Errorf("rendering the patch of persistentvolumeclaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		err = r.Writer.Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch))
		switch {
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			refusal = "size " + ws.Spec.Storage.Size + ": " + err.Error()
		case err != nil:
			return fmt.Errorf("making persistentvolumeclaim %s/%s grow: %w", claim.Namespace, claim.Name, err)
		}
	}
	if refusal != "" {
		return rpcerr.New(codes.FailedPrecondition, rpcerr.VolumeNotReady,
			"spec.storage asks for what persistentvolumeclaim %s/%s cannot be, so that nothing is planned until spec.storage is changed back: %s", claim.Namespace, claim.Name, refusal)
	}
	return nil
}
