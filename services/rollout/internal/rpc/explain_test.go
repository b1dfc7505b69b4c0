package rpc

import (
	"testing"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster"
)

func TestExplain(t *testing.T) {
	failed := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "d"}}
	failed.Spec.ProjectRef.Name = "pay"
	failed.Status = v1alpha1.WorkspaceStatus{Phase: v1alpha1.PhaseFailed, Reason: v1alpha1.ReasonPlanFailed, Message: "no such resource"}
	foreign := failed.DeepCopy()
	foreign.Name, foreign.Spec.ProjectRef.Name = "a", "another"
	r := rollout("team", "pay", "")
	r.Status.Phase, r.Status.Reason = v1alpha1.RolloutFailed, v1alpha1.ReasonWorkspaceFailed
	r.Status.Pass.Steps = []v1alpha1.RolloutStep{{Name: "dev", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"no": "body"}}}, {Name: "prod"}}
	project := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pay"}}
	k := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t)).WithObjects(r, failed, foreign, project).Build()
	c := dial(t, New(Config{Cached: k, Informer: &informer{}}))
	answer, err := c.Explain(t.Context(), &pb.ExplainRequest{Rollout: &corepb.ObjectRef{Namespace: "team", Name: "pay"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "Rollout pay in step prod (2 of 2) is halted (WorkspaceFailed), because Workspace d failed to plan (PlanFailed): no such resource"
	if answer.GetSentence() != want || len(answer.GetChain()) != 2 || answer.GetWayOut() == "" {
		t.Fatalf("got %v\nwant %s", answer, want)
	}
	if fact := answer.GetChain()[1]; fact.GetKind() != "Workspace" || fact.GetName() != "d" || fact.GetPhase() != "Failed" || fact.GetReason() != "PlanFailed" || fact.GetSays() == "" {
		t.Errorf("the last fact is %v", fact)
	}
	if _, err := c.Explain(t.Context(), &pb.ExplainRequest{Rollout: &corepb.ObjectRef{Namespace: "team", Name: "x"}}); rpcerr.Code(err) != codes.NotFound {
		t.Errorf("got %v, want NOT_FOUND", err)
	}
}
