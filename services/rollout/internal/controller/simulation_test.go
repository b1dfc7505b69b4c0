package controller

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/status"
)

// simulation writes the status of Workspaces as the workspace service would: it says what they want, and runs
// what a grant covers. Each tick brings each Workspace one step further.
type simulation struct {
	t         *testing.T
	admin     client.Client
	namespace string
	clock     clock.PassiveClock

	mutex sync.Mutex
	// fail holds commits that fail, by Workspace.
	fail map[string]string
	// starts lists the runs that began, as "name trigger commit-letter".
	starts []string
	runs   int
}

func newSimulation(t *testing.T, admin client.Client, namespace string, clock clock.PassiveClock) *simulation {
	return &simulation{t: t, admin: admin, namespace: namespace, clock: clock, fail: map[string]string{}}
}

// tick reports whether any Workspace has changed.
func (s *simulation) tick() bool {
	s.t.Helper()
	var list v1alpha1.WorkspaceList
	if err := s.admin.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	moved := false
	ordered := map[string]bool{}
	for i := range list.Items {
		w := &list.Items[i]
		if w.DeletionTimestamp != nil {
			s.letGo(w)
			moved = true
			continue
		}
		project := w.Spec.ProjectRef.Name
		if _, known := ordered[project]; !known {
			ordered[project] = s.ordered(project)
		}
		after := w.DeepCopy()
		s.advance(w, after, ordered[project])
		err := status.PatchStatus(s.t.Context(), s.admin, w, after)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			moved = true
		case err != nil:
			s.t.Fatal(err)
		default:
			moved = moved || w.ResourceVersion != after.ResourceVersion
		}
	}
	return moved
}

