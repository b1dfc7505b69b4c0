package rpc

import (
	"context"
	"errors"
	"maps"
	"testing"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"magosproject.io/api/v1alpha1"
	corepb "magosproject.io/gen/magos/core/v1alpha1"
	pb "magosproject.io/gen/magos/rollout/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster"
)

// commandable has a pass p1 that waits before its second step, and an aborted one in its history.
func commandable(change func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
	at := metav1.NewTime(began)
	r := rollout("team", "pay", "")
	r.UID = "u1"
	r.Status.Steps = []v1alpha1.RolloutStepStatus{
		{Name: "dev", Phase: v1alpha1.StepSucceeded, Approval: &v1alpha1.StepApproval{By: "ann", At: at}},
		{Name: "prod", Phase: v1alpha1.StepAwaitingApproval}, {Name: "dr", Phase: v1alpha1.StepPending},
	}
	r.Status.History = []v1alpha1.RolloutHistoryEntry{{ID: "p0", Result: v1alpha1.PassAborted}, {ID: "p00", Result: v1alpha1.PassSucceeded}}
	r.Status.Pass.Steps = []v1alpha1.RolloutStep{{Name: "dev"}, {Name: "prod", Approval: &v1alpha1.ApprovalRequirement{Required: true}}, {Name: "dr"}}
	if change != nil {
		change(r)
	}
	return r
}

func ended(result v1alpha1.PassResult) func(*v1alpha1.Rollout) {
	return func(r *v1alpha1.Rollout) {
		at := metav1.NewTime(began)
		r.Status.Pass.FinishedAt, r.Status.Pass.Result = &at, result
	}
}

func inPhase(phase v1alpha1.StepPhase) func(*v1alpha1.Rollout) {
	return func(r *v1alpha1.Rollout) { r.Status.Steps[1].Phase = phase }
}

func annotated(key, value string) func(*v1alpha1.Rollout) {
	return func(r *v1alpha1.Rollout) { r.Annotations = map[string]string{key: value} }
}

var ref = &corepb.ObjectRef{Namespace: "team", Name: "pay"}

type call func(context.Context, pb.RolloutServiceClient) error

func pause(ctx context.Context, c pb.RolloutServiceClient) error {
	_, err := c.Pause(ctx, &pb.PauseRequest{Rollout: ref})
	return err
}

func resume(ctx context.Context, c pb.RolloutServiceClient) error {
	_, err := c.Resume(ctx, &pb.ResumeRequest{Rollout: ref})
	return err
}

func approve(pass, step string) call {
	return func(ctx context.Context, c pb.RolloutServiceClient) error {
		_, err := c.ApproveStep(ctx, &pb.ApproveStepRequest{Rollout: ref, PassId: pass, Step: step})
		return err
	}
}

func retry(pass, step string) call {
	return func(ctx context.Context, c pb.RolloutServiceClient) error {
		_, err := c.RetryStep(ctx, &pb.RetryStepRequest{Rollout: ref, PassId: pass, Step: step})
		return err
	}
}

func abort(pass string) call {
	return func(ctx context.Context, c pb.RolloutServiceClient) error {
		_, err := c.Abort(ctx, &pb.AbortRequest{Rollout: ref, PassId: pass})
		return err
	}
}

