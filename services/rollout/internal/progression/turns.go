package progression

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"magosproject.io/api/v1alpha1"
)

// turn says in which order members of a step are granted.
type turn int

const (
	// begun has a run that lives.
	begun turn = iota
	// mending has failed or is overdue, and waits for its next attempt.
	mending
	// held has been granted in this pass and has not begun.
	held
	// next has no grant yet.
	next
	// idle needs no turn: it is done, passed over, or has no commit. Or it is suspended, and would only keep others from theirs.
	idle
)

// turnOf judges one member of the current step.
func (w *walk) turnOf(c current, i int) turn {
	m := c.members[i]
	if m.Spec.Suspend && !isLive(m) {
		return idle
	}
	switch c.standings[i] {
	case passedOver:
		if isLive(m) && !isDriftRun(m) {
			return begun // the pass goes on without it, and its run has a place all the same
		}
		return idle
	case done, unpinned:
		return idle
	case failed, overdue, retrying:
		if isLive(m) && !isDriftRun(m) {
			return begun
		}
		return mending
	case waiting, running:
	}
	if isLive(m) && !isDriftRun(m) {
		return begun
	}
	if g, ok := v1alpha1.ReadGrant(m, true); ok && g.Scope == v1alpha1.ScopeRun && g.Pass == w.status.Pass.ID {
		return held
	}
	return next
}

// grantStep gives the members of the current step their turns, at most maxParallel at a time. A halted step takes on no
// further member. A hold, a missing approval and a step that settles let nothing begin; what has begun in this pass goes on.
func (w *walk) grantStep(c current) {
	limit, err := parallel(w.status.Pass.Steps[c.index].MaxParallel, len(c.members))
	open := err == nil && w.hold == nil && !w.awaitsApproval(c)
	free := limit
	for _, i := range w.queue(c) {
		free--
		if w.mayRun(c, i, open, free >= 0) {
			w.grantRun(c, c.members[i])
			continue
		}
		if w.turnOf(c, i) != begun {
			free++ // it does not run
		}
		w.grantDrift(c.members[i:i+1], true)
	}
	w.grantDone(c, open && limit >= len(c.members) && !w.over(c))
}

// mayRun reports whether a member may run, or go on. What has begun in this pass always may; it has its place already.
func (w *walk) mayRun(c current, i int, open, room bool) bool {
	switch w.turnOf(c, i) {
	case begun:
		if c.standings[i] == passedOver {
			return false
		}
		return c.members[i].Status.Run.Pass == w.status.Pass.ID || open && room
	case next:
		return open && room && c.count(failed)+c.count(overdue) == 0 && !w.late
	case mending, held:
		return open && room
	case idle:
	}
	return false
}

// grantDone lets the members that are done keep their grants where all of the step have one at a time: taking them now or at the end
// of the step is the same write. Elsewhere they only look for drift, and apply what they find.
func (w *walk) grantDone(c current, keep bool) {
	for i, m := range c.members {
		switch {
		case c.standings[i] != done:
		case keep:
			w.grantRun(c, m)
		default:
			w.grantDrift(c.members[i:i+1], false)
		}
	}
}

// queue lists the members of the step that need a turn, in the order of their turns.
func (w *walk) queue(c current) []int {
	var queue []int
	for i := range c.members {
		if w.turnOf(c, i) != idle {
			queue = append(queue, i)
		}
	}
	slices.SortStableFunc(queue, func(a, b int) int { return cmp.Compare(w.turnOf(c, a), w.turnOf(c, b)) })
	return queue
}

func (w *walk) grantRun(c current, m *v1alpha1.Workspace) {
	w.grants[m.Name] = v1alpha1.Grant{
		Scope: v1alpha1.ScopeRun, Pass: w.status.Pass.ID, Revision: w.recorded(KeyOf(m)), For: v1alpha1.GrantSubject(m),
		Attempt: w.entries[m.Name].Attempt,
	}
}

var errParallel = errors.New("write a number above zero, or a percentage from 1% to 100%")

// parallel returns how many of the members of a step may run at a time.
func parallel(bound *intstr.IntOrString, members int) (int, error) {
	switch {
	case bound == nil:
		return members, nil
	case bound.Type == intstr.Int && bound.IntVal > 0:
		return int(bound.IntVal), nil
	case bound.Type == intstr.Int:
		return 0, fmt.Errorf("maxParallel is %d: %w", bound.IntVal, errParallel)
	}
	digits, found := strings.CutSuffix(bound.StrVal, "%")
	percent, err := strconv.ParseUint(digits, 10, 8)
	if !found || err != nil || percent < 1 || percent > 100 {
		return 0, fmt.Errorf("maxParallel is %q: %w", cut(bound.StrVal), errParallel)
	}
	return max(1, members*int(percent)/100), nil
}
