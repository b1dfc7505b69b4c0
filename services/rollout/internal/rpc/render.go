package rpc

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
)

func render(r *v1alpha1.Rollout) *pb.Rollout {
	message := &pb.Rollout{
		Ref:         &corepb.ObjectRef{Namespace: r.Namespace, Name: r.Name},
		Phase:       string(r.Status.Phase),
		Reason:      r.Status.Reason,
		Message:     r.Status.Message,
		CurrentStep: r.Status.CurrentStep,
		Pass:        renderPass(r.Status.Pass),
		OpensAt:     timestamp(r.Status.OpensAt),
	}
	for i := range r.Status.Steps {
		message.Steps = append(message.Steps, renderStep(&r.Status.Steps[i]))
	}
	for _, c := range r.Status.Conditions {
		message.Conditions = append(message.Conditions, &corepb.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	return message
}

func renderPass(p *v1alpha1.RolloutPass) *pb.Pass {
	if p == nil {
		return nil
	}
	message := &pb.Pass{Id: p.ID, StartedAt: timestamppb.New(p.StartedAt.Time), FinishedAt: timestamp(p.FinishedAt), Result: string(p.Result), Deadline: timestamp(p.Deadline)}
	for _, r := range p.Revisions {
		message.Revisions = append(message.Revisions, &pb.PinnedRevision{RepoUrl: r.RepoURL, TargetRevision: r.TargetRevision, Revision: r.Revision})
	}
	return message
}

func renderStep(s *v1alpha1.RolloutStepStatus) *pb.Step {
	message := &pb.Step{
		Name: s.Name, Phase: string(s.Phase), Total: s.Total, Applied: s.Applied, Failed: s.Failed,
		StartedAt: timestamp(s.StartedAt), FinishedAt: timestamp(s.FinishedAt), PassedOver: s.PassedOver,
		SoakUntil: timestamp(s.SoakUntil), Deadline: timestamp(s.Deadline),
	}
	if s.Approval != nil {
		message.Approval = &pb.StepApproval{By: s.Approval.By, At: timestamp(&s.Approval.At)}
	}
	return message
}

// progress is the state in one line, for people who follow it on a terminal.
func progress(r *pb.Rollout) string {
	line := orNothing(r.GetPhase())
	if i := int(r.GetCurrentStep()); r.GetPass() != nil && r.GetPass().GetFinishedAt() == nil && i < len(r.GetSteps()) {
		step := r.GetSteps()[i]
		line += fmt.Sprintf(", step %s (%d of %d): %d of %d done", step.GetName(), i+1, len(r.GetSteps()), step.GetApplied(), step.GetTotal())
		if step.GetFailed() > 0 {
			line += fmt.Sprintf(", %d failed", step.GetFailed())
		}
	}
	if r.GetMessage() != "" {
		line += "; " + r.GetMessage()
	}
	return line
}

func orNothing(phase string) string {
	if phase == "" {
		return "not looked at yet"
	}
	return phase
}

// timestamp is absent for what has not been.
func timestamp(t *metav1.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(t.Time)
}
