package lifecycle

import (
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
)

// gated is a Workspace that was applied at c1, and whose next plan, which somebody requested, waits for approval.
func gated(t *testing.T, discardStale bool) *world {
	t.Helper()
	o := scenes(t)["applied"]
	auto := false
	o.w.Spec.AutoApply, o.w.Spec.DiscardStalePlan = &auto, discardStale
	o.w.Generation++
	o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "first"
	o.version++
	for range 9 {
		if pass(t, o); !isAwaited(&o.w.Status) {
			succeed(t, o)
		}
	}
	if st := o.w.Status; !isAwaited(&st) || st.Run.Trigger != v1alpha1.TriggerManual || st.ObservedRevision != "c1" {
		t.Fatalf("no plan waits: %+v", st)
	}
	return o
}

// happening is one of the things of law 6 that can happen while a plan waits.
type happening int

const (
	newCommit happening = iota
	rotatedVariables
	specEdit
	freshRequest
	driftTick
	autoApplyOn
	grantRevoked
	isNowSuspended
	isApproved
	happenings
)

var happens = [happenings]struct {
	name string
	do   func(*world)
}{
	newCommit:        {"new commit", func(o *world) { detect(o.w, "c2") }},
	rotatedVariables: {"variables", func(o *world) { o.variables = 1 }},
	specEdit:         {"spec edit", func(o *world) { o.w.Spec.Source.Path = "other"; o.w.Generation++ }},
	freshRequest:     {"request", func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "second" }},
	driftTick:        {"drift tick", func(o *world) { o.now = o.now.Add(100 * time.Hour) }},
	autoApplyOn:      {"autoApply turned on", func(o *world) { o.w.Spec.AutoApply = nil; o.w.Generation++ }},
	grantRevoked:     {"grant revoked", func(o *world) { setGrant(o, v1alpha1.Grant{}) }},
	isNowSuspended:   {"suspended", func(o *world) { o.w.Spec.Suspend = true; o.w.Generation++ }},
	isApproved:       {"approved", func(o *world) { o.w.Annotations[v1alpha1.AnnotationApproved] = o.w.Status.Run.ID }},
}

// TestLaw6EveryCombination lists all that can happen at once while a plan waits, with discardStalePlan on and off.
func TestLaw6EveryCombination(t *testing.T) {
	combinations := 0
	for _, discardStale := range []bool{false, true} {
		start := gated(t, discardStale)
		for bits := range 1 << happenings {
			combinations++
			at := func(h happening) bool { return bits&(1<<h) != 0 }
			var names []string
			o := start.clone()
			o.touched = true
			for h, what := range happens {
				if at(happening(h)) {
					what.do(o)
					names = append(names, what.name)
				}
			}
			o.version++
			name := strings.Join(names, ", ")
			if discardStale {
				name += "; stale plans are discarded"
			}
			checkGate(t, o, name, discardStale, at)
		}
	}
	t.Logf("%d combinations", combinations)
}

// checkGate says law 6 in its own words.
func checkGate(t *testing.T, o *world, name string, discardStale bool, at func(happening) bool) {
	t.Helper()
	first := o.w.Status.Run.ID
	stale := at(newCommit) || at(rotatedVariables)
	discards := at(specEdit) || at(freshRequest) || at(autoApplyOn) || at(isNowSuspended) || discardStale && stale
	applies := !discards && at(isApproved) && !at(grantRevoked)
	begins := discards && !at(grantRevoked) && !at(isNowSuspended)
	for range 4 {
		pass(t, o)
	}
	st := &o.w.Status
	if applied := o.applies[first] > 0; applied != applies {
		t.Fatalf("%s: applied %t, want %t", name, applied, applies)
	}
	if _, left := o.w.Annotations[v1alpha1.AnnotationApproved]; left && (discards || applies) {
		t.Fatalf("%s: the approval is left behind", name)
	}
	switch {
	case begins:
		checkNext(t, o, name, at)
	case discards:
		if st.Run.ID != first || st.Run.Phase != v1alpha1.RunDiscarded || isAwaited(st) {
			t.Fatalf("%s: run %+v, want it discarded and nothing begun", name, st.Run)
		}
	case applies:
		if st.Run.ID != first || st.Run.Phase != v1alpha1.RunApplying || st.Approval == nil || st.Approval.RunID != first {
			t.Fatalf("%s: run %+v, approval %+v", name, st.Run, st.Approval)
		}
	default:
		checkWaits(t, o, name, at)
	}
	finish(t, o, name, at, discards)
}

// checkNext: what came together makes one run, for the weightiest reason.
func checkNext(t *testing.T, o *world, name string, at func(happening) bool) {
	t.Helper()
	want, revision := v1alpha1.TriggerManual, "c1"
	switch {
	case at(specEdit):
		want = v1alpha1.TriggerSpec
	case at(newCommit):
		want = v1alpha1.TriggerRevision
	case at(rotatedVariables):
		want = v1alpha1.TriggerVariables
	}
	if at(newCommit) {
		revision = "c2"
	}
	if run := o.w.Status.Run; run.Phase != v1alpha1.RunPlanning || run.Trigger != want || run.Revision != revision {
		t.Fatalf("%s: run %+v, want a plan of %s for %s", name, run, revision, want)
	}
}

