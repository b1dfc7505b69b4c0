package explain

import "magosproject.io/api/v1alpha1"

// waiting has the reasons of Workspaces that wait for somebody or something.
var waiting = map[v1alpha1.Reason]entry{
	v1alpha1.ReasonAwaitingRollout: {
		says: "waits for its turn", wayOut: "look at the Rollout: kubectl -n {namespace} get rollout {project} -o wide",
	},
	v1alpha1.ReasonProjectNotFound: {
		says: "waits for its Project, which does not exist", wayOut: "create the Project {project} in namespace {namespace}",
	},
	v1alpha1.ReasonAwaitingRevision: {
		says:   "waits for the commit of its target revision",
		wayOut: "wait some seconds: it is looked up again; if it stays so, look at the log of magos-refwatcher for the repository",
	},
	v1alpha1.ReasonRunnerUnavailable: {
		says: "waits for the runner service, which cannot be reached", wayOut: byItself + "; look whether the pods of magos-runner are ready",
	},
	v1alpha1.ReasonRefWatcherUnavailable: {
		says: "waits for the refwatcher service, which cannot be reached", wayOut: byItself + "; look whether the pods of magos-refwatcher are ready",
	},
	v1alpha1.ReasonRemoteUnavailable: {
		says:   "waits for the Git remote, which could not be asked",
		wayOut: byItself + "; look whether the URL, the credentials and the way to the host are right",
	},
	v1alpha1.ReasonRevisionNotFound: {
		says: "names a target revision that the repository does not have", wayOut: "push the branch or tag, or mend spec.source of Workspace {name}",
	},
	v1alpha1.ReasonAmbiguousRevision: {
		says:   "names a target revision that is a branch and a tag",
		wayOut: "write the full name into spec.source.targetRevision: refs/heads/… or refs/tags/…",
	},
	v1alpha1.ReasonSourceRefused: {
		says:   "has a repository URL that this installation does not ask",
		wayOut: "mend spec.source.repoURL, or allow its scheme (--git-schemes of magos-refwatcher)",
	},
	v1alpha1.ReasonAwaitingApproval: {
		says: "waits for a person to approve its plan",
		wayOut: "read the plan, then approve it: kubectl -n {namespace} annotate workspace {name} --overwrite magosproject.io/approved={run} " +
			"(needs the verb approve on workspaces); or give it up: " + askForRun,
	},
	v1alpha1.ReasonRunPending: {
		says:   "waits for the pod of its run to start",
		wayOut: "kubectl -n {namespace} describe pods -l magosproject.io/run-id={run} says what Kubernetes waits for; without a start it is given up after ten minutes and tried anew",
	},
	v1alpha1.ReasonServiceAccountNotFound: {
		says:   "waits for the ServiceAccount of its run, which does not exist",
		wayOut: "create the ServiceAccount that spec.serviceAccountName of Workspace {name} names, or mend the name",
	},
	v1alpha1.ReasonQuotaExceeded: {
		says: "waits for a ResourceQuota that leaves no room for the pod of its run", wayOut: "raise the quota of namespace {namespace}, or wait for others to end",
	},
	v1alpha1.ReasonImagePullBackOff: {
		says:   "waits for the run image, which cannot be pulled",
		wayOut: "look whether the image and its registry can be reached from the node and need a pull secret (the chart's values image and runner.runImage)",
	},
	v1alpha1.ReasonUnschedulable: {
		says: "waits for a node that takes the pod of its run", wayOut: "add or free nodes; kubectl -n {namespace} describe pods -l magosproject.io/run-id={run} says what each lacks",
	},
	v1alpha1.ReasonNodeLost: {
		says: "waits for the node of its run, which is silent",
		wayOut: "bring the node back, or prove that its pod has ended: shut the machine down, then delete its Node object; nothing new runs before that. Whoever is sure that it " +
			"has ended may say so: kubectl -n {namespace} annotate workspace {name} --overwrite magosproject.io/confirm-ended={run} (needs the verb destroy on workspaces)",
	},
	v1alpha1.ReasonRunnerRefused: {
		says: "waits for the runner service, which answers with an error", wayOut: byItself + "; look at what the message names: the log of magos-runner, or a right that is missing",
	},
	v1alpha1.ReasonRefWatcherRefused: {
		says: "waits for the refwatcher service, which answers with an error", wayOut: byItself + "; look at what the message names: the log of magos-refwatcher, or a right that is missing",
	},
	v1alpha1.ReasonAwaitingBudget: {
		says: "has a plan whose changes are counted against the budget of its Rollout", wayOut: "look at the Rollout: kubectl -n {namespace} get rollout {project} -o wide",
	},
	v1alpha1.ReasonSuspended: {
		says: "is suspended", wayOut: "set spec.suspend to false: kubectl -n {namespace} edit workspace {name}",
	},
	"HostKeyNotVerified": {
		says: "has a repository whose server nobody can verify", wayOut: "add knownHosts to the Secret with the credential of the repository",
	},
	"CredentialInvalid": {
		says: "has a credential of its repository that cannot be used", wayOut: "mend the Secret and key that the message names, or delete one where there are two",
	},
	v1alpha1.ReasonCancelling: {
		says: "ends the run that a person cancelled", wayOut: waitForIt,
	},
	v1alpha1.ReasonNamespaceTerminating: {
		says: "owes a destroy that cannot be started, since its namespace is being deleted", wayOut: abandon,
	},
	v1alpha1.ReasonDefinitionTerminating: {
		says: "owes a destroy that is not started, since the definition of Workspaces is being deleted", wayOut: abandon,
	},
	v1alpha1.ReasonInputsLost: {
		says: "owes a destroy, and what was applied last is not known any more", wayOut: abandon,
	},
	v1alpha1.ReasonDestroyed: {
		says: "has destroyed everything that it had applied", wayOut: "wait until the services have taken their finalizers away",
	},
	v1alpha1.ReasonDeleting: {
		says: "is being deleted", wayOut: "wait until its run has ended and the services have taken their finalizers away; " + logs,
	},
}

