package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
)

// List has the phases of a Workspace's runs that are known, the newest first. Those of a predecessor of its name are not its own.
func (r *Runs) List(ctx context.Context, name types.NamespacedName) ([]Run, error) {
	ws := &v1alpha1.Workspace{}
	if err := r.Cache.Get(ctx, name, ws); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading workspace %s: %w", name, err)
	}
	jobs := &batchv1.JobList{}
	if err := r.Cache.List(ctx, jobs, client.InNamespace(name.Namespace), client.MatchingLabels{v1alpha1.LabelWorkspaceUID: string(ws.UID)}); err != nil {
		return nil, fmt.Errorf("listing the jobs of workspace %s: %w", name, err)
	}
	var list []Run
	for i := range jobs.Items {
		if _, ok := execution.KeyOf(name.Namespace, jobs.Items[i].Labels); !ok {
			continue
		}
		run, err := r.describe(ctx, r.Cache, &jobs.Items[i])
		if err != nil {
			return nil, err
		}
		list = append(list, run)
	}
	slices.SortFunc(list, func(a, b Run) int {
		if c := b.CreatedAt.Compare(a.CreatedAt.Time); c != 0 {
			return c
		}
		// IDs hold the time of the run's start; "apply" comes before "plan".
		if c := strings.Compare(b.RunID, a.RunID); c != 0 {
			return c
		}
		return strings.Compare(a.Phase, b.Phase)
	})
	return list, nil
}
