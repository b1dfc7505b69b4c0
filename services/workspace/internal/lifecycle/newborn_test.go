package lifecycle

import (
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Three services write to a new Workspace at once if nobody waits for anybody. The waits end by themselves, whatever the others do.
func TestANewWorkspaceLetsOthersWriteFirst(t *testing.T) {
	created := metav1.NewTime(start)
	grantOf := func(o *world) { setGrant(o, v1alpha1.Grant{Scope: v1alpha1.ScopeRun, Pass: v1alpha1.StandingPass}) }
	held := func(o *world) { o.w.Finalizers = []string{v1alpha1.FinalizerWorkspace} }
	seen := func(o *world) { detect(o.w, "c1") }
	older := func(d time.Duration) func(*world) { return func(o *world) { o.now = o.now.Add(d) } }
	for name, c := range map[string]struct {
		edit []func(*world)
		want Action
	}{
		"before the watcher's first word":          {nil, ActWait},
		"when that does not come":                  {[]func(*world){older(watcherPatience)}, ActAddFinalizer},
		"by a clock that is behind the server's":   {[]func(*world){older(-time.Hour)}, ActAddFinalizer},
		"after the watcher's first word":           {[]func(*world){seen}, ActAddFinalizer},
		"before the standing grant":                {[]func(*world){seen, held}, ActWait},
		"when that does not come either":           {[]func(*world){seen, held, older(grantPatience)}, ActNone},
		"where the Project is missing":             {[]func(*world){seen, held, func(o *world) { o.project = false }}, ActNone},
		"where a Rollout waits for what it wants":  {[]func(*world){seen, held, func(o *world) { o.ordered = true }}, ActNone},
		"where status has something to say":        {[]func(*world){seen, held, func(o *world) { o.w.Status.Phase = v1alpha1.PhaseApplied }}, ActNone},
		"where the grant is there":                 {[]func(*world){seen, held, grantOf}, ActRecordRun},
		"where it is deleted before anything came": {[]func(*world){func(o *world) { o.w.DeletionTimestamp = &created }}, ActNone},
	} {
		t.Run(name, func(t *testing.T) {
			o := newWorld()
			o.w.CreationTimestamp = created
			for _, edit := range c.edit {
				edit(o)
			}
			d := Decide(o.snapshot(o.w))
			if d.Action != c.want {
				t.Errorf("%s, want %s", d.Action, c.want)
			}
			if d.Action == ActWait && d.Requeue <= 0 {
				t.Error("it waits for ever")
			}
		})
	}
}
