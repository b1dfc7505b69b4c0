package runs

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
)

// Inputs is the request of a plan, as its ConfigMap keeps it. Errors are of package rpcerr.
func (r *Runs) Inputs(ctx context.Context, key execution.Key) (execution.Request, error) {
	if err := invalid(execution.CheckKey(key)); err != nil {
		return execution.Request{}, err
	}
	list := &corev1.ConfigMapList{}
	if err := r.API.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels(key.Labels())); err != nil {
		return execution.Request{}, fmt.Errorf("listing the configmaps of run %s: %w", key.RunID, err)
	}
	for i := range list.Items {
		request, ok, err := execution.KeptRequest(&list.Items[i], key)
		if err != nil {
			return execution.Request{}, err
		}
		if ok {
			return request, nil
		}
	}
	return execution.Request{}, rpcerr.New(codes.NotFound, rpcerr.RunNotFound, "the inputs of run %s of workspace %s/%s are kept no more", key.RunID, key.Namespace, key.Workspace).
		With("run_id", key.RunID)
}
