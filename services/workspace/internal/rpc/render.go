package rpc

import (
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
)

// render shows a Workspace. The object is not changed and not kept.
func render(w *v1alpha1.Workspace) *pb.Workspace {
	st := &w.Status
	message := &pb.Workspace{
		Ref:              &corepb.WorkspaceRef{Namespace: w.Namespace, Name: w.Name, Uid: string(w.UID)},
		Project:          w.Spec.ProjectRef.Name,
		Phase:            string(st.Phase),
		Reason:           st.Reason,
		Message:          st.Message,
		ObservedRevision: st.ObservedRevision,
		DetectedRevision: v1alpha1.DetectedRevision(w),
		Run:              renderRun(st.Run),
		NextReconcileAt:  timestamp(st.NextReconcileTime),
	}
	if want := st.Wants; want != nil {
		message.Wants = &pb.Want{Trigger: string(want.Trigger), Revision: want.Revision, Since: timestamp(&want.Since)}
	}
	for _, c := range st.Conditions {
		message.Conditions = append(message.Conditions, &corepb.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if st.AwaitingApproval != nil {
		message.AwaitingApprovalRunId = st.AwaitingApproval.RunID
	}
	return message
}

func renderRun(run *v1alpha1.WorkspaceRun) *pb.Run {
	if run == nil {
		return nil
	}
	message := &pb.Run{
		Id: run.ID, Trigger: string(run.Trigger), Pass: run.Pass, Revision: run.Revision, Phase: string(run.Phase),
		StartedAt: timestamp(&run.StartedAt), FinishedAt: timestamp(run.FinishedAt), PlanDigest: run.PlanDigest,
		Warnings: run.Warnings,
	}
	if c := run.Changes; c != nil {
		message.Changes = &corepb.Changes{
			Add: c.Add, Change: c.Change, Destroy: c.Destroy, Replace: c.Replace,
			Import: c.Import, Forget: c.Forget, Move: c.Move, Outputs: c.Outputs,
		}
	}
	return message
}

// timestamp is absent for what has not been.
func timestamp(t *metav1.Time) *timestamppb.Timestamp {
	if t == nil || t.IsZero() {
		return nil
	}
	return timestamppb.New(t.Time)
}
