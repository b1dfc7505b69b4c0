package progression

import (
	"fmt"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
)

const (
	simSteps     = 3
	simPerStep   = 2
	simMembers   = simSteps * simPerStep
	simCommitMax = 3
)

// Who a pass ID of the simulation belongs to: all earlier passes are alike.
const (
	noPass = iota
	oldPass
	thisPass
	standingPass
)

// simRun is a run; phase "" means none that matters.
type simRun struct {
	phase   v1alpha1.RunPhase
	drift   bool
	pass    uint8
	rev     uint8
	attempt uint8
	vars    uint8
}

type simGrant struct {
	scope   v1alpha1.GrantScope
	pass    uint8
	rev     uint8
	attempt uint8
}

type simMember struct {
	appliedRev, appliedPass uint8
	appliedVars             uint8
	failedRev               uint8
	drift                   bool
	run                     simRun
	grant                   simGrant
	// attempt and passedOver are what the status of the Rollout keeps of the member.
	attempt    uint8
	passedOver bool
	clock      simClock
}

// budget bounds what may still go wrong, and what people still do, so that the walk ends.
type budget struct{ pushes, failures, drifts, toggles, edits, pauses, aborts, retries, rotations, lates, closings uint8 }

// simConfig is what the spec says for as long as the walk lasts.
type simConfig struct {
	onFailure v1alpha1.FailureAction
	retries   uint8
	parallel  uint8 // 0 for all
	gate      uint8 // the step that requires approval; 0 for none
	soak      bool  // every step soaks for an hour
	restart   bool  // a new commit begins a new pass
	windows   bool  // a window of kind Deny comes
	deadlines bool  // every Workspace and the pass have an hour
}

// simCommand is an annotation of a person that names a pass and a step; pass noPass means that there is none.
type simCommand struct{ pass, step uint8 }

type simState struct {
	head, detected uint8
	vars           uint8 // the version of the variables that all members share
	rollout        bool
	passState      v1alpha1.RolloutPhase // "" none, Progressing, Succeeded (ended)
	result         v1alpha1.PassResult
	step           uint8
	pin            uint8
	specVersion    uint8
	passVersion    uint8
	perStep        int
	members        [simMembers]simMember
	approved       [simSteps]bool
	soak           simClock
	clock          simClock // of the pass
	paused, closed bool

	abort, retry, approve simCommand

	config simConfig
	left   budget
}

// all yields the indices of the members that there are.
func (s *simState) all() []int {
	if s.perStep == 1 {
		return []int{0, 2, 4}
	}
	return []int{0, 1, 2, 3, 4, 5}
}

func stepOf(i int) int { return i / simPerStep }

func commitName(rev uint8) string {
	if rev == 0 {
		return ""
	}
	return fmt.Sprintf("%040d", rev)
}

func commitNumber(name string) (rev uint8) {
	if name != "" {
		fmt.Sscanf(name, "%d", &rev)
	}
	return rev
}

func passName(p uint8) string { return [...]string{"", "old", passID, v1alpha1.StandingPass}[p] }

// passNumber reads a pass ID back; current is the one of the status.
func passNumber(name, current string) uint8 {
	switch name {
	case "":
		return noPass
	case current:
		return thisPass
	case v1alpha1.StandingPass:
		return standingPass
	}
	return oldPass
}

func (s *simState) steps(version uint8) []v1alpha1.RolloutStep {
	steps := stepsOf("0", "1", "2")
	for i := range steps {
		if s.config.deadlines {
			steps[i].WorkspaceDeadline = &metav1.Duration{Duration: simLength}
		}
		if s.config.soak {
			steps[i].Soak = &metav1.Duration{Duration: simLength}
		}
		if s.config.parallel > 0 {
			steps[i].MaxParallel = ptr.To(intstr.FromInt32(int32(s.config.parallel)))
		}
		if s.config.gate > 0 && i == int(s.config.gate) {
			steps[i].Approval = &v1alpha1.ApprovalRequirement{Required: true}
		}
	}
	if version == 1 {
		steps[2].Name = "renamed"
	}
	return steps
}

