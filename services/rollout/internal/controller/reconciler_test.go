package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

func (h *harness) threeEnvironments() {
	h.t.Helper()
	h.create(newProject(v1alpha1.OrchestrationAuto), newRollout("dev", "staging", "prod"),
		newWorkspace("d", "dev"), newWorkspace("s", "staging"), newWorkspace("p", "prod"))
	h.sim.detect(commitA)
	h.sim.tick() // the Workspaces say what they want
}

func TestCommitsWalkThroughTheSteps(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.settle()
	if got := h.sim.began(); got != "d Spec a, s Spec a, p Spec a" {
		t.Fatalf("runs began as %q", got)
	}
	h.wantStatus(v1alpha1.RolloutSucceeded, v1alpha1.ReasonPassSucceeded, 2)
	for _, name := range []string{"d", "s", "p"} {
		if held := heldGrant(h.workspace(name)); len(held) > 0 {
			t.Errorf("%s still holds %v after the pass", name, held)
		}
	}
	h.push(commitB)
	h.settle()
	if got := h.sim.began(); got != "d Revision b, s Revision b, p Revision b" {
		t.Fatalf("runs of the second pass began as %q", got)
	}
	if n := len(h.rollout().Status.History); n != 2 {
		t.Errorf("history has %d passes, want 2", n)
	}
	if r := h.project().Status; r.Reason != v1alpha1.ReasonManagedByRollout || r.Workspaces.ByPhase[v1alpha1.PhaseApplied] != 3 {
		t.Errorf("status of the Project is %+v", r)
	}
}

// The commit that a pass began with reaches prod, though main has moved on meanwhile.
func TestProdReceivesWhatDevProved(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	for h.workspace("d").Status.Applied == nil {
		h.mustReconcile()
		h.sim.tick()
	}
	h.push(commitB)
	h.settle()
	want := "d Spec a, s Spec a, p Spec a, d Revision b, s Revision b, p Revision b"
	if got := h.sim.began(); got != want {
		t.Errorf("runs began as %q, want %q", got, want)
	}
}

func TestFailedStepKeepsProdAndResumesWithANewCommit(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.settle()
	h.sim.began()
	h.sim.failing("s", commitB)
	h.push(commitB)
	for range 30 {
		h.clock.Step(time.Second)
		h.mustReconcile()
		h.sim.tick()
	}
	h.wantStatus(v1alpha1.RolloutFailed, v1alpha1.ReasonWorkspaceFailed, 1)
	if got := h.sim.began(); strings.Contains(got, "p ") || !strings.HasPrefix(got, "d Revision b, s Revision b, s Retry b") {
		t.Errorf("runs began as %q, want dev once, staging again and again, prod never", got)
	}
	if p := h.workspace("p"); p.Status.ObservedRevision != commitA || len(heldGrant(p)) > 0 {
		t.Errorf("prod is at %s with %v, want it at its old commit without a grant", p.Status.ObservedRevision, heldGrant(p))
	}
	const commitC = "cccccccccccccccccccccccccccccccccccccccc"
	h.push(commitC)
	h.settle()
	h.wantStatus(v1alpha1.RolloutSucceeded, v1alpha1.ReasonPassSucceeded, 2)
	history := h.rollout().Status.History
	if len(history) != 3 || history[1].Result != v1alpha1.PassSuperseded {
		t.Errorf("history is %+v, want the stuck pass as Superseded", history)
	}
	if got := h.workspace("p").Status.ObservedRevision; got != commitC {
		t.Errorf("prod is at %s", got)
	}
}

func TestHealedWorkspaceLetsThePassGoOn(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.sim.failing("d", commitA)
	for range 10 {
		h.mustReconcile()
		h.sim.tick()
	}
	h.wantStatus(v1alpha1.RolloutFailed, v1alpha1.ReasonWorkspaceFailed, 0)
	pass := h.rollout().Status.Pass.ID
	h.sim.failing("d", "")
	h.settle()
	h.wantStatus(v1alpha1.RolloutSucceeded, v1alpha1.ReasonPassSucceeded, 2)
	if got := h.rollout().Status.Pass.ID; got != pass {
		t.Errorf("pass %s followed %s, want the same pass to end", got, pass)
	}
}

