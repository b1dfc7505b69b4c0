package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"magosproject.io/api/v1alpha1"
	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/testcluster/crash"
)

var seed = flag.Uint64("seed", 1, "of the randomized test; each story counts on from it")

// unreliable is the way to the runner: requests and answers get lost, and a request may arrive again, or for the first time, long after it was given up.
type unreliable struct {
	runnerv1alpha1.RunnerServiceClient
	random *rand.Rand
	late   []*runnerv1alpha1.StartRunRequest
}

var errLost = rpcerr.New(codes.Unavailable, "", "lost on the way")

func (u *unreliable) StartRun(ctx context.Context, request *runnerv1alpha1.StartRunRequest, opts ...grpc.CallOption) (*runnerv1alpha1.StartRunResponse, error) {
	switch u.random.IntN(6) {
	case 0:
		return nil, errLost
	case 1:
		u.late = append(u.late, request)
		return nil, errLost
	case 2:
		_, _ = u.RunnerServiceClient.StartRun(ctx, request, opts...)
		u.late = append(u.late, request)
		return nil, errLost
	}
	return u.RunnerServiceClient.StartRun(ctx, request, opts...)
}

func (u *unreliable) GetRun(ctx context.Context, request *runnerv1alpha1.GetRunRequest, opts ...grpc.CallOption) (*runnerv1alpha1.GetRunResponse, error) {
	if u.random.IntN(8) == 0 {
		return nil, errLost
	}
	return u.RunnerServiceClient.GetRun(ctx, request, opts...)
}

func (u *unreliable) CancelRun(ctx context.Context, request *runnerv1alpha1.CancelRunRequest, opts ...grpc.CallOption) (*runnerv1alpha1.CancelRunResponse, error) {
	switch u.random.IntN(6) {
	case 0:
		return nil, errLost
	case 1:
		_, _ = u.RunnerServiceClient.CancelRun(ctx, request, opts...)
		return nil, errLost
	}
	return u.RunnerServiceClient.CancelRun(ctx, request, opts...)
}

// arrive delivers requests that were on their way, in any order, some of them twice.
func (u *unreliable) arrive(ctx context.Context) {
	for range u.random.IntN(len(u.late) + 1) {
		_, _ = u.RunnerServiceClient.StartRun(ctx, u.late[u.random.IntN(len(u.late))])
	}
}

// story is one life of a Workspace among everything that can go wrong.
type story struct {
	*harness
	random   *rand.Rand
	way      *unreliable
	approved map[string]bool
	steps    []string
}

func (s *story) note(format string, args ...any) {
	s.steps = append(s.steps, fmt.Sprintf(format, args...))
}

func (s *story) die(at int, moment crash.Moment) {
	s.restart(at, moment)
	s.way.RunnerServiceClient = s.workspaces.Runner
	s.workspaces.Runner = s.way
}

func (s *story) step() {
	switch n := s.random.IntN(20); {
	case n < 10:
		s.note("pass")
		pause, err := s.pass()
		if errors.Is(err, crash.ErrCrashed) || s.process.Crashed() {
			s.note("died")
			s.die(0, crash.Before)
		}
		s.advance(min(pause, time.Minute))
	case n < 14:
		s.jobEnds()
	case n < 15:
		s.note("late requests arrive")
		s.way.arrive(s.Context())
	case n < 16:
		moment := []crash.Moment{crash.Before, crash.After}[s.random.IntN(2)]
		s.note("dies soon")
		s.die(1+s.random.IntN(3), moment)
	case n < 17:
		s.advance(time.Hour)
	default:
		s.somebodyActs()
	}
}

// jobEnds lets what lives end in one way or another.
func (s *story) jobEnds() {
	run := s.workspace().Status.Run
	if run == nil {
		return
	}
	for _, half := range []string{"plan ", "apply "} {
		job := s.runner.Job(half + run.ID)
		if job == nil || job.Run.GetState() != runnerv1alpha1.RunState_RUN_STATE_RUNNING {
			continue
		}
		n := s.random.IntN(6)
		s.note("%s%s ends (%d)", half, run.ID, n)
		switch n {
		case 0:
			s.runner.Set(half+run.ID, fail(v1alpha1.ReasonPlanFailed))
		case 1:
			s.runner.Set(half+run.ID, fail(v1alpha1.ReasonStateLocked))
		case 2:
			s.runner.Succeed(half+run.ID, true)
		default:
			s.runner.Succeed(half+run.ID, false)
			s.runner.Set(half+run.ID, func(r *runnerv1alpha1.Run) { r.StartedAt = timestamppb.New(began) })
		}
	}
}

