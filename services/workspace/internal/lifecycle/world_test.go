package lifecycle

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
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
	destroys  map[string]bool // runs that were recorded to destroy
	blocked   bool            // the namespace is being deleted
	gone      bool
	broken    error
}

type job struct {
	state  RunState
	ending bool   // asked to end, or cancelled, and not there yet
	never  bool   // it failed, and no container of it had run
	reason string // of the tool, where it refused to do anything
	empty  bool
	unread string // why nobody can read the plan
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
		ran: map[string]bool{}, lost: map[string]bool{}, destroys: map[string]bool{}}
}

func (o *world) clone() *world {
	c := *o
	c.w = o.w.DeepCopy()
	c.jobs, c.applies = maps.Clone(o.jobs), maps.Clone(o.applies)
	c.revisions, c.sealed = maps.Clone(o.revisions), maps.Clone(o.sealed)
	c.destroys = maps.Clone(o.destroys)
	c.ran, c.lost = maps.Clone(o.ran), maps.Clone(o.lost)
	return &c
}

// specFingerprints remembers what would be digested a million times.
var specFingerprints sync.Map

func specFingerprint(w *v1alpha1.Workspace) Fingerprint {
	key := strings.Join([]string{w.Spec.Source.RepoURL, w.Spec.Source.TargetRevision, w.Spec.Source.Path, w.Spec.Terraform.Version}, "|")
	if known, ok := specFingerprints.Load(key); ok {
		return known.(Fingerprint)
	}
	made := SpecFingerprint(w)
	specFingerprints.Store(key, made)
	return made
}

func (o *world) inputs(w *v1alpha1.Workspace) Inputs {
	in := Inputs{Fingerprint: specFingerprint(w)}
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
	if last, _ := LastApply(w); IsDestroyDue(w) {
		s.Inputs.Fingerprint = ParseFingerprint(last.Fingerprint)
		if s.Destroy = (&Destruction{}); o.blocked {
			*s.Destroy = Destruction{v1alpha1.ReasonNamespaceTerminating, "the namespace is being deleted"}
		}
	}
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
	v := &RunView{State: j.state, NeverStarted: j.never, Reason: j.reason}
	if half == Plan && j.state == RunSucceeded {
		v.Plan = &PlanView{Digest: j.digest, Empty: j.empty, Unreadable: j.unread}
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
	case ActAddFinalizer, ActRemoveFinalizer, ActRemoveApproval, ActRemoveCancel:
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
		o.cancelRun(d.Run.ID, d.Half, d.Interrupts)
		if version != o.version {
			// The tombstone that an outdated leader made hides a loss that nobody has recorded yet: nobody can tell any more.
			delete(o.lost, d.Run.ID+"/"+string(d.Half))
		}
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
		if err := o.checkDestroy(s, d.Run); err != nil {
			return nil, err
		}
		if g, ok := granted(s); !isDestroy(d.Run) && (!ok || !covers(g, d.Run)) {
			return nil, fmt.Errorf("law 1: a plan is asked for without a grant that covers it")
		}
		if why := standsStill(s.Workspace); why != "" {
			return nil, fmt.Errorf("law 9: a plan is asked for although %s", why)
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
	if err := o.checkDestroy(s, s.Workspace.Status.Run); err != nil {
		return err
	}
	if g, ok := granted(s); !isDestroy(s.Workspace.Status.Run) && (!ok || g.Scope != v1alpha1.ScopeRun || !covers(g, s.Workspace.Status.Run)) {
		return fmt.Errorf("law 1: an apply is asked for without a grant that covers it")
	}
	if why := standsStill(s.Workspace); why != "" {
		return fmt.Errorf("law 9: an apply is asked for although %s", why)
	}
	run := s.Workspace.Status.Run
	if needsApproval(s.Workspace) && (s.Workspace.Annotations[v1alpha1.AnnotationApproved] != run.ID || !isAwaited(&s.Workspace.Status)) {
		return fmt.Errorf("law 3: an apply is asked for without an approval of this run")
	}
	if needsApproval(s.Workspace) && run.Unreadable != "" {
		return fmt.Errorf("law 3: a person has approved what nobody could read")
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
func (o *world) cancelRun(id string, half Half, interrupts bool) {
	key := id + "/" + string(half)
	switch j, ok := o.jobs[key]; {
	case !ok:
		o.jobs[key] = job{state: RunVoid}
	case j.state == RunRunning && !interrupts:
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
		delete(o.w.Annotations, v1alpha1.AnnotationApprovedBy)
	case ActRemoveCancel:
		if run := o.w.Status.Run; isLive(run) && o.w.Annotations[v1alpha1.AnnotationCancel] == run.ID && run.CancelledAt == nil {
			return fmt.Errorf("a cancel of the live run was thrown away")
		}
		delete(o.w.Annotations, v1alpha1.AnnotationCancel)
	case ActRemoveFinalizer:
		if isLive(o.w.Status.Run) {
			return fmt.Errorf("law 9: the finalizer goes while a run lives")
		}
		if err := o.checkGone(); err != nil {
			return err
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
