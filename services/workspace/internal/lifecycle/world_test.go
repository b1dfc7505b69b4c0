package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is a model of everything around the pure core: one stored Workspace, a runner that keeps its contract, and what
// is true of runs, so that what status claims can be compared with it. Every method that changes it returns a violation
// of a law, or nil.
type world struct {
	now       time.Time
	w         *v1alpha1.Workspace
	version   int
	project   bool
	ordered   bool
	variables int
	missing   bool
	jobs      map[string]job
	applies   map[string]int      // StartRun calls for the apply of a run, answered or not
	revisions map[string]string   // the commit that a run was recorded with
	sealed    map[string]string   // the digest that the plan of a run sealed
	pending   *call               // a StartRun of a process that stalled after it had recorded
	stalled   *v1alpha1.Workspace // the object that a leader which lost its lease still holds
	stalledAt int
	ran       map[string]bool // halves of runs of which a container ran, or may have
	lost      map[string]bool // halves of runs whose Job was removed by force
	touched   bool            // something that may discard the waiting plan happened since it was parked
	gone      bool
	broken    error
}

type job struct {
	state  RunState
	ending bool // asked to end, or cancelled, and not there yet
	never  bool // it failed, and no container of it had run
	empty  bool
	digest string
}

type call struct {
	id       string
	half     Half
	digest   string
	revision string
}

// fault is what goes wrong in a pass.
type fault string

const (
	noFault     fault = ""
	lostBefore  fault = "the RPC is lost before it arrives"
	lostAfter   fault = "the answer of the RPC is lost"
	crashed     fault = "the process dies before the write"
	writeLost   fault = "the write lands, then the process dies"
	rpcHangs    fault = "the process stalls between write and RPC"
	startFailed fault = "the runner cannot be reached"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// detect is what the refwatcher does.
func detect(w *v1alpha1.Workspace, commit string) {
	w.Annotations[v1alpha1.AnnotationDetectedRevision] = commit
	w.Annotations[v1alpha1.AnnotationDetectedFor] = v1alpha1.GrantSubject(w)
}

func newWorld() *world {
	w := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "vpc", Namespace: "team", UID: "u-1", Generation: 1, Annotations: map[string]string{}}}
	w.Spec.ProjectRef.Name = "net"
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: "https://git/x", TargetRevision: "main", Path: "."}
	w.Spec.Terraform = v1alpha1.TerraformSpec{Version: "1.0.0", Engine: v1alpha1.EngineOpenTofu}
	return &world{now: start, w: w, project: true, jobs: map[string]job{}, applies: map[string]int{}, revisions: map[string]string{}, sealed: map[string]string{},
		ran: map[string]bool{}, lost: map[string]bool{}}
}

func (o *world) clone() *world {
	c := *o
	c.w = o.w.DeepCopy()
	c.jobs, c.applies = maps.Clone(o.jobs), maps.Clone(o.applies)
	c.revisions, c.sealed = maps.Clone(o.revisions), maps.Clone(o.sealed)
	c.ran, c.lost = maps.Clone(o.ran), maps.Clone(o.lost)
	return &c
}

func (o *world) inputs(w *v1alpha1.Workspace) Inputs {
	in := Inputs{Fingerprint: SpecFingerprint(w)}
	if o.project {
		in.Fingerprint.Variables = fmt.Sprintf("v%d%t", o.variables, o.missing)
	}
	if o.missing {
		in.Unresolved = []Unresolved{{Variable: "a", Kind: "Secret", Name: "s", Key: "k", Reason: v1alpha1.UnresolvedKeyNotFound}}
	}
	return in
}

func (o *world) snapshot(w *v1alpha1.Workspace) Snapshot {
	s := Snapshot{Now: o.now, Workspace: w, ProjectFound: o.project, Ordered: o.ordered, Inputs: o.inputs(w)}
	if half, ok := InFlight(w); ok {
		s.Run = o.view(w.Status.Run.ID, half)
	}
	return s
}

func (o *world) view(id string, half Half) *RunView {
	j, ok := o.jobs[id+"/"+string(half)]
	if !ok {
		return &RunView{State: RunAbsent}
	}
	v := &RunView{State: j.state, NeverStarted: j.never}
	if half == Plan && j.state == RunSucceeded {
		v.Plan = &PlanView{Digest: j.digest, Empty: j.empty}
	}
	return v
}