func checkWaits(t *testing.T, o *world, name string, at func(happening) bool) {
	t.Helper()
	st := &o.w.Status
	reason := v1alpha1.ReasonAwaitingApproval
	if at(isApproved) {
		reason = v1alpha1.ReasonAwaitingRollout
	}
	warnings := 0
	for _, h := range []happening{newCommit, rotatedVariables} {
		if at(h) {
			warnings++
		}
	}
	if st.Phase != v1alpha1.PhasePlanned || st.Reason != reason || !isAwaited(st) || len(st.AwaitingApproval.Warnings) != warnings {
		t.Fatalf("%s: %s/%s, awaiting %+v, want %s and %d warnings", name, st.Phase, st.Reason, st.AwaitingApproval, reason, warnings)
	}
}

// finish lets the Workspace go on: whatever changed runs once, and then it wants nothing.
func finish(t *testing.T, o *world, name string, at func(happening) bool, discards bool) {
	t.Helper()
	if at(isNowSuspended) {
		o.w.Spec.Suspend = false
		o.w.Generation++
	}
	setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass})
	o.version++
	st := &o.w.Status
	for range 40 {
		pass(t, o)
		succeed(t, o)
		if isAwaited(st) {
			o.w.Annotations[v1alpha1.AnnotationApproved] = st.Run.ID
			o.version++
		}
		if st.Phase == v1alpha1.PhaseApplied && !isLive(st.Run) && (st.Wants == nil || st.Wants.Trigger == v1alpha1.TriggerDrift) {
			break
		}
	}
	want := 2 // the one that was applied before, and the one that waited
	if discards || at(newCommit) || at(rotatedVariables) {
		want++
	}
	commit := "c1"
	if at(newCommit) {
		commit = "c2"
	}
	if st.Phase != v1alpha1.PhaseApplied || st.ObservedRevision != commit || len(o.revisions) != want {
		t.Fatalf("%s: ends %s at %s with %d runs, want %s with %d", name, st.Phase, st.ObservedRevision, len(o.revisions), commit, want)
	}
}

func TestWhatIsNoApprovalIsRemovedAndToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		value func(id string) string
		told  bool
	}{
		"an older run":               {func(string) string { return "u-1-old" }, true},
		"nothing":                    {func(string) string { return "" }, true},
		"white space":                {func(string) string { return "  \t" }, true},
		"this run, with white space": {func(id string) string { return id + " " }, true},
		"this run, after a space":    {func(id string) string { return " " + id }, true},
		"in capitals":                {strings.ToUpper, true},
		"a part of it":               {func(id string) string { return id[:len(id)-1] }, true},
		"the word true":              {func(string) string { return "true" }, true},
	} {
		o := gated(t, false)
		id := o.w.Status.Run.ID
		o.w.Annotations[v1alpha1.AnnotationApproved] = c.value(id)
		o.w.Annotations[v1alpha1.AnnotationApprovedBy] = "mallory"
		d := Decide(o.snapshot(o.w))
		if d.Action != ActRemoveApproval || (d.Void != "") != c.told || !strings.Contains(d.Void, id) {
			t.Errorf("%s: %s, told %q", name, d.Action, d.Void)
		}
	}
}

func TestAnApprovalThatIsAppliedAgainApprovesNothing(t *testing.T) {
	o := gated(t, false)
	first := o.w.Status.Run.ID
	o.w.Annotations[v1alpha1.AnnotationApproved], o.w.Annotations[v1alpha1.AnnotationApprovedBy] = first, "alice"
	o.version++
	for range 4 {
		pass(t, o)
		succeed(t, o)
	}
	if a := o.w.Status.Approval; a == nil || a.By != "alice" || a.RunID != first || o.w.Status.Run.Phase != v1alpha1.RunSucceeded {
		t.Fatalf("approval %+v, run %+v", a, o.w.Status.Run)
	}
	if _, left := o.w.Annotations[v1alpha1.AnnotationApprovedBy]; left {
		t.Error("the approver's name is left for the next approval")
	}
	o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "third"
	o.version++
	for range 20 {
		o.w.Annotations[v1alpha1.AnnotationApproved] = first
		o.version++
		d := Decide(o.snapshot(o.w))
		if o.w.Status.Run.ID != first && (d.Action != ActRemoveApproval || d.Void == "") {
			t.Fatalf("an approval of an older run: %s, told %q", d.Action, d.Void)
		}
		pass(t, o)
		pass(t, o)
		succeed(t, o)
	}
	if run := o.w.Status.Run; run.ID == first || run.Phase != v1alpha1.RunPlanned || o.applies[run.ID] > 0 {
		t.Errorf("run %+v, applies %v", run, o.applies)
	}
}

