package main

import (
	"fmt"

	"google.golang.org/grpc/codes"

	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// cancelAWaitingPlan asks for a plan of the Workspace gated, which needs an approval, and cancels it instead.
func (f *fixture) cancelAWaitingPlan(person pb.WorkspaceServiceClient) {
	f.Helper()
	ref := &corepb.ObjectRef{Namespace: f.namespace, Name: "gated"}
	_, err := person.RequestReconcile(f.Context(), &pb.RequestReconcileRequest{Workspace: ref, RequestId: "to-be-cancelled"})
	f.must(err)
	var id string
	f.eventually("waiting again", func() error {
		response, err := person.GetWorkspace(f.Context(), &pb.GetWorkspaceRequest{Workspace: ref})
		if id = response.GetWorkspace().GetAwaitingApprovalRunId(); err == nil && id == "" {
			err = fmt.Errorf("%v", response)
		}
		return err
	})
	_, err = person.CancelRun(f.Context(), &pb.CancelRunRequest{Workspace: ref})
	f.expect(err, codes.InvalidArgument, rpcerr.InvalidField)
	_, err = person.CancelRun(f.Context(), &pb.CancelRunRequest{Workspace: ref, RunId: "older"})
	f.expect(err, codes.FailedPrecondition, rpcerr.RunNotLive)
	_, err = person.CancelRun(f.Context(), &pb.CancelRunRequest{Workspace: &corepb.ObjectRef{Namespace: f.namespace, Name: "gone"}, RunId: id})
	f.expect(err, codes.NotFound, rpcerr.WorkspaceNotFound)
	f.eventually("the cancel to be taken", func() error {
		// The Workspace may change meanwhile (CONFLICT): call again.
		_, err := person.CancelRun(f.Context(), &pb.CancelRunRequest{Workspace: ref, RunId: id})
		return err
	})
	f.eventually("cancelled", func() error {
		response, err := person.GetWorkspace(f.Context(), &pb.GetWorkspaceRequest{Workspace: ref})
		if w := response.GetWorkspace(); err == nil && (w.GetReason() != "Cancelled" || w.GetRun().GetPhase() != "Discarded" || w.GetAwaitingApprovalRunId() != "") {
			err = fmt.Errorf("%v", response)
		}
		return err
	})
}