// letGo lets a deleted Workspace go, at once.
func (s *simulation) letGo(w *v1alpha1.Workspace) {
	s.t.Helper()
	err := status.PatchFinalizers(s.t.Context(), s.admin, w, nil)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

func (s *simulation) ordered(project string) bool {
	key := types.NamespacedName{Namespace: s.namespace, Name: project}
	err := s.admin.Get(s.t.Context(), key, &v1alpha1.Rollout{})
	if err == nil {
		return true
	}
	p := &v1alpha1.Project{}
	return s.admin.Get(s.t.Context(), key, p) == nil && p.Spec.Orchestration == v1alpha1.OrchestrationRollout
}

func (s *simulation) advance(w, after *v1alpha1.Workspace, ordered bool) {
	grant, granted := v1alpha1.ReadGrant(w, ordered)
	st := &after.Status
	st.ObservedGeneration = w.Generation
	if run := st.Run; run != nil && !run.Phase.Terminal() {
		s.advanceRun(w, st, granted && grant.Scope == v1alpha1.ScopeRun)
		return
	}
	target := v1alpha1.DetectedRevision(w)
	if granted && grant.Revision != "" {
		target = grant.Revision
	}
	s.want(w, st, target)
	if st.Wants == nil {
		return
	}
	covered := granted && (grant.Scope == v1alpha1.ScopeRun || st.Wants.Trigger == v1alpha1.TriggerDrift)
	if !covered || target == "" {
		if st.Applied == nil && st.Failures == nil {
			st.Phase, st.Reason = v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout
		}
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.runs++
	s.starts = append(s.starts, fmt.Sprintf("%s %s %.1s", w.Name, st.Wants.Trigger, target))
	st.Run = &v1alpha1.WorkspaceRun{
		ID: fmt.Sprintf("%s-%d", w.UID, s.runs), Trigger: st.Wants.Trigger, Pass: grant.Pass, Scope: grant.Scope, Attempt: grant.Attempt, Revision: target,
		Phase: v1alpha1.RunPlanning, StartedAt: s.now(), Request: w.Annotations[v1alpha1.AnnotationReconcileRequest],
	}
	st.HandledRequest = st.Run.Request
	st.Phase, st.Reason = v1alpha1.PhasePlanning, v1alpha1.ReasonPlanRunning
}

// want says what w would run.
func (s *simulation) want(w *v1alpha1.Workspace, st *v1alpha1.WorkspaceStatus, target string) {
	var trigger v1alpha1.Trigger
	switch {
	case st.Failures != nil && st.Failures.Revision == target:
		trigger = v1alpha1.TriggerRetry
	case st.Applied == nil:
		trigger = v1alpha1.TriggerSpec
	case target != "" && st.Applied.Revision != target:
		trigger = v1alpha1.TriggerRevision
	case w.Annotations[v1alpha1.AnnotationReconcileRequest] != st.HandledRequest:
		trigger = v1alpha1.TriggerManual
	case w.Annotations["test/drift"] != "" && w.Annotations["test/drift"] != st.Applied.Fingerprint:
		trigger = v1alpha1.TriggerDrift
	default:
		st.Wants = nil
		return
	}
	if st.Wants == nil || st.Wants.Trigger != trigger || st.Wants.Revision != target {
		st.Wants = &v1alpha1.Want{Trigger: trigger, Revision: target, Since: s.now()}
	}
}

func (s *simulation) advanceRun(w *v1alpha1.Workspace, st *v1alpha1.WorkspaceStatus, mayApply bool) {
	run := st.Run
	s.mutex.Lock()
	fails := s.fail[w.Name] == run.Revision
	s.mutex.Unlock()
	end := func(phase v1alpha1.RunPhase) {
		now := s.now()
		run.Phase, run.FinishedAt = phase, &now
	}
	switch {
	case run.Phase == v1alpha1.RunPlanning && fails:
		end(v1alpha1.RunFailed)
		if st.Failures == nil || st.Failures.Revision != run.Revision {
			st.Failures = &v1alpha1.Failures{Revision: run.Revision}
		}
		st.Failures.Count++
		st.Failures.LastAt, st.Failures.LastReason = s.now(), v1alpha1.ReasonPlanFailed
		st.Phase, st.Reason = v1alpha1.PhaseFailed, v1alpha1.ReasonPlanFailed
	case run.Phase == v1alpha1.RunPlanning:
		run.Phase = v1alpha1.RunPlanned
		st.Phase, st.Reason = v1alpha1.PhasePlanned, v1alpha1.ReasonPlanSucceeded
	case run.Phase == v1alpha1.RunPlanned && mayApply:
		now := s.now()
		run.Phase, run.ApplyRequestedAt = v1alpha1.RunApplying, &now
		st.Phase, st.Reason = v1alpha1.PhaseApplying, v1alpha1.ReasonApplyRunning
	case run.Phase == v1alpha1.RunPlanned && run.Trigger == v1alpha1.TriggerDrift:
		st.Phase, st.Reason = v1alpha1.PhasePlanned, v1alpha1.ReasonAwaitingRollout
	case run.Phase == v1alpha1.RunPlanned:
		end(v1alpha1.RunDiscarded)
		st.Phase, st.Reason = v1alpha1.PhasePending, v1alpha1.ReasonAwaitingRollout
	case run.Phase == v1alpha1.RunApplying:
		end(v1alpha1.RunSucceeded)
		st.Applied = &v1alpha1.AppliedState{Pass: run.Pass, RunID: run.ID, Revision: run.Revision, Fingerprint: w.Annotations["test/drift"], At: s.now()}
		st.ObservedRevision, st.Failures, st.Wants = run.Revision, nil, nil
		st.Phase, st.Reason = v1alpha1.PhaseApplied, v1alpha1.ReasonApplySucceeded
	}
}

func (s *simulation) now() metav1.Time { return metav1.NewTime(s.clock.Now()) }

// detect writes the annotation of the refwatcher on every Workspace.
func (s *simulation) detect(commit string) {
	s.t.Helper()
	var list v1alpha1.WorkspaceList
	if err := s.admin.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		annotate(s.t, s.admin, w, v1alpha1.AnnotationDetectedRevision, commit)
		annotate(s.t, s.admin, w, v1alpha1.AnnotationDetectedFor, v1alpha1.GrantSubject(w))
	}
}

func annotate(t *testing.T, admin client.Client, w client.Object, key, value string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := admin.Patch(t.Context(), w, patch); err != nil {
		t.Fatal(err)
	}
}

// began lists the runs that began since the last call, in order.
func (s *simulation) began() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	text := strings.Join(s.starts, ", ")
	s.starts = nil
	return text
}

func (s *simulation) failing(name, commit string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fail[name] = commit
}
