package explain

import "magosproject.io/api/v1alpha1"

// rollouts has the reasons of Projects and Rollouts.
var rollouts = map[v1alpha1.Reason]entry{
	v1alpha1.ReasonDefaultParallel:  {says: "lets every Workspace run at once", wayOut: nothing},
	v1alpha1.ReasonManagedByRollout: {says: "leaves to its Rollout who may run", wayOut: "look at the Rollout: kubectl -n {namespace} get rollout {project} -o wide"},
	v1alpha1.ReasonRolloutMissing: {
		says:   "lets nothing run while it has no Rollout",
		wayOut: "create the Rollout {project} in namespace {namespace}, or set spec.orchestration of the Project to Auto: then every Workspace may run at once",
	},
	v1alpha1.ReasonNothingToDo:   {says: "has nothing to do", wayOut: nothing},
	v1alpha1.ReasonPassSucceeded: {says: "has brought every step where it should be", wayOut: nothing},
	v1alpha1.ReasonStepProgressing: {
		says: "waits for Workspaces", wayOut: "wait, or look at them: kubectl -n {namespace} get workspaces -o wide", members: true,
	},
	v1alpha1.ReasonStepSoaking: {
		says: "waits whether the Workspaces of its step stay as they are", wayOut: "wait until the time that the message names",
	},
	v1alpha1.ReasonSoakInterrupted: {
		says: "waits until drift in its step is mended, and soaks anew then", wayOut: "look at the Workspace that the message names: kubectl -n {namespace} get workspaces -o wide", members: true,
	},
	v1alpha1.ReasonWorkspaceFailed: {
		says: "is halted", wayOut: "mend the Workspace that the message names; the Rollout goes on by itself when it is Applied", members: true,
	},
	v1alpha1.ReasonWorkspaceDeadlineExceeded: {
		says: "is halted by a Workspace that is overdue", wayOut: "mend the Workspace that the message names; the Rollout goes on by itself when it is Applied. Or give it its time again: " +
			"kubectl -n {namespace} annotate rollout {name} --overwrite 'magosproject.io/retry-step={pass}/{step}' (needs the verb steer on rollouts)", members: true,
	},
	v1alpha1.ReasonProgressDeadlineExceeded: {
		says: "is halted because its pass is overdue", wayOut: "give the pass its time again: kubectl -n {namespace} annotate rollout {name} --overwrite " +
			"'magosproject.io/retry-step={pass}/{step}' (needs the verb steer on rollouts), or raise progressDeadline", members: true,
	},
	v1alpha1.ReasonNoWorkspacesFound: {
		says: "is halted by a selector that matches no Workspace of the Project", wayOut: "mend the selector of the step, or label a Workspace; it goes on by itself",
	},
	v1alpha1.ReasonInvalidSelector: {
		says: "is halted by a selector that cannot be understood", wayOut: "mend the selector in spec.strategy.steps: kubectl -n {namespace} edit rollout {name}",
	},
	v1alpha1.ReasonWorkspaceRetried: {
		says: "tries a failed Workspace again", wayOut: "wait, or mend the Workspace that the message names", members: true,
	},
	v1alpha1.ReasonAwaitingStepApproval: {
		says: "waits for a person to let it enter the step",
		wayOut: "kubectl -n {namespace} annotate rollout {name} --overwrite 'magosproject.io/approved-step={pass}/{step}' (needs the verb approve on rollouts), " +
			"or ApproveStep of the rollout service",
	},
	v1alpha1.ReasonStepApproved: {says: "was let into a step", wayOut: nothing},
	v1alpha1.ReasonStepRetried:  {says: "was asked to try a step again", wayOut: nothing},
	v1alpha1.ReasonPaused: {
		says: "is paused", wayOut: "set spec.paused to false where it is true, and lift a hold: kubectl -n {namespace} annotate rollout {name} magosproject.io/hold- (needs the verb steer on rollouts), or Resume of the rollout service",
	},
	v1alpha1.ReasonMemberSuspended: {
		says: "waits for Workspaces that are suspended", wayOut: "set spec.suspend of the Workspaces that the message names to false; the Rollout goes on by itself", members: true,
	},
	v1alpha1.ReasonAwaitingWindow: {
		says: "waits until its windows open", wayOut: "wait until status.opensAt, which the message names too, or edit spec.strategy.windows: kubectl -n {namespace} edit rollout {name}",
	},
	v1alpha1.ReasonAborted: {
		says: "was aborted", wayOut: "push a new commit, or begin a new pass: kubectl -n {namespace} annotate rollout {name} --overwrite " +
			"'magosproject.io/retry-step={pass}/{step}' (needs the verb steer on rollouts)",
	},
	v1alpha1.ReasonPassIncomplete: {
		says: "went on without Workspaces that failed", wayOut: "mend the Workspaces that the message names, then begin a new pass: kubectl -n {namespace} annotate rollout {name} --overwrite " +
			"'magosproject.io/retry-step={pass}/{step}' (needs the verb steer on rollouts)",
	},
	v1alpha1.ReasonCommandVoid: {
		says: "was given a command for another pass or step", wayOut: "look at status.pass.id and the current step, and command again",
	},
	v1alpha1.ReasonInvalidSpec: {
		says: "has a field that cannot be understood", wayOut: "write what the message asks for: kubectl -n {namespace} edit rollout {name}",
	},
	v1alpha1.ReasonSuperseded: {says: "gave a pass up for a newer one", wayOut: nothing},
}
