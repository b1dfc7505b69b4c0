package rpc

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// one is a reader of one Workspace.
type one struct {
	client.Reader
	w *v1alpha1.Workspace
}

func (o one) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	o.w.DeepCopyInto(object.(*v1alpha1.Workspace))
	return nil
}

// Who approves a plan that was given up because nobody could read it hears that, and not only that no plan waits.
func TestLaw3AnApprovalOfWhatNobodyCanReadIsRefused(t *testing.T) {
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "vpc"}}
	w.Status.Run = &v1alpha1.WorkspaceRun{ID: "u-1", Phase: v1alpha1.RunDiscarded, Reason: v1alpha1.ReasonPlanUnreadable, Unreadable: "its log is gone"}
	s := New(Config{Live: one{w: w}})
	approve := func(run string) error {
		_, err := s.ApproveRun(t.Context(), &pb.ApproveRunRequest{Workspace: &corepb.ObjectRef{Namespace: "team", Name: "vpc"}, RunId: run})
		return err
	}
	if err := approve("u-1"); rpcerr.Code(err) != codes.FailedPrecondition || rpcerr.Reason(err) != rpcerr.ReviewUnavailable || !strings.Contains(err.Error(), "its log is gone") {
		t.Errorf("its own ID: %v", err)
	}
	if err := approve("u-0"); rpcerr.Reason(err) != rpcerr.NotAwaitingApproval {
		t.Errorf("another run: %v", err)
	}
}