func TestHandshake(t *testing.T) {
	h := newHarness(t)
	h.create(newProject(v1alpha1.OrchestrationAuto), newWorkspace("d", "dev"), newWorkspace("p", "prod"))
	h.sim.detect(commitA)
	h.mustReconcile()
	for _, name := range []string{"d", "p"} {
		if g, ok := v1alpha1.ReadGrant(h.workspace(name), false); !ok || g.Pass != v1alpha1.StandingPass {
			t.Fatalf("without a Rollout %s holds %+v", name, g)
		}
	}
	if got := h.project().Status.Reason; got != v1alpha1.ReasonDefaultParallel {
		t.Errorf("reason is %s", got)
	}
	h.create(newRollout("dev", "prod"))
	h.sim.tick()
	h.mustReconcile()
	if g, ok := v1alpha1.ReadGrant(h.workspace("d"), true); !ok || g.Revision != commitA {
		t.Errorf("dev holds %+v under the Rollout", g)
	}
	if held := heldGrant(h.workspace("p")); len(held) > 0 {
		t.Errorf("prod holds %v in dev's step", held)
	}
	if got := h.project().Status.Reason; got != v1alpha1.ReasonManagedByRollout {
		t.Errorf("reason is %s", got)
	}
	// In mid-pass the Rollout goes: the Project grants, and no commit stays pinned.
	if err := h.admin.Delete(t.Context(), h.rollout()); err != nil {
		t.Fatal(err)
	}
	h.mustReconcile()
	for _, name := range []string{"d", "p"} {
		if g, ok := v1alpha1.ReadGrant(h.workspace(name), false); !ok || g.Pass != v1alpha1.StandingPass || g.Revision != "" {
			t.Errorf("after the Rollout %s holds %+v", name, g)
		}
	}
	project := h.project()
	project.Spec.Orchestration = v1alpha1.OrchestrationRollout
	if err := h.admin.Update(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	h.mustReconcile()
	if held := heldGrant(h.workspace("d")); len(held) > 0 || h.project().Status.Reason != v1alpha1.ReasonRolloutMissing {
		t.Errorf("d holds %v, reason %s, want nothing and RolloutMissing", held, h.project().Status.Reason)
	}
}

func TestGrantsOfMembersWhoseProjectIsGoneAreTaken(t *testing.T) {
	h := newHarness(t)
	h.create(newProject(v1alpha1.OrchestrationAuto), newWorkspace("d", "dev"))
	h.mustReconcile()
	if err := h.admin.Delete(t.Context(), h.project()); err != nil {
		t.Fatal(err)
	}
	h.mustReconcile()
	if held := heldGrant(h.workspace("d")); len(held) > 0 {
		t.Errorf("d still holds %v", held)
	}
}

func TestWhatGitSaysIsShownAndAskedAgainLater(t *testing.T) {
	const answers = "RefWatcherService.ResolveRevision answers "
	for name, test := range map[string]struct {
		err    error
		reason string
		phase  v1alpha1.RolloutPhase
		words  string
	}{
		"no such branch":  {rpcerr.New(codes.NotFound, rpcerr.RevisionNotFound, "no ref main"), v1alpha1.ReasonRevisionNotFound, v1alpha1.RolloutFailed, "no ref main"},
		"two of a name":   {rpcerr.New(codes.FailedPrecondition, rpcerr.AmbiguousRevision, "refs/heads/main and refs/tags/main"), v1alpha1.ReasonAmbiguousRevision, v1alpha1.RolloutFailed, "refs/tags/main"},
		"remote is down":  {rpcerr.New(codes.Unavailable, rpcerr.RemoteUnavailable, "connection refused"), v1alpha1.ReasonAwaitingRevision, v1alpha1.RolloutProgressing, "connection refused"},
		"refwatcher down": {rpcerr.New(codes.Unavailable, rpcerr.ServerDraining, "draining"), v1alpha1.ReasonRefWatcherUnavailable, v1alpha1.RolloutProgressing, answers + "Unavailable"},
		"no right to ask": {rpcerr.New(codes.PermissionDenied, rpcerr.PermissionDenied, "may not get workspaces"), v1alpha1.ReasonRefWatcherUnavailable, v1alpha1.RolloutProgressing, answers + "PermissionDenied"},
		"a fault of its":  {rpcerr.New(codes.Internal, rpcerr.Internal, "internal error"), v1alpha1.ReasonRefWatcherRefused, v1alpha1.RolloutProgressing, answers + "Internal (INTERNAL)"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.git.set(func() { h.git.err = test.err })
			h.threeEnvironments()
			result := h.mustReconcile()
			h.wantStatus(test.phase, test.reason, 0)
			if got := h.rollout().Status.Message; !strings.Contains(got, test.words) {
				t.Errorf("message %q does not say %q", got, test.words)
			}
			if result.RequeueAfter != firstRetry {
				t.Errorf("asked again after %s, want %s", result.RequeueAfter, firstRetry)
			}
			h.clock.Step(firstRetry - time.Millisecond)
			h.mustReconcile()
			if got := h.git.questions(); got != 1 {
				t.Errorf("%d questions before the back-off is over, want 1", got)
			}
			h.clock.Step(time.Millisecond)
			if result := h.mustReconcile(); h.git.questions() != 2 || result.RequeueAfter != 2*firstRetry {
				t.Errorf("%d questions, the next after %s, want 2 and %s", h.git.questions(), result.RequeueAfter, 2*firstRetry)
			}
			h.git.set(func() { h.git.err = nil })
			h.settle()
			h.wantStatus(v1alpha1.RolloutSucceeded, v1alpha1.ReasonPassSucceeded, 2)
		})
	}
}