func (s *story) somebodyActs() {
	n := s.random.IntN(8)
	s.edit(func(w *v1alpha1.Workspace) {
		s.note("somebody acts (%d)", n)
		switch n {
		case 0:
			w.Annotations[v1alpha1.AnnotationReconcileRequest] = fmt.Sprint(len(s.steps))
		case 1:
			w.Annotations[v1alpha1.AnnotationDetectedRevision] = map[string]string{commitA: commitB, commitB: commitA}[w.Annotations[v1alpha1.AnnotationDetectedRevision]]
		case 2:
			w.Spec.Suspend = !w.Spec.Suspend
		case 3:
			if w.Status.Run != nil {
				w.Annotations[v1alpha1.AnnotationCancel] = w.Status.Run.ID
			}
		case 4:
			s.regrant(w, w.Annotations[v1alpha1.AnnotationExecutionAllowed] == "")
		default:
			if a := w.Status.AwaitingApproval; a != nil {
				w.Annotations[v1alpha1.AnnotationApproved], s.approved[a.RunID] = a.RunID, true
			}
		}
	})
}

func (s *story) regrant(w *v1alpha1.Workspace, grant bool) {
	for _, name := range v1alpha1.GrantAnnotations() {
		delete(w.Annotations, name)
	}
	if grant {
		for name, value := range (v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass, For: v1alpha1.GrantSubject(w)}).Annotations() {
			w.Annotations[name] = value
		}
	}
}

// check asks what no order of events may break.
func (s *story) check() {
	s.Helper()
	live, seen := 0, map[string]bool{}
	for _, name := range s.runner.Started() {
		if state := s.runner.Job(name).Run.GetState(); state == runnerv1alpha1.RunState_RUN_STATE_RUNNING || state == runnerv1alpha1.RunState_RUN_STATE_PENDING {
			live++
		}
		id, isApply := strings.CutPrefix(name, "apply ")
		switch {
		case seen[name]:
			s.fail("%s was started twice", name)
		case isApply && !s.approved[id]:
			s.fail("law 3: %s was started and nobody approved it", name)
		}
		seen[name] = true
	}
	if live > 1 {
		s.fail("law 2: %d Jobs live", live)
	}
	w := s.workspace()
	if o := w.Status.ObservedRevision; o != "" && o != commitA && o != commitB {
		s.fail("law 5: observed %s", o)
	}
}

func (s *story) fail(format string, args ...any) {
	s.Helper()
	s.Fatalf(format+"\n  after: %s", append(args, strings.Join(s.steps, " → "))...)
}

// settle makes everything friendly: then the Workspace comes to where it should be.
func (s *story) settle() {
	s.Helper()
	s.die(0, crash.Before)
	s.workspaces.Runner = s.way.RunnerServiceClient
	s.edit(func(w *v1alpha1.Workspace) {
		w.Spec.Suspend = false
		s.regrant(w, true)
		w.Annotations[v1alpha1.AnnotationReconcileRequest] = "to-settle"
	})
	for range 150 {
		w := s.workspace()
		if applied(w) && w.Status.HandledRequest == "to-settle" && w.Status.ObservedRevision == w.Annotations[v1alpha1.AnnotationDetectedRevision] {
			return
		}
		if run := w.Status.Run; run != nil {
			for _, half := range []string{"plan ", "apply "} {
				if job := s.runner.Job(half + run.ID); job != nil && job.Run.GetState() == runnerv1alpha1.RunState_RUN_STATE_RUNNING {
					s.runner.Succeed(half+run.ID, false)
				}
			}
		}
		if a := w.Status.AwaitingApproval; a != nil {
			s.approved[a.RunID] = true
			s.annotate(v1alpha1.AnnotationApproved, a.RunID)
		}
		pause, _ := s.pass()
		s.advance(pause)
	}
	s.fail("it never settles: %+v, run %+v", s.workspace().Status, s.workspace().Status.Run)
}

// TestRandomStories drives the service against an API server while everything between it and the runner is lost, late, repeated or out of order.
func TestRandomStories(t *testing.T) {
	const stories, length = 6, 120
	for i := range uint64(stories) {
		t.Run(fmt.Sprintf("seed %d", *seed+i), func(t *testing.T) {
			random := rand.New(rand.NewPCG(*seed+i, 0))
			s := &story{harness: newHarness(t), random: random, approved: map[string]bool{}, way: &unreliable{random: random}}
			s.die(0, crash.Before)
			w, off := standing(), false
			w.Spec.AutoApply = &off
			s.create(project(), w)
			for range length {
				s.step()
				s.check()
			}
			s.settle()
			s.check()
			t.Logf("%d Jobs, %d approvals, %d late requests", len(s.runner.Started()), len(s.approved), len(s.way.late))
		})
	}
}