// TestACommandBecomesAnAnnotationForWhatTheCallerHasSeen has one entry per command and state. Without a reason the command is
// taken; want are then the annotations, else what the refusal names.
func TestACommandBecomesAnAnnotationForWhatTheCallerHasSeen(t *testing.T) {
	const hold, step, again, stop, by = v1alpha1.AnnotationHold, v1alpha1.AnnotationApprovedStep, v1alpha1.AnnotationRetryStep, v1alpha1.AnnotationAbort, v1alpha1.AnnotationApprovedBy
	present := map[string]string{"pass_id": "p1", "step": "prod"}
	type m = map[string]string
	for name, c := range map[string]struct {
		state  func(*v1alpha1.Rollout)
		call   call
		reason string
		want   map[string]string
	}{
		"pause":                         {nil, pause, "", m{hold: "true"}},
		"pause what is paused":          {annotated(hold, "true"), pause, "", m{hold: "true"}},
		"resume":                        {annotated(hold, "true"), resume, "", nil},
		"resume what moves":             {nil, resume, "", nil},
		"resume what the spec pauses":   {func(r *v1alpha1.Rollout) { r.Spec.Paused = true }, resume, rpcerr.PausedInSpec, nil},
		"approve":                       {nil, approve("p1", "prod"), "", m{step: "p1/prod", by: ""}},
		"approve again":                 {annotated(step, "p1/prod"), approve("p1", "prod"), "", m{step: "p1/prod"}},
		"approve what was approved":     {nil, approve("p1", "dev"), "", nil},
		"approve another pass":          {nil, approve("p0", "prod"), rpcerr.OtherPass, present},
		"approve a later step":          {nil, approve("p1", "dr"), rpcerr.OtherStep, present},
		"approve while it is paused":    {inPhase(v1alpha1.StepProgressing), approve("p1", "prod"), "", m{step: "p1/prod", by: ""}},
		"approve what requires nothing": {func(r *v1alpha1.Rollout) { r.Status.CurrentStep = 2 }, approve("p1", "dr"), rpcerr.NotAwaitingApproval, nil},
		"approve in a pass that ended":  {ended(v1alpha1.PassAborted), approve("p1", "prod"), rpcerr.PassOver, m{"result": "Aborted"}},
		"approve without a pass":        {func(r *v1alpha1.Rollout) { r.Status = v1alpha1.RolloutStatus{} }, approve("p1", "prod"), rpcerr.OtherPass, nil},
		"approve nothing":               {nil, approve("p1", ""), rpcerr.InvalidField, nil},
		"approve no pass":               {nil, approve("", "prod"), rpcerr.InvalidField, nil},
		"retry":                         {inPhase(v1alpha1.StepFailed), retry("p1", "prod"), "", m{again: "p1/prod"}},
		"retry another pass":            {nil, retry("p0", "prod"), rpcerr.OtherPass, present},
		"retry another step":            {nil, retry("p1", "dev"), rpcerr.OtherStep, present},
		"retry an aborted pass":         {ended(v1alpha1.PassAborted), retry("p1", "dev"), "", m{again: "p1/dev"}},
		"retry an incomplete pass":      {ended(v1alpha1.PassIncomplete), retry("p1", "dr"), "", m{again: "p1/dr"}},
		"retry a step that never was":   {ended(v1alpha1.PassAborted), retry("p1", "qa"), rpcerr.OtherStep, present},
		"retry a pass that succeeded":   {ended(v1alpha1.PassSucceeded), retry("p1", "prod"), rpcerr.PassOver, m{"result": "Succeeded"}},
		"abort":                         {nil, abort("p1"), "", m{stop: "p1"}},
		"abort again":                   {ended(v1alpha1.PassAborted), abort("p1"), "", nil},
		"abort what was aborted before": {nil, abort("p0"), "", nil},
		"abort a pass of the past":      {nil, abort("p00"), rpcerr.OtherPass, present},
		"abort a pass that succeeded":   {ended(v1alpha1.PassSucceeded), abort("p1"), rpcerr.PassOver, present},
		"abort nothing":                 {nil, abort(""), rpcerr.InvalidField, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t)).WithObjects(commandable(c.state)).Build()
			err := c.call(t.Context(), dial(t, New(Config{Cached: k, Live: k, Client: k, Informer: &informer{}})))
			after := &v1alpha1.Rollout{}
			if err := k.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "pay"}, after); err != nil {
				t.Fatal(err)
			}
			if rpcerr.Reason(err) != c.reason || (err == nil) != (c.reason == "") {
				t.Fatalf("got %v, want the reason %q", err, c.reason)
			}
			if c.reason == "" {
				if !maps.Equal(after.Annotations, c.want) {
					t.Errorf("annotations %v, want %v", after.Annotations, c.want)
				}
				return
			}
			if before := commandable(c.state).Annotations; !maps.Equal(after.Annotations, before) {
				t.Errorf("refused, and annotations became %v", after.Annotations)
			}
			var refusal *rpcerr.Error
			if !errors.As(err, &refusal) {
				t.Fatalf("got %T", err)
			}
			for key, value := range c.want {
				if got := refusal.Metadata()[key]; got != value {
					t.Errorf("the refusal names %s %q, want %q", key, got, value)
				}
			}
		})
	}
}

func TestACommandAboutWhatIsNotThere(t *testing.T) {
	k := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t)).Build()
	c := dial(t, New(Config{Cached: k, Live: k, Client: k, Informer: &informer{}}))
	for name, call := range map[string]call{"Pause": pause, "Resume": resume, "ApproveStep": approve("p", "s"), "RetryStep": retry("p", "s"), "Abort": abort("p")} {
		if err := call(t.Context(), c); rpcerr.Code(err) != codes.NotFound || rpcerr.Reason(err) != rpcerr.RolloutNotFound {
			t.Errorf("%s: %v, want NOT_FOUND", name, err)
		}
	}
}

// A command that was judged on an older version of the Rollout is refused, not applied to the newer one.
func TestACommandIsForTheVersionItWasJudgedOn(t *testing.T) {
	patched := 0
	k := fake.NewClientBuilder().WithScheme(testcluster.Scheme(t)).WithObjects(commandable(nil)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			patched++
			now := &v1alpha1.Rollout{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
				return err
			}
			now.Labels = map[string]string{"changed": "meanwhile"}
			if err := c.Update(ctx, now); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	c := dial(t, New(Config{Cached: k, Live: k, Client: k, Informer: &informer{}}))
	for name, call := range map[string]call{"Pause": pause, "ApproveStep": approve("p1", "prod"), "RetryStep": retry("p1", "prod"), "Abort": abort("p1")} {
		if err := call(t.Context(), c); rpcerr.Code(err) != codes.Aborted || rpcerr.Reason(err) != rpcerr.Conflict {
			t.Errorf("%s: %v, want ABORTED", name, err)
		}
	}
	if patched != 4 {
		t.Errorf("%d patches, want 4", patched)
	}
}