// moving has the reasons of Workspaces that are on their way, or where they should be.
var moving = map[v1alpha1.Reason]entry{
	v1alpha1.ReasonPlanRunning:    {says: "is planning", wayOut: waitForIt},
	v1alpha1.ReasonPlanSucceeded:  {says: "has a plan and is about to apply it", wayOut: "wait some seconds; if it stays so, look at the log of magos-workspace"},
	v1alpha1.ReasonApplyRunning:   {says: "is applying", wayOut: waitForIt},
	v1alpha1.ReasonApplySucceeded: {says: "is where it should be", wayOut: nothing},
	v1alpha1.ReasonNoChanges:      {says: "is where it should be, with nothing to change", wayOut: nothing},
	v1alpha1.ReasonRunDiscarded:   {says: "gave its last run up and begins again", wayOut: "wait for the next run; the message says why the last one was given up"},
}

// failing has the reasons of Workspaces that failed.
var failing = map[v1alpha1.Reason]entry{
	v1alpha1.ReasonPlanFailed:      {says: "failed to plan", wayOut: "mend the module, its variables or its rights; " + logs + mendAndGo},
	v1alpha1.ReasonApplyFailed:     {says: "failed to apply", wayOut: "mend what the tool complains about; the next attempt plans again; " + logs + mendAndGo},
	v1alpha1.ReasonTimedOut:        {says: "ran out of time", wayOut: "find out what took so long, or raise spec.plan.timeoutSeconds or spec.apply.timeoutSeconds; " + logs},
	v1alpha1.ReasonInterrupted:     {says: "was interrupted before the tool was done", wayOut: byItself + ", and plans again; look what drained or evicted the pod; at once: " + askForRun},
	v1alpha1.ReasonRunLost:         {says: "lost its run, and with it what the run did", wayOut: byItself + ", and plans again; look what deleted the Job; at once: " + askForRun},
	v1alpha1.ReasonFetchFailed:     {says: "could not fetch its repository, a module, a provider or the tool", wayOut: "look whether the run pods reach the host and have the credentials; " + logs + mendAndGo},
	v1alpha1.ReasonToolUnavailable: {says: "could not get the declared version of its tool", wayOut: "mend spec.terraform.version, or put the version where the chart's value runner.toolMirror points" + mendAndGo},
	v1alpha1.ReasonStorageNotWritable: {
		says: "could not write its volume", wayOut: "look at the PersistentVolumeClaim {name}-data and its StorageClass: it must support fsGroup and have room" + mendAndGo,
	},
	v1alpha1.ReasonSealBroken:  {says: "found its sealed plan changed and applied nothing", wayOut: "find out who writes to the volume {name}-data; the next attempt plans again" + mendAndGo},
	v1alpha1.ReasonAlreadyUsed: {says: "found its plan used before and applied nothing", wayOut: "nothing was applied twice; the next attempt plans again: " + askForRun},
	v1alpha1.ReasonStateLocked: {
		says:   "found the lock of its state held by somebody else",
		wayOut: "wait until the holder is done; only if it has provably ended, break the lock with force-unlock of your tool; then " + askForRun,
	},
	v1alpha1.ReasonInitContainerFailed: {
		says:   "could not start its run, because a container that something in the cluster adds to its pod failed",
		wayOut: "the message names the init container: look for the webhook that adds it, and keep it from the pods of runs, or mend it; the run begins again by itself",
	},
	v1alpha1.ReasonPlanUnreadable: {
		says:   "gave up a plan that has to be approved and that nobody can read",
		wayOut: byItself + ": it is planned again; if it stays so, look whether the runner can read the logs of pods (pods/log, the kubelet) and write ConfigMaps in namespace {namespace}",
	},
	v1alpha1.ReasonStalePlan: {
		says: "found its state changed after the plan was made and applied nothing", wayOut: "it plans again by itself; look who else writes the state if it stays so",
	},
	v1alpha1.ReasonRetriesExhausted: {
		says: "failed as often as spec.retry.limit allows", wayOut: "mend what the message says" + mendAndGo,
	},
	v1alpha1.ReasonCancelled: {
		says: "was cancelled by a person", wayOut: "it rests until its inputs change, or ask for a run: " + askForRun,
	},
	v1alpha1.ReasonStorageFull: {
		says: "ran out of room on its volume", wayOut: "make the PersistentVolumeClaim {name}-data larger, or let the module need less" + mendAndGo,
	},
	v1alpha1.ReasonUnresolvedVariables: {
		says: "lacks the source of a variable", wayOut: "create what the message names, or mend the VariableSet; it goes on by itself",
	},
}