// workspace renders member i as the workspace service would have it.
func (s *simState) workspace(i int) *v1alpha1.Workspace {
	sim := s.members[i]
	m := member(fmt.Sprintf("w%d", i), fmt.Sprint(stepOf(i)), detected(commitName(s.detected)))
	if sim.appliedRev > 0 {
		applied(commitName(sim.appliedRev), passName(sim.appliedPass))(m)
		m.Status.Applied.Fingerprint = fingerprint(sim.appliedVars)
	}
	if sim.run.phase != "" {
		trigger := v1alpha1.TriggerRevision
		if sim.run.drift {
			trigger = v1alpha1.TriggerDrift
		}
		run(sim.run.phase, trigger, passName(sim.run.pass), commitName(sim.run.rev))(m)
		m.Status.Run.Attempt = int32(sim.run.attempt)
	}
	if sim.failedRev > 0 {
		failures(commitName(sim.failedRev))(m)
	}
	if g := sim.grant; g.scope != "" {
		maps.Copy(m.Annotations, v1alpha1.Grant{Scope: g.scope, Pass: passName(g.pass), Revision: commitName(g.rev), For: v1alpha1.GrantSubject(m), Attempt: int32(g.attempt)}.Annotations())
	}
	if trigger, rev := s.wants(i); trigger != "" {
		m.Status.Wants = &v1alpha1.Want{Trigger: trigger, Revision: commitName(rev), Fingerprint: fingerprint(s.vars)}
	}
	return m
}

// grantOf is the grant as the workspace service reads it.
func (s *simState) grantOf(i int) simGrant {
	if s.members[i].grant.scope == "" {
		return simGrant{}
	}
	if _, ok := v1alpha1.ReadGrant(s.workspace(i), s.rollout); !ok {
		return simGrant{}
	}
	return s.members[i].grant
}

func (s *simState) snapshot() Snapshot {
	snap := Snapshot{Project: project(v1alpha1.OrchestrationAuto)}
	for _, i := range s.all() {
		snap.Members = append(snap.Members, s.workspace(i))
	}
	if !s.rollout {
		return snap
	}
	r := rollout(s.steps(s.specVersion)...)
	snap.Rollout = r
	r.Spec.Paused = s.paused
	r.Annotations = map[string]string{}
	for name, c := range map[string]simCommand{v1alpha1.AnnotationAbort: s.abort, v1alpha1.AnnotationRetryStep: s.retry, v1alpha1.AnnotationApprovedStep: s.approve} {
		switch {
		case c.pass == noPass:
		case name == v1alpha1.AnnotationAbort:
			r.Annotations[name] = passName(c.pass)
		default:
			r.Annotations[name] = v1alpha1.PassStep(passName(c.pass), s.steps(s.passVersion)[c.step].Name)
		}
	}
	if s.config.onFailure != "" {
		r.Spec.Strategy.OnFailure = &v1alpha1.OnFailure{Action: s.config.onFailure}
	}
	if s.config.restart {
		r.Spec.Strategy.OnNewRevision = v1alpha1.NewRevisionRestart
	}
	if s.config.windows {
		r.Spec.Strategy.Windows = []v1alpha1.RolloutWindow{{Kind: v1alpha1.WindowDeny, Cron: "0 12 1 6 *", Duration: metav1.Duration{Duration: simLength}}}
		if s.closed {
			r.Spec.Strategy.Windows[0].Cron = "0 12 30 11 *"
		}
	}
	if s.config.deadlines {
		r.Spec.Strategy.ProgressDeadline = &metav1.Duration{Duration: simLength}
	}
	if s.config.retries > 0 {
		r.Spec.Strategy.OnFailure.Retries = ptr.To(int32(s.config.retries))
	}
	if s.passState != "" {
		r.Status = s.status()
	}
	return snap
}

// status renders the status of the Rollout, as far as decisions are made from it.
func (s *simState) status() v1alpha1.RolloutStatus {
	r := inPass(int(s.step), commitName(s.pin), "0", "1", "2")
	r.Status.Pass.Steps = s.steps(s.passVersion)
	if s.passState == v1alpha1.RolloutSucceeded {
		ended := metav1.NewTime(start)
		r.Status.Pass.FinishedAt, r.Status.Pass.Result = &ended, s.result
	}
	for i := range r.Status.Steps {
		if s.approved[i] {
			r.Status.Steps[i].Approval = &v1alpha1.StepApproval{By: "somebody", At: metav1.NewTime(start)}
		}
	}
	if s.passState == v1alpha1.RolloutProgressing {
		r.Status.Steps[s.step].SoakingSince = s.soak.since()
	}
	if s.clock == elapsed {
		r.Status.Pass.StartedAt = *s.clock.since()
	}
	for i, m := range s.members {
		step := &r.Status.Steps[stepOf(i)]
		if m.attempt > 0 || m.clock != notCounting {
			step.Members = append(step.Members, v1alpha1.RolloutStepMember{Name: fmt.Sprintf("w%d", i), Attempt: int32(m.attempt), Since: m.clock.since()})
		}
		if m.passedOver {
			step.PassedOver = append(step.PassedOver, fmt.Sprintf("w%d", i))
			step.Failed++
		}
	}
	return r.Status
}