// pass is one pass of the controller on the stored object.
func (o *world) pass(f fault) error {
	if o.gone {
		return nil
	}
	return o.passOn(o.w.DeepCopy(), o.version, f)
}

// passOn is a pass on an object that may be outdated.
func (o *world) passOn(w *v1alpha1.Workspace, version int, f fault) error {
	s := o.snapshot(w)
	d := Decide(s)
	if d.Action == ActResolveRevision {
		s.Resolution = &Resolution{Revision: "c0"}
		d = Decide(s)
		if d.Action == ActResolveRevision {
			return fmt.Errorf("asked for the revision twice in one pass")
		}
	}
	switch d.Action {
	case ActAddFinalizer, ActRemoveFinalizer, ActRemoveApproval:
		if f == crashed || version != o.version {
			return nil
		}
		return o.writeMetadata(d)
	case ActRequestApply:
		if f == crashed {
			return nil
		}
		if !o.record(s, d, Outcome{Kind: OutcomeDone}, version) || f == writeLost {
			return o.broken
		}
		return o.deliver(call{d.Run.ID, Apply, d.Run.PlanDigest, d.Run.Revision}, f, s)
	default:
	}
	if d.Action == ActCancelRun {
		if f == lostBefore || f == startFailed {
			return nil
		}
		o.cancelRun(d.Run.ID, d.Half)
		if f == lostAfter {
			return nil
		}
		d = Cancelled(s, d, *o.view(d.Run.ID, d.Half))
	}
	outcome, err := o.act(s, d, f)
	if err != nil || outcome == nil || f == crashed {
		return err
	}
	o.record(s, d, *outcome, version)
	return o.broken
}

// act takes the outside part of an action; a nil outcome means that its answer never came.
func (o *world) act(s Snapshot, d Decision, f fault) (*Outcome, error) {
	done := &Outcome{Kind: OutcomeDone}
	switch d.Action {
	case ActStartPlan:
		if f == lostBefore {
			return nil, nil
		}
		if f == startFailed {
			return &Outcome{Kind: OutcomeWaiting, Reason: v1alpha1.ReasonRunnerUnavailable, Message: "down"}, nil
		}
		if g, ok := granted(s); !ok || !covers(g, d.Run) {
			return nil, fmt.Errorf("law 1: a plan is asked for without a grant that covers it")
		}
		outcome := o.startRun(call{d.Run.ID, Plan, "", d.Run.Revision})
		if f == lostAfter {
			return nil, nil
		}
		return &outcome, nil
	default:
	}
	return done, nil
}

func (o *world) deliver(c call, f fault, s Snapshot) error {
	if g, ok := granted(s); !ok || g.Scope != v1alpha1.ScopeRun || !covers(g, s.Workspace.Status.Run) {
		return fmt.Errorf("law 1: an apply is asked for without a grant that covers it")
	}
	run := s.Workspace.Status.Run
	if needsApproval(s.Workspace) && (s.Workspace.Annotations[v1alpha1.AnnotationApproved] != run.ID || !isAwaited(&s.Workspace.Status)) {
		return fmt.Errorf("law 3: an apply is asked for without an approval of this run")
	}
	if f == rpcHangs {
		if o.pending == nil {
			o.pending = &c
		}
		return nil
	}
	o.applies[c.id]++
	if o.applies[c.id] > 1 {
		return fmt.Errorf("law 4: the apply of run %s is asked for a second time", c.id)
	}
	if f == lostBefore || f == startFailed {
		return nil
	}
	o.startRun(c)
	return o.broken
}