// aside has the reasons of conditions and Events that explain a Workspace or VariableSet beside its phase.
var aside = map[v1alpha1.Reason]entry{
	v1alpha1.ReasonRevisionResolved:     {says: "knows the commit of its target revision again", wayOut: nothing},
	v1alpha1.ReasonAllVariablesResolved: {says: "has the source of every variable", wayOut: nothing},
	v1alpha1.ReasonApprovalVoid: {
		says: "was approved with a value that approves nothing", wayOut: "approve the run that status.awaitingApproval.runID names",
	},
	v1alpha1.ReasonCancelVoid: {
		says: "was cancelled with a value that names no live run", wayOut: "write the ID of the run that lives, status.run.id, or leave it",
	},
	v1alpha1.ReasonDestroyUnobstructed: {says: "has nothing in the way of its destroy", wayOut: nothing},
	v1alpha1.ReasonApproved:            {says: "was approved", wayOut: nothing},
	v1alpha1.ReasonInvalidAnnotation: {
		says: "has an annotation that cannot be understood", wayOut: "write what the message asks for; until then the default is used",
	},
	v1alpha1.ReasonAnnotationsUnderstood: {says: "has annotations that are understood", wayOut: nothing},
	v1alpha1.ReasonAllReferencesResolved: {says: "has every value that it refers to", wayOut: nothing},
	v1alpha1.ReasonUnresolvedReferences: {
		says: "refers to what is not there", wayOut: "create what status.unresolvedReferences lists, or mend the reference; it goes on by itself",
	},
}
