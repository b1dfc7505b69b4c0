package main

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

// may gives an account of the namespace verbs on a resource of ours, and returns a client that calls as that account.
func (i *installation) may(address, account, resource string, verbs ...string) pb.RolloutServiceClient {
	i.t.Helper()
	i.grant(account, []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{resource}, Verbs: verbs}})
	return i.dial(address, account)
}

func (i *installation) wantRollout(what string, wanted func(*v1alpha1.Rollout) bool) *v1alpha1.Rollout {
	i.t.Helper()
	r := &v1alpha1.Rollout{}
	eventually(i.t, what, func() (any, bool) {
		err := i.admin.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: "pay"}, r)
		return fmt.Sprint(err, r.Status, r.Annotations), err == nil && wanted(r)
	})
	return r
}

// People steer a Rollout over gRPC, each with the right for it and in their own name, and the service obeys.
func TestPeopleSteerARollout(t *testing.T) {
	i := install(t)
	address := i.start()
	i.loadCertificates()
	i.serveRefWatcher()
	i.createObjects(func(r *v1alpha1.Rollout) {
		r.Spec.Paused, r.Spec.Strategy.Steps[1].Approval = true, &v1alpha1.ApprovalRequirement{Required: true}
	})
	ref := &corepb.ObjectRef{Namespace: i.namespace, Name: "pay"}
	steerer := i.may(address, "steerer", "rollouts", "steer")
	approver := i.may(address, "approver", "rollouts", "approve", "watch")
	// Rights are believed some seconds late; who has none is refused the whole time.
	eventually(t, "the right to steer", func() (any, bool) {
		_, err := steerer.Pause(t.Context(), &pb.PauseRequest{Rollout: ref})
		return err, err == nil
	})
	if _, err := approver.Pause(t.Context(), &pb.PauseRequest{Rollout: ref}); rpcerr.Code(err) != codes.PermissionDenied {
		t.Errorf("who may approve only pauses: %v", err)
	}
	i.wantRollout("the hold", func(r *v1alpha1.Rollout) bool {
		return r.Annotations[v1alpha1.AnnotationHold] == "true" && r.Status.Phase == v1alpha1.RolloutPaused
	})
	if _, err := steerer.Resume(t.Context(), &pb.ResumeRequest{Rollout: ref}); rpcerr.Reason(err) != rpcerr.PausedInSpec {
		t.Errorf("Resume against the spec: %v", err)
	}
	eventually(t, "the edit of the spec", func() (any, bool) {
		r := i.wantRollout("the Rollout", func(*v1alpha1.Rollout) bool { return true })
		r.Spec.Paused = false
		err := i.admin.Update(t.Context(), r)
		return err, err == nil
	})
	again(t, "Resume", func() error {
		_, err := steerer.Resume(t.Context(), &pb.ResumeRequest{Rollout: ref})
		return err
	})
	pass := i.wantGranted("dev")
	i.apply("dev", pass)
	i.wantRollout("that prod waits for a person", func(r *v1alpha1.Rollout) bool { return r.Status.Phase == v1alpha1.RolloutAwaitingApproval })

	approve := func(as pb.RolloutServiceClient, pass, step string) error {
		_, err := as.ApproveStep(t.Context(), &pb.ApproveStepRequest{Rollout: ref, PassId: pass, Step: step})
		return err
	}
	if err := approve(steerer, pass, "prod"); rpcerr.Code(err) != codes.PermissionDenied {
		t.Errorf("who may steer only approves: %v", err)
	}
	eventually(t, "the right to approve", func() (any, bool) {
		err := approve(approver, pass, "dev")
		return err, rpcerr.Reason(err) == rpcerr.OtherStep
	})
	again(t, "ApproveStep", func() error { return approve(approver, pass, "prod") })
	r := i.wantRollout("the approval", func(r *v1alpha1.Rollout) bool { return r.Status.Steps[1].Approval != nil })
	if by, want := r.Status.Steps[1].Approval.By, "system:serviceaccount:"+i.namespace+":approver"; by != want {
		t.Errorf("approved by %q, want %q", by, want)
	}
	if err := approve(approver, pass, "prod"); err != nil {
		t.Errorf("the same approval again: %v", err)
	}
	i.wantGranted("prod")
	stream, err := approver.WatchRollout(t.Context(), &pb.WatchRolloutRequest{Rollout: ref})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again(t, "Abort", func() error {
			_, err := steerer.Abort(t.Context(), &pb.AbortRequest{Rollout: ref, PassId: pass})
			return err
		})
		i.wantRollout("the end of the pass", func(r *v1alpha1.Rollout) bool { return r.Status.Phase == v1alpha1.RolloutAborted })
	}
	for aborted := false; !aborted; {
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		aborted = answer.GetRollout().GetPhase() == string(v1alpha1.RolloutAborted)
	}
	if err := approve(approver, pass, "prod"); err != nil && rpcerr.Reason(err) != rpcerr.PassOver {
		t.Errorf("an approval after the end: %v", err)
	}
	again(t, "RetryStep", func() error {
		_, err := steerer.RetryStep(t.Context(), &pb.RetryStepRequest{Rollout: ref, PassId: pass, Step: "prod"})
		return err
	})
	i.wantRollout("a new pass", func(r *v1alpha1.Rollout) bool { return r.Status.Pass.ID != pass })
	_, err = steerer.Abort(t.Context(), &pb.AbortRequest{Rollout: ref, PassId: "long ago"})
	if rpcerr.Reason(err) != rpcerr.OtherPass {
		t.Errorf("an abort of another pass: %v", err)
	}
}

// again repeats a command that was refused because the object changed meanwhile, as its caller is told to.
func again(t *testing.T, what string, command func() error) {
	t.Helper()
	eventually(t, what, func() (any, bool) {
		err := command()
		if err != nil && rpcerr.Reason(err) != rpcerr.Conflict {
			t.Fatalf("%s: %v", what, err)
		}
		return err, err == nil
	})
}