// startRun is the runner's half of the contract.
func (o *world) startRun(c call) Outcome {
	key := c.id + "/" + string(c.half)
	if j, ok := o.jobs[key]; ok {
		if j.state == RunVoid {
			return Outcome{Kind: OutcomeVoid}
		}
		return Outcome{Kind: OutcomeDone}
	}
	run := o.w.Status.Run
	wants := map[Half]v1alpha1.RunPhase{Plan: v1alpha1.RunPlanning, Apply: v1alpha1.RunApplying}[c.half]
	if o.gone || run == nil || run.ID != c.id || run.Phase != wants || run.PlanDigest != c.digest {
		return Outcome{Kind: OutcomeWaiting, Reason: v1alpha1.ReasonRunPending, Message: "not recorded"}
	}
	for _, j := range o.jobs {
		if j.live() {
			return Outcome{Kind: OutcomeWaiting, Reason: v1alpha1.ReasonRunPending, Message: "still live"}
		}
	}
	if c.half == Apply && (c.digest == "" || c.digest != o.sealed[c.id]) {
		o.broken = fmt.Errorf("law 3: an apply of what no plan of this run has sealed")
	}
	if c.revision != o.revisions[c.id] {
		o.broken = fmt.Errorf("law 5: the %s uses %s, the run was recorded with %s", c.half, c.revision, o.revisions[c.id])
	}
	o.jobs[key] = job{state: RunPending}
	return Outcome{Kind: OutcomeDone}
}

// cancelRun makes a tombstone at once. A Job takes its time: the Job controller has to take note, or the pod to end.
func (o *world) cancelRun(id string, half Half) {
	key := id + "/" + string(half)
	switch j, ok := o.jobs[key]; {
	case !ok:
		o.jobs[key] = job{state: RunVoid}
	case j.live():
		j.ending = true
		o.jobs[key] = j
	}
}

func (j job) live() bool { return j.state == RunPending || j.state == RunRunning }

func (o *world) writeMetadata(d Decision) error {
	switch d.Action {
	case ActAddFinalizer:
		o.w.Finalizers = append(o.w.Finalizers, v1alpha1.FinalizerWorkspace)
	case ActRemoveApproval:
		run := o.w.Status.Run
		if d.Void != "" && run != nil && isAwaited(&o.w.Status) && o.w.Annotations[v1alpha1.AnnotationApproved] == run.ID {
			return fmt.Errorf("a valid approval was thrown away")
		}
		delete(o.w.Annotations, v1alpha1.AnnotationApproved)
	case ActRemoveFinalizer:
		if isLive(o.w.Status.Run) {
			return fmt.Errorf("law 9: the finalizer goes while a run lives")
		}
		o.gone = true
	default:
		return fmt.Errorf("%s writes no metadata", d.Action)
	}
	o.version++
	return nil
}

// record is the one status patch of a pass; it fails where somebody wrote in between.
func (o *world) record(s Snapshot, d Decision, outcome Outcome, version int) bool {
	if version != o.version || o.gone {
		return false
	}
	next := Status(s, d, outcome)
	if o.broken = o.checkRecord(&o.w.Status, &next, d); o.broken != nil {
		return false
	}
	if !reflect.DeepEqual(o.w.Status, next) {
		o.version++
	}
	o.w.Status = next
	return true
}

// checkRecord compares what status is about to claim with what is true.
func (o *world) checkRecord(old, next *v1alpha1.WorkspaceStatus, d Decision) error {
	run := next.Run
	if run == nil {
		return nil
	}
	if d.Action == ActRecordRun {
		if _, used := o.revisions[run.ID]; used {
			return fmt.Errorf("run ID %s is used twice", run.ID)
		}
		if isLive(old.Run) {
			return fmt.Errorf("law 2: run %s is recorded while %s lives", run.ID, old.Run.ID)
		}
		o.revisions[run.ID] = run.Revision
	}
	if old.Run != nil && old.Run.ID == run.ID && old.Run.Phase.Terminal() && old.Run.Phase != run.Phase {
		return fmt.Errorf("an ended run changed its end from %s to %s", old.Run.Phase, run.Phase)
	}
	news := old.Run == nil || old.Run.Phase != run.Phase
	plan, apply := o.jobs[run.ID+"/plan"], o.jobs[run.ID+"/apply"]
	switch {
	case news && run.Phase.Terminal() && (plan.live() || apply.live()):
		return fmt.Errorf("law 10: run %s is recorded as %s while a Job of it lives", run.ID, run.Phase)
	case news && run.Phase == v1alpha1.RunFailed && !o.ran[run.ID+"/"+string(lastHalf(run))]:
		return fmt.Errorf("law 7: run %s counts as failed, and no container of it has run: %s", run.ID, next.Message)
	case news && run.Phase == v1alpha1.RunDiscarded && (apply.state == RunSucceeded || apply.state == RunFailed && !apply.never):
		return fmt.Errorf("law 10: run %s is given up although it was applied", run.ID)
	case news && run.Phase == v1alpha1.RunDiscarded && run.ApplyStartedAt != nil && o.lost[run.ID+"/apply"]:
		return fmt.Errorf("law 10: run %s is given up although its apply was seen and is lost", run.ID)
	case news && run.Phase == v1alpha1.RunSucceeded && apply.state != RunSucceeded && (plan.state != RunSucceeded || !plan.empty):
		return fmt.Errorf("law 10: status claims a success that never was")
	case news && run.Phase == v1alpha1.RunPlanned && plan.state != RunSucceeded:
		return fmt.Errorf("law 10: status claims a plan that never was")
	case next.ObservedRevision != old.ObservedRevision && (run.Phase != v1alpha1.RunSucceeded || next.ObservedRevision != run.Revision):
		return fmt.Errorf("law 5: observedRevision changed to %s without a success at it", next.ObservedRevision)
	case next.Phase == v1alpha1.PhaseApplied && next.Applied == nil:
		return fmt.Errorf("law 10: Applied without anything applied")
	case isAwaited(old) && run.Phase == v1alpha1.RunDiscarded && !o.touched:
		return fmt.Errorf("law 6: a waiting plan was given up although nothing discards it: %s", next.Message)
	}
	if isAwaited(next) && !isAwaited(old) {
		o.touched = false
	}
	return nil
}