func TestANameWithoutAnApprovalIsRemoved(t *testing.T) {
	o := gated(t, false)
	o.w.Annotations[v1alpha1.AnnotationApprovedBy] = "alice"
	if d := Decide(o.snapshot(o.w)); d.Action != ActRemoveApproval || d.Void != "" {
		t.Errorf("%s, told %q", d.Action, d.Void)
	}
	delete(o.w.Annotations, v1alpha1.AnnotationApprovedBy)
	o.w.Annotations[v1alpha1.AnnotationApproved] = o.w.Status.Run.ID
	o.version++
	if pass(t, o); o.w.Status.Approval == nil || o.w.Status.Approval.By != v1alpha1.UnknownApprover {
		t.Errorf("approval %+v", o.w.Status.Approval)
	}
}

// A plan that nobody can read is never offered for approval, whatever is written into the annotation: it is planned again, after
// pauses that grow, and status says why. One that can be read is offered as ever.
func TestLaw3WhatNobodyCanReadIsNotOfferedForApproval(t *testing.T) {
	const why = "the log of the plan's pod cannot be read: gone"
	o := gated(t, false)
	o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "second"
	o.touched = true
	o.version++
	var pauses []time.Duration
	approved := o.w.Status.Run.ID
	for len(pauses) < 3 {
		before := o.w.Status.Run.ID
		for range 9 {
			if pass(t, o); o.w.Status.AwaitingApproval != nil {
				t.Fatalf("it is offered for approval: %+v", o.w.Status)
			}
			_ = jobEnds(o, job{state: RunSucceeded, unread: why})
			if run := o.w.Status.Run; run.Phase == v1alpha1.RunPlanned && run.ID != approved {
				approved = run.ID
				o.w.Annotations[v1alpha1.AnnotationApproved] = run.ID
			}
		}
		st := o.w.Status
		if st.Run.ID == before || st.Run.Phase != v1alpha1.RunDiscarded || st.Reason != v1alpha1.ReasonPlanUnreadable || !strings.Contains(st.Message, why) || st.Failures != nil {
			t.Fatalf("%s/%s %q, run %+v", st.Phase, st.Reason, st.Message, st.Run)
		}
		pauses = append(pauses, st.Run.RetryAt.Sub(o.now))
		o.now = st.Run.RetryAt.Time
	}
	if pauses[0] <= 0 || pauses[1] <= pauses[0] || pauses[2] <= pauses[1] {
		t.Errorf("the pauses are %v", pauses)
	}
	for range 6 {
		if pass(t, o); !isAwaited(&o.w.Status) {
			succeed(t, o)
		}
	}
	if !isAwaited(&o.w.Status) {
		t.Errorf("a plan that can be read is not offered: %+v", o.w.Status)
	}
}

// Where nobody has to decide, the plan goes on by its digest.
func TestWhatNobodyCanReadIsAppliedWhereNobodyDecides(t *testing.T) {
	o := scenes(t)["plan pending"]
	_ = jobEnds(o, job{state: RunSucceeded, unread: "gone"})
	if pass(t, o, noFault, noFault); o.w.Status.Run.Phase != v1alpha1.RunApplying || o.w.Status.Run.Unreadable == "" {
		t.Errorf("%+v", o.w.Status.Run)
	}
}

// What the plan found and the intent to apply it are one record where nothing is in between, and two where anything is.
func TestAPlanThatWaitsForNobodyIsRecordedWithTheIntentToApplyIt(t *testing.T) {
	nothing := func(*world) {}
	for name, c := range map[string]struct {
		edit func(*world)
		want Action
	}{
		"nothing in between":           {nothing, ActRequestApply},
		"a person decides":             {func(o *world) { off := false; o.w.Spec.AutoApply = &off }, ActRecordPlanned},
		"the grant was taken":          {func(o *world) { delete(o.w.Annotations, v1alpha1.AnnotationExecutionAllowed) }, ActRecordPlanned},
		"the grant is for a plan only": {func(o *world) { setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopePlan, Pass: v1alpha1.StandingPass}) }, ActRecordPlanned},
		"the spec was edited":          {func(o *world) { o.w.Spec.Source.Path = "elsewhere" }, ActRecordPlanned},
		"a fresh run was requested":    {func(o *world) { o.w.Annotations[v1alpha1.AnnotationReconcileRequest] = "now" }, ActRecordPlanned},
		"it is suspended":              {func(o *world) { o.w.Spec.Suspend = true }, ActRecordPlanned},
		"an approval lies about":       {func(o *world) { o.w.Annotations[v1alpha1.AnnotationApproved] = "x" }, ActRemoveApproval},
	} {
		t.Run(name, func(t *testing.T) {
			o := scenes(t)["started"]
			c.edit(o)
			s := o.snapshot(o.w)
			d := Decide(s)
			if d.Action != c.want || d.PlanEnded != (c.want != ActRemoveApproval) {
				t.Fatalf("%s, the plan's end is recorded: %t", d.Action, d.PlanEnded)
			}
			if st := Status(s, d, Outcome{Kind: OutcomeDone}); d.Action == ActRequestApply && (st.Run.PlanDigest == "" || st.Run.Changes == nil || st.Run.ApplyRequestedAt == nil || st.Phase != v1alpha1.PhaseApplying) {
				t.Errorf("recorded: %+v, run %+v", st, st.Run)
			}
		})
	}
}
