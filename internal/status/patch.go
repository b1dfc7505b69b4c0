package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNotRead is returned for objects that did not come from the API server: without uid and resourceVersion a patch could land on, or create, another object.
var errNotRead = errors.New("the object has no uid or no resourceVersion")

// PatchStatus writes the difference between the status of before and after, and nothing else of after, as one merge patch.
// The patch carries the uid and resourceVersion of before: whoever wrote in between makes it fail with a conflict (apierrors.IsConflict), and then the caller decides again.
// (The status endpoint of custom resources compares the resourceVersion alone, which no version of another object ever has.)
// Without a difference there is no call. Afterwards after holds what the API server answered.
func PatchStatus(ctx context.Context, c client.Client, before, after client.Object) error {
	difference, err := statusDifference(before, after)
	if err != nil {
		return fmt.Errorf("comparing the status of %s: %w", client.ObjectKeyFromObject(before), err)
	}
	if difference == nil {
		return nil
	}
	patch, err := lockedPatch(before, nil, difference)
	if err != nil {
		return fmt.Errorf("rendering the status patch of %s: %w", client.ObjectKeyFromObject(before), err)
	}
	if err := c.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching the status of %s: %w", client.ObjectKeyFromObject(before), err)
	}
	return nil
}

// PatchAnnotations sets and removes annotations of obj in one merge patch that carries obj's uid and resourceVersion.
// Where obj already has all of set and none of remove there is no call. Afterwards obj holds what the API server answered.
func PatchAnnotations(ctx context.Context, c client.Client, obj client.Object, set map[string]string, remove []string) error {
	changes := annotationChanges(obj.GetAnnotations(), set, remove)
	if len(changes) == 0 {
		return nil
	}
	patch, err := lockedPatch(obj, map[string]any{"annotations": changes}, nil)
	if err != nil {
		return fmt.Errorf("rendering the annotation patch of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	if err := c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching the annotations of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// PatchFinalizers replaces the finalizers of obj in one merge patch that carries obj's uid and resourceVersion.
// A merge patch replaces the whole list, which is safe only because of the lock. Where nothing changes there is no call.
func PatchFinalizers(ctx context.Context, c client.Client, obj client.Object, finalizers []string) error {
	if slices.Equal(obj.GetFinalizers(), finalizers) {
		return nil
	}
	patch, err := lockedPatch(obj, map[string]any{"finalizers": finalizers}, nil)
	if err != nil {
		return fmt.Errorf("rendering the finalizer patch of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	if err := c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patching the finalizers of %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	return nil
}

// annotationChanges has the value of each annotation that must change, nil for one to remove.
func annotationChanges(present, set map[string]string, remove []string) map[string]any {
	changes := map[string]any{}
	for _, key := range remove {
		if _, found := present[key]; found {
			changes[key] = nil
		}
	}
	for key, value := range set {
		if old, found := present[key]; !found || old != value {
			changes[key] = value
			continue
		}
		delete(changes, key)
	}
	return changes
}

// statusDifference is the merge patch from the status of before to that of after, nil when they are equal.
func statusDifference(before, after client.Object) (json.RawMessage, error) {
	old, err := onlyStatus(before)
	if err != nil {
		return nil, err
	}
	wanted, err := onlyStatus(after)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(old, wanted)
	if err != nil {
		return nil, err
	}
	var part struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(patch, &part); err != nil {
		return nil, err
	}
	return part.Status, nil
}

// onlyStatus is obj as JSON without anything but its status; an absent status counts as an empty one.
func onlyStatus(obj client.Object) ([]byte, error) {
	whole, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var part struct {
		Status map[string]any `json:"status"`
	}
	if err := json.Unmarshal(whole, &part); err != nil {
		return nil, err
	}
	if part.Status == nil {
		part.Status = map[string]any{}
	}
	return json.Marshal(part)
}

// lockedPatch is a merge patch that only the version of obj that the caller holds accepts.
func lockedPatch(obj client.Object, metadata map[string]any, status json.RawMessage) ([]byte, error) {
	if obj.GetUID() == "" || obj.GetResourceVersion() == "" {
		return nil, errNotRead
	}
	locked := map[string]any{"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion()}
	for key, value := range metadata {
		locked[key] = value
	}
	patch := map[string]any{"metadata": locked}
	if status != nil {
		patch["status"] = status
	}
	return json.Marshal(patch)
}