func lastHalf(run *v1alpha1.WorkspaceRun) Half {
	if run.ApplyRequestedAt != nil {
		return Apply
	}
	return Plan
}

// key identifies what of the world the future depends on; run IDs and times count only as far as they are compared.
func (o *world) key() string {
	var b strings.Builder
	st, run := &o.w.Status, o.w.Status.Run
	id := ""
	if run != nil {
		id = run.ID
		fmt.Fprint(&b, run.Trigger, run.Pass, run.Scope, run.Revision, run.Fingerprint, run.AutoApply, run.Phase, run.PlanStartedAt != nil, run.PlanDigest != "",
			run.ApplyRequestedAt != nil, run.ApplyStartedAt != nil, run.LostAt != nil, run.RetryAt != nil && o.now.Before(run.RetryAt.Time),
			o.now.Before(startDue(o.w, Plan)), o.now.Before(startDue(o.w, Apply)), o.ran[id+"/plan"], o.ran[id+"/apply"], o.lost[id+"/apply"], o.jobs[id+"/plan"], o.jobs[id+"/apply"], o.applies[id])
	}
	if a := st.Applied; a != nil {
		fmt.Fprint(&b, "|", a.Pass, a.Revision, a.Fingerprint, isDriftDue(o.snapshot(o.w)))
	}
	if f := st.Failures; f != nil {
		fmt.Fprint(&b, "|", f.Revision, f.Fingerprint, min(f.Count, 2), o.now.Before(retryDue(o.w)))
	}
	fmt.Fprint(&b, "|", st.Phase, st.Reason, hasFreshRequest(o.w), isAwaited(st), st.Approval != nil && st.Approval.RunID == id, st.ObservedGeneration == o.w.Generation)
	for _, name := range slices.Sorted(maps.Keys(o.w.Annotations)) {
		value := o.w.Annotations[name]
		switch name {
		case v1alpha1.AnnotationReconcileRequest:
			continue
		case v1alpha1.AnnotationApproved:
			value = fmt.Sprint(value == id)
		}
		fmt.Fprint(&b, "|", name, value)
	}
	fmt.Fprint(&b, "|", o.w.Spec.Terraform.Version, o.w.AppliesAutomatically(), o.w.Spec.DiscardStalePlan, o.w.DeletionTimestamp != nil, o.w.Finalizers, o.project, o.ordered, o.variables, o.missing, o.touched, o.gone)
	if o.pending != nil {
		fmt.Fprint(&b, "|pending", o.pending.id == id, o.pending.half)
	}
	if o.stalled != nil {
		// Only what a stalled leader may still do outside counts: its writes are refused.
		s := o.snapshot(o.stalled)
		d := Decide(s)
		fmt.Fprint(&b, "|stalled", o.version == o.stalledAt, d.Action, d.Half, d.Run != nil && d.Run.ID == id)
	}
	return b.String()
}
