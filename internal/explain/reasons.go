package explain

import (
	"strings"

	"magosproject.io/api/v1alpha1"
)

// entry is what a reason means to people.
type entry struct {
	// says goes on after the name of the object, without a full stop.
	says string
	// wayOut is what to do, with {namespace}, {name}, {project}, {run}, {pass} and {step} for the names of the object.
	wayOut string
	// members is whether a Rollout with this reason waits for one of its members.
	members bool
}

// What many ways out have in common.
const (
	askForRun = `kubectl -n {namespace} annotate workspace {name} --overwrite magosproject.io/reconcile-request="$(date +%s)"`
	logs      = "StreamLogs of the runner service has the log of run {run}"
	mendAndGo = "; a new commit or an edited spec runs at once, anything else after " + askForRun
	nothing   = "nothing is to be done"
	abandon   = "destroy by hand what is to go, then give the destroy up: kubectl -n {namespace} annotate workspace {name} --overwrite magosproject.io/abandon=<its UID> " +
		"(the message has it; needs the verb destroy on workspaces)"
	waitForIt = "wait until it ends; " + logs
	byItself  = "it is tried again by itself"
)

// namesOf fills the names of w into a way out.
func namesOf(w *v1alpha1.Workspace) *strings.Replacer {
	run := "<run>"
	if w.Status.Run != nil {
		run = w.Status.Run.ID
	}
	return strings.NewReplacer("{namespace}", w.Namespace, "{name}", w.Name, "{project}", w.Spec.ProjectRef.Name, "{run}", run, "{pass}", "<pass>", "{step}", "<step>")
}

// rolloutNames fills the names of r into a way out.
func rolloutNames(r *v1alpha1.Rollout) *strings.Replacer {
	pass, step := "<pass>", "<step>"
	if r.Status.Pass != nil {
		pass = r.Status.Pass.ID
	}
	if s, ok := currentStep(r); ok {
		step = s.Name
	}
	return strings.NewReplacer("{namespace}", r.Namespace, "{name}", r.Name, "{project}", r.Spec.ProjectRef, "{pass}", pass, "{step}", step)
}

// reasons has every reason of the API. A test compares it with the constants.
var reasons = merge(waiting, moving, failing, aside, rollouts)

func merge(tables ...map[v1alpha1.Reason]entry) map[v1alpha1.Reason]entry {
	all := map[v1alpha1.Reason]entry{}
	for _, table := range tables {
		for reason, e := range table {
			all[reason] = e
		}
	}
	return all
}
