package progression

import (
	"fmt"
	"time"

	"magosproject.io/api/v1alpha1"
)

// projectStatus says who grants execution, and counts the members.
func projectStatus(now time.Time, p *v1alpha1.Project, hasRollout bool, members []*v1alpha1.Workspace) *v1alpha1.ProjectStatus {
	s := p.Status.DeepCopy()
	s.ObservedGeneration = p.Generation
	ready := true
	switch {
	case hasRollout:
		s.Reason, s.Message = v1alpha1.ReasonManagedByRollout, "the Rollout of the same name decides which Workspaces may run"
	case p.Spec.Orchestration == v1alpha1.OrchestrationRollout:
		ready = false
		s.Reason = v1alpha1.ReasonRolloutMissing
		s.Message = fmt.Sprintf("nothing runs until a Rollout named %q is created; with spec.orchestration: Auto every Workspace may run at once", p.Name)
	default:
		s.Reason, s.Message = v1alpha1.ReasonDefaultParallel, "no Rollout of this name exists: every Workspace may run at once"
	}
	s.Workspaces = countMembers(members)
	setReady(&s.Conditions, now, p.Generation, ready, s.Reason, s.Message)
	return s
}

func countMembers(members []*v1alpha1.Workspace) v1alpha1.MemberCounts {
	counts := v1alpha1.MemberCounts{Total: count32(len(members))}
	for _, m := range members {
		phase := m.Status.Phase
		if phase == "" {
			phase = v1alpha1.PhasePending
		}
		if counts.ByPhase == nil {
			counts.ByPhase = map[v1alpha1.Phase]int32{}
		}
		counts.ByPhase[phase]++
	}
	return counts
}
