package progression

import (
	"cmp"
	"slices"
	"time"

	"magosproject.io/api/v1alpha1"
)

// Settle is how long after its start a pass may pass over a step in which nothing ran. A change that
// reaches all Workspaces, such as a new value in a shared VariableSet, shows in their wants one by one;
// without the wait, prod's want could be seen before dev's, and prod would run first.
const Settle = 2 * time.Second

// Decide returns who may run, and what to record. Exactly one orchestrator answers for all members:
// nobody without a Project, the Rollout where one exists, else the Project.
func Decide(now time.Time, s Snapshot) Decision {
	now = now.Truncate(time.Millisecond)
	members := living(s.Members)
	d := Decision{Grants: map[string]v1alpha1.Grant{}}
	var told []Event
	switch {
	case s.Project == nil && s.Rollout == nil:
	case s.Project == nil:
		d.Rollout = withoutProject(now, s.Rollout)
	case s.Rollout != nil:
		w := newWalk(now, s, members)
		w.decide()
		d.Grants, d.NeedPins, d.Rollout, d.Requeue, d.Consumed, told = w.grants, w.needs, w.status, w.requeue, w.consumed, w.events
	case s.Project.Spec.Orchestration == v1alpha1.OrchestrationRollout:
	default:
		for _, m := range members {
			d.Grants[m.Name] = v1alpha1.Grant{
				Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass, For: v1alpha1.GrantSubject(m),
			}
		}
	}
	if s.Project != nil {
		d.Project = projectStatus(now, s.Project, s.Rollout != nil, members)
	}
	d.Events = transitions(s, d, told)
	return d
}

// living returns the members by name, without those that are being deleted: they start nothing new.
func living(all []*v1alpha1.Workspace) []*v1alpha1.Workspace {
	members := make([]*v1alpha1.Workspace, 0, len(all))
	for _, m := range all {
		if m.DeletionTimestamp == nil {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b *v1alpha1.Workspace) int { return cmp.Compare(a.Name, b.Name) })
	return members
}
