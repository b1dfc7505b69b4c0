package lifecycle

import (
	"hash/fnv"
	"slices"
	"strconv"

	"magosproject.io/api/v1alpha1"
)

// digest identifies what of a world the future depends on; it is asked for a million times, so it goes without fmt.
type digest struct{ text []byte }

func (d *digest) texts(list ...string) {
	for _, t := range list {
		d.text = append(append(d.text, t...), '|')
	}
}

func (d *digest) flags(list ...bool) {
	for _, f := range list {
		d.text = strconv.AppendBool(d.text, f)
	}
	d.text = append(d.text, '|')
}

func (d *digest) number(n int) { d.text = append(strconv.AppendInt(d.text, int64(n), 10), '|') }

func (d *digest) job(j job) {
	d.texts(string(j.state), j.digest)
	d.flags(j.ending, j.never, j.empty, j.reason != "")
}

func (d *digest) sum() uint64 {
	h := fnv.New64a()
	h.Write(d.text)
	return h.Sum64()
}

// key identifies what of the world the future depends on; run IDs and times count only as far as they are compared.
func (o *world) key() uint64 {
	d := digest{make([]byte, 0, 1024)}
	st, id := &o.w.Status, ""
	if run := st.Run; run != nil {
		id = run.ID
		o.addRun(&d, run)
	}
	if l := st.LastApply; l != nil {
		d.texts("last", l.Revision, l.Fingerprint)
	}
	d.texts(string(o.w.Spec.DeletionPolicy))
	d.flags(o.blocked)
	if a := st.Applied; a != nil {
		d.texts("applied", a.Pass, a.Revision, a.Fingerprint)
		d.flags(isDriftDue(o.snapshot(o.w)))
	}
	if f := st.Failures; f != nil {
		d.texts("failures", f.Revision, f.Fingerprint)
		d.number(int(min(f.Count, 2)))
		d.flags(o.now.Before(retryDue(o.w)))
	}
	d.texts(string(st.Phase), st.Reason)
	d.flags(hasFreshRequest(o.w), isAwaited(st), st.Approval != nil && st.Approval.RunID == id, st.ObservedGeneration == o.w.Generation)
	o.addAnnotations(&d, id)
	d.texts(o.w.Spec.Terraform.Version)
	d.texts(o.w.Finalizers...)
	if o.w.DeletionTimestamp == nil {
		d.number(o.variables)
		d.flags(o.project, o.ordered)
	}
	d.flags(o.w.AppliesAutomatically(), o.w.Spec.DiscardStalePlan, o.w.Spec.Suspend, o.w.Spec.Retry.Limit != nil, o.w.DeletionTimestamp != nil, o.missing, o.touched, o.gone)
	if o.pending != nil {
		d.texts("pending", string(o.pending.half))
		d.flags(o.pending.id == id)
	}
	if o.stalled != nil {
		// Only what a stalled leader may still do outside counts: its writes are refused.
		stalled := Decide(o.snapshot(o.stalled))
		d.texts("stalled", string(stalled.Action), string(stalled.Half))
		d.flags(o.version == o.stalledAt, stalled.Run != nil && stalled.Run.ID == id)
	}
	return d.sum()
}

func (o *world) addRun(d *digest, run *v1alpha1.WorkspaceRun) {
	plan, apply := run.ID+"/plan", run.ID+"/apply"
	d.texts(string(run.Trigger), run.Pass, string(run.Scope), run.Revision, run.Fingerprint, string(run.Phase))
	d.flags(run.AutoApply, run.PlanStartedAt != nil, run.PlanDigest != "", run.ApplyRequestedAt != nil, run.ApplyStartedAt != nil, run.LostAt != nil, run.CancelledAt != nil,
		run.RetryAt != nil && o.now.Before(run.RetryAt.Time), o.now.Before(startDue(o.w, Plan)), o.now.Before(startDue(o.w, Apply)),
		o.ran[plan], o.ran[apply], o.lost[apply])
	for _, half := range []string{plan, apply} {
		j := o.jobs[half]
		if j.digest != "" {
			j.digest = "sealed"
		}
		d.job(j)
	}
	d.number(o.applies[run.ID])
	d.number(int(min(run.Setbacks, 2)))
}

func (o *world) addAnnotations(d *digest, id string) {
	names := make([]string, 0, len(o.w.Annotations))
	for name := range o.w.Annotations {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := o.w.Annotations[name]
		isCommand := name == v1alpha1.AnnotationApproved || name == v1alpha1.AnnotationCancel || name == v1alpha1.AnnotationAbandon
		if o.w.DeletionTimestamp != nil && !isCommand {
			// Neither grants nor commits count for a Workspace that is being deleted.
			continue
		}
		switch name {
		case v1alpha1.AnnotationReconcileRequest:
			continue
		case v1alpha1.AnnotationApproved, v1alpha1.AnnotationCancel:
			value = strconv.FormatBool(value == id)
		}
		d.texts(name, value)
	}
}