// A replica of the remote that lags behind shows the commit a moment after the watcher has seen it.
func TestACommitThatTheRemoteDoesNotConfirmIsAskedAboutAgain(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.settle()
	h.sim.detect(commitB) // the remote still answers with commit A
	h.sim.tick()
	result := h.mustReconcile()
	if result.RequeueAfter <= 0 || result.RequeueAfter > hintMemory {
		t.Fatalf("asked again after %s, want within %s", result.RequeueAfter, hintMemory)
	}
	h.git.set(func() { h.git.heads["main"] = commitB })
	h.clock.Step(result.RequeueAfter)
	h.settle()
	if n := len(h.rollout().Status.History); n != 2 {
		t.Errorf("%d passes, want the second for the commit that the remote shows by now", n)
	}
}

// A watcher that lags behind the commit that the pass took hints at an old one, again and again.
func TestLaggingWatcherBeginsNoPass(t *testing.T) {
	h := newHarness(t)
	h.git.set(func() { h.git.heads["main"] = commitB })
	h.threeEnvironments() // the annotations say commit A
	h.settle()
	writes, questions := len(h.process.Writes()), h.git.questions()
	for range 10 {
		h.clock.Step(time.Second)
		h.mustReconcile()
		h.sim.tick()
	}
	if n := len(h.rollout().Status.History); n != 1 {
		t.Errorf("%d passes, want 1", n)
	}
	if got := len(h.process.Writes()); got != writes {
		t.Errorf("%d writes while nothing is new", got-writes)
	}
	if got := h.git.questions(); got > questions+1 {
		t.Errorf("%d questions about the same hint within 10 s, want 1 at most", got-questions)
	}
}

func TestNothingIsCalledWhenNothingChanges(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	check := func(when string) {
		t.Helper()
		h.mustReconcile()
		h.mustReconcile()
		writes, questions := len(h.process.Writes()), h.git.questions()
		for range 3 {
			h.clock.Step(time.Minute)
			result := h.mustReconcile()
			if want := h.untilDeadline(); result.RequeueAfter != want {
				t.Errorf("%s: decides again after %s without a cause, want %s", when, result.RequeueAfter, want)
			}
		}
		if got := h.process.Writes()[writes:]; len(got) > 0 {
			t.Errorf("%s: writes %v", when, got)
		}
		if got := h.git.questions() - questions; got > 0 {
			t.Errorf("%s: %d questions to the refwatcher", when, got)
		}
	}
	check("in mid-pass")
	h.settle()
	check("after the pass")
}

// untilDeadline is how long until a Workspace of the current step is overdue, 0 where no clock goes.
func (h *harness) untilDeadline() time.Duration {
	h.t.Helper()
	status := h.rollout().Status
	if deadline := status.Steps[status.CurrentStep].Deadline; deadline != nil {
		return deadline.Sub(h.clock.Now())
	}
	return 0
}

// live reads count too: with the cache's answers alone, a reconcile that changes nothing asks nobody.
func TestIdleReconcileReadsNothingFromTheAPIServer(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.settle()
	h.reconciler.config.Live = failingReader{t}
	h.mustReconcile()
}

type failingReader struct{ t *testing.T }

func (f failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	f.t.Error("read from the API server")
	return nil
}

func (f failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	f.t.Error("listed from the API server")
	return nil
}

func TestDriftBetweenPasses(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.settle()
	h.sim.began()
	annotate(t, h.admin, h.workspace("p"), "test/drift", "1")
	h.sim.tick()
	h.mustReconcile()
	if got := h.workspace("p").Annotations[v1alpha1.AnnotationGrantedScope]; got != string(v1alpha1.ScopeDrift) {
		t.Errorf("scope of prod's drift plan is %q", got)
	}
	h.settle()
	if got := h.sim.began(); got != "p Drift a" {
		t.Errorf("runs began as %q", got)
	}
	if p := h.workspace("p"); p.Status.Applied.Fingerprint != "1" || len(heldGrant(p)) > 0 {
		t.Errorf("drift is applied %q, prod holds %v", p.Status.Applied.Fingerprint, heldGrant(p))
	}
	if n := len(h.rollout().Status.History); n != 1 {
		t.Errorf("%d passes, want drift to make none", n)
	}
}

func TestEventsTellTransitionsOnce(t *testing.T) {
	h := newHarness(t)
	h.threeEnvironments()
	h.settle()
	var told []string
	for len(h.recorder.Events) > 0 {
		fields := strings.Fields(<-h.recorder.Events)
		told = append(told, fields[1])
	}
	want := "ManagedByRollout StepProgressing StepProgressing StepProgressing PassSucceeded"
	if got := strings.Join(told, " "); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
