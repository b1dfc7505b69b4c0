package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/status"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// trouble is an RPC that a pass could not do without and that gave no answer to act on. Its message goes to status and stays
// the same while the trouble does; the error goes to the log.
type trouble struct {
	reason  v1alpha1.Reason
	message string
	err     error
	// on is the object to record it on where that is not the one that the pass began with.
	on *v1alpha1.Workspace
}

func (t *trouble) Error() string { return t.message + ": " + t.err.Error() }

func (t *trouble) Unwrap() error { return t.err }

// isDown reports whether the peer cannot be asked at all. That is told of in status and tried again soon; anything else is
// also an error of the pass, which is logged and tried again with growing pauses.
func (t *trouble) isDown() bool { return rpcerr.Silent(t.err) }

// runnerTrouble makes a trouble of an error that the RPC does not promise.
func runnerTrouble(method string, err error) error {
	t := &trouble{reason: v1alpha1.ReasonRunnerRefused, message: rpcerr.Advice(method, err), err: err}
	if t.isDown() {
		t.reason = v1alpha1.ReasonRunnerUnavailable
	}
	return t
}

// recordTrouble says what keeps the pass from going on. The run stays as it is recorded: nobody knows better. The next pass
// that gets its answers clears it.
func (r *Reconciler) recordTrouble(ctx context.Context, w *v1alpha1.Workspace, t *trouble) (ctrl.Result, error) {
	after := w.DeepCopy()
	after.Status = lifecycle.Unavailable(w, r.Clock.Now(), t.reason, t.message)
	next := *after.Status.DeepCopy()
	err := status.PatchStatus(ctx, r.Client, w, after)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case err != nil:
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.written.Note(client.ObjectKeyFromObject(after), after)
	r.announce(w, &next, lifecycle.Decision{Action: lifecycle.ActNone})
	if !t.isDown() {
		return ctrl.Result{}, t
	}
	return ctrl.Result{RequeueAfter: peerPause}, nil
}