// reconcile carries out what Decide says, in the order of the reconciler, and checks every grant that it gives.
// It returns the state after every effect, the last one with all of them.
func (s simState) reconcile(t *testing.T) ([]simState, Decision) {
	d := Decide(later, s.snapshot())
	s.revoke(d)
	states := []simState{s}
	for range 4 {
		if len(d.NeedPins) == 0 {
			break
		}
		snap := s.snapshot()
		snap.Resolved = resolved(commitName(s.head))
		d = Decide(later, snap)
		s.revoke(d)
		states = append(states, s)
	}
	if len(d.NeedPins) > 0 {
		t.Fatalf("the refwatcher has answered and is asked again: %+v\n%+v", d.NeedPins, s)
	}
	before := s
	s.record(t, d)
	before.checkPassDeadline(t, d, &s)
	before.checkNotCutShort(t, d)
	states = append(states, s)
	s.consume(d)
	states = append(states, s)
	for _, i := range s.all() {
		if s.give(t, d, i) {
			states = append(states, s)
		}
	}
	return append(states, s), d
}

func (s *simState) revoke(d Decision) {
	for i := range s.members {
		if _, ok := d.Grants[fmt.Sprintf("w%d", i)]; !ok {
			s.members[i].grant = simGrant{}
		}
	}
}

// record takes over the status. When a new pass has begun, what belonged to the last one is old.
func (s *simState) record(t *testing.T, d Decision) {
	s.checkLeft(t, d)
	if d.Rollout == nil {
		return
	}
	pass := d.Rollout.Pass
	if pass == nil {
		return
	}
	if pass.ID != passID {
		s.age()
	} else if int(d.Rollout.CurrentStep) < int(s.step) {
		t.Fatalf("currentStep moves back from %d to %d: %+v", s.step, d.Rollout.CurrentStep, *s)
	}
	s.checkSoak(t, d.Rollout)
	s.passState, s.result = v1alpha1.RolloutProgressing, pass.Result
	if pass.FinishedAt != nil {
		s.passState = v1alpha1.RolloutSucceeded
	}
	s.step, s.pin, s.passVersion, s.soak = uint8(d.Rollout.CurrentStep), 0, 0, notCounting
	if pass.FinishedAt == nil {
		s.soak = clockSince(d.Rollout.Steps[s.step].SoakingSince)
	}
	if len(pass.Revisions) > 0 {
		s.pin = commitNumber(pass.Revisions[0].Revision)
	}
	if pass.Steps[2].Name == "renamed" {
		s.passVersion = 1
	}
	for i := range s.members {
		s.members[i].attempt, s.members[i].passedOver, s.members[i].clock = 0, false, notCounting
	}
	s.clock = notCounting
	if s.config.deadlines && pass.FinishedAt == nil {
		s.clock = clockSince(&pass.StartedAt)
		if pass.ExtendedAt != nil {
			s.clock = counting
		}
	}
	for i := range d.Rollout.Steps {
		step := &d.Rollout.Steps[i]
		s.approved[i] = step.Approval != nil
		for _, m := range step.Members {
			s.members[m.Name[1]-'0'].attempt = uint8(m.Attempt)
			if s.config.deadlines { // elsewhere none passes
				s.members[m.Name[1]-'0'].clock = clockSince(m.Since)
			}
		}
		for _, name := range step.PassedOver {
			s.members[name[1]-'0'].passedOver = true
		}
	}
}

// age makes everything of the present pass that of an old one.
func (s *simState) age() {
	for i := range s.members {
		m := &s.members[i]
		m.appliedPass, m.run.pass, m.grant.pass = aged(m.appliedPass), aged(m.run.pass), aged(m.grant.pass)
	}
	s.abort.pass, s.retry.pass, s.approve.pass = aged(s.abort.pass), aged(s.retry.pass), aged(s.approve.pass)
}

// consume removes the commands that were obeyed or are void.
func (s *simState) consume(d Decision) {
	for _, name := range d.Consumed {
		switch name {
		case v1alpha1.AnnotationAbort:
			s.abort = simCommand{}
		case v1alpha1.AnnotationRetryStep:
			s.retry = simCommand{}
		case v1alpha1.AnnotationApprovedStep:
			s.approve = simCommand{}
		}
	}
}

func aged(pass uint8) uint8 {
	if pass == thisPass {
		return oldPass
	}
	return pass
}

// give writes one grant and reports whether there was anything to write.
func (s *simState) give(t *testing.T, d Decision, i int) bool {
	g, ok := d.Grants[fmt.Sprintf("w%d", i)]
	if !ok {
		return false
	}
	current := ""
	if d.Rollout != nil && d.Rollout.Pass != nil {
		current = d.Rollout.Pass.ID
	}
	want := simGrant{scope: g.Scope, pass: passNumber(g.Pass, current), rev: commitNumber(g.Revision), attempt: uint8(g.Attempt)}
	if want == s.members[i].grant {
		return false
	}
	s.members[i].grant = want
	s.checkGrant(t, i)
	return true
}
