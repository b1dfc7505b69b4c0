package v1alpha1

// Phase is where a Workspace stands. It is derived for people and never read back by a service.
// +kubebuilder:validation:Enum=Pending;Planning;Planned;PlannedWithViolations;Applying;Applied;Failed;ValidationFailed
type Phase string

// The phases of a Workspace.
const (
	// PhasePending waits for a grant, a revision, a peer, or the start of its pod; the reason says which.
	PhasePending Phase = "Pending"
	// PhasePlanning has a plan Job.
	PhasePlanning Phase = "Planning"
	// PhasePlanned has a clean plan that is about to be applied or waits for a person.
	PhasePlanned Phase = "Planned"
	// PhasePlannedWithViolations has a plan with policy warnings; it always waits for a person.
	PhasePlannedWithViolations Phase = "PlannedWithViolations"
	// PhaseApplying has an apply Job.
	PhaseApplying Phase = "Applying"
	// PhaseApplied has nothing left to do until the next drift plan.
	PhaseApplied Phase = "Applied"
	// PhaseFailed ended with an error; the reason says which, the message what to do.
	PhaseFailed Phase = "Failed"
	// PhaseValidationFailed has a plan that a policy refused.
	PhaseValidationFailed Phase = "ValidationFailed"
)

// RolloutPhase is where a Rollout stands. It is derived for people and never read back by a service.
// +kubebuilder:validation:Enum=Idle;Progressing;Soaking;AwaitingApproval;Waiting;Paused;Failed;Aborted;Succeeded
type RolloutPhase string

// The phases of a Rollout and of its steps.
const (
	// RolloutIdle has had no pass yet: no member wants anything.
	RolloutIdle RolloutPhase = "Idle"
	// RolloutProgressing walks through its steps.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutSoaking waits until the Workspaces of the current step, all done, have stayed so for as long as soak says.
	RolloutSoaking RolloutPhase = "Soaking"
	// RolloutAwaitingApproval waits until a person lets the pass enter its next step.
	RolloutAwaitingApproval RolloutPhase = "AwaitingApproval"
	// RolloutWaiting gives no new grants until a window opens.
	RolloutWaiting RolloutPhase = "Waiting"
	// RolloutPaused grants nothing new because spec.paused or the annotation hold says so.
	RolloutPaused RolloutPhase = "Paused"
	// RolloutAborted ended its pass early and rests until a new commit comes or a person retries.
	RolloutAborted RolloutPhase = "Aborted"
	// RolloutFailed is halted; the reason says why. It resumes by itself when the cause is mended.
	RolloutFailed RolloutPhase = "Failed"
	// RolloutSucceeded has brought every member of the last pass to Applied.
	RolloutSucceeded RolloutPhase = "Succeeded"
)

// StepPhase is where one step of a pass stands.
// +kubebuilder:validation:Enum=Pending;AwaitingApproval;Progressing;Soaking;Failed;Aborted;Incomplete;Succeeded
type StepPhase string

// The phases of a step.
const (
	// StepPending has not been reached by the pass.
	StepPending StepPhase = "Pending"
	// StepAwaitingApproval is the current step and waits until a person lets the pass enter it.
	StepAwaitingApproval StepPhase = "AwaitingApproval"
	// StepProgressing is the current step.
	StepProgressing StepPhase = "Progressing"
	// StepSoaking is the current step and has every member done; it waits whether they stay so.
	StepSoaking StepPhase = "Soaking"
	// StepFailed is the current step and has a failed member, or matches none.
	StepFailed StepPhase = "Failed"
	// StepAborted was the current step when the pass was aborted.
	StepAborted StepPhase = "Aborted"
	// StepIncomplete was left without Workspaces that failed: onFailure is Continue.
	StepIncomplete StepPhase = "Incomplete"
	// StepSucceeded has every member done in this pass.
	StepSucceeded StepPhase = "Succeeded"
)

// PassResult says how a pass ended.
// +kubebuilder:validation:Enum=Succeeded;Incomplete;Superseded;Aborted
type PassResult string

// The results of a pass.
const (
	// PassSucceeded brought every member to Applied.
	PassSucceeded PassResult = "Succeeded"
	// PassIncomplete came to its end without Workspaces that failed: onFailure is Continue.
	PassIncomplete PassResult = "Incomplete"
	// PassSuperseded made way for a pass with a newer commit or edited steps.
	PassSuperseded PassResult = "Superseded"
	// PassAborted was ended by a person or by onFailure Abort.
	PassAborted PassResult = "Aborted"
)

// PassResults lists every result of a pass.
func PassResults() []PassResult {
	return []PassResult{PassSucceeded, PassIncomplete, PassSuperseded, PassAborted}
}

// Trigger says why a run was wanted.
// +kubebuilder:validation:Enum=Spec;Revision;Variables;Manual;Drift;Retry;Destroy
type Trigger string

// The triggers, the ones that a person waits for first.
const (
	// TriggerSpec is a new Workspace or an edit of its spec.
	TriggerSpec Trigger = "Spec"
	// TriggerRevision is a new commit.
	TriggerRevision Trigger = "Revision"
	// TriggerVariables is a change of the variables, or of what they refer to.
	TriggerVariables Trigger = "Variables"
	// TriggerManual is a fresh value of the reconcile-request annotation.
	TriggerManual Trigger = "Manual"
	// TriggerRetry is a further attempt after a failure with the same inputs.
	TriggerRetry Trigger = "Retry"
	// TriggerDrift is the schedule: look whether reality still matches.
	TriggerDrift Trigger = "Drift"
	// TriggerDestroy is the deletion of a Workspace whose spec.deletionPolicy is Destroy: the run destroys what was applied.
	TriggerDestroy Trigger = "Destroy"
)

// RunPhase is how far a run has come: what the workspace service has recorded as its intent or seen as its result.
// +kubebuilder:validation:Enum=Planning;Planned;Applying;Succeeded;Failed;Discarded
type RunPhase string

// The phases of a run. Succeeded, Failed and Discarded are terminal.
const (
	// RunPlanning is recorded before the plan Job is asked for.
	RunPlanning RunPhase = "Planning"
	// RunPlanned has a sealed plan that may be applied.
	RunPlanned RunPhase = "Planned"
	// RunApplying is recorded before the apply Job is asked for.
	RunApplying RunPhase = "Applying"
	// RunSucceeded has applied its plan, or found nothing to apply.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed ended with an error.
	RunFailed RunPhase = "Failed"
	// RunDiscarded was given up before its apply: superseded, or its grant was taken.
	RunDiscarded RunPhase = "Discarded"
)

// Terminal reports whether a run in this phase will never start anything again.
func (p RunPhase) Terminal() bool {
	return p == RunSucceeded || p == RunFailed || p == RunDiscarded
}

// Condition types.
const (
	// ConditionReady is True when what the spec asks for is in force. On every kind.
	ConditionReady = "Ready"
	// ConditionAnnotationsValid is False while an annotation of a person cannot be understood and its default is used instead.
	ConditionAnnotationsValid = "AnnotationsValid"
	// ConditionDriftCheckFailed is True while the last drift plan of an Applied Workspace failed.
	ConditionDriftCheckFailed = "DriftCheckFailed"
	// ConditionDestroyBlocked is True while a Workspace under deletion cannot destroy what it has applied; the reason says why. Absent unless a destroy is owed.
	ConditionDestroyBlocked = "DestroyBlocked"
	// ConditionInputsResolved is False while a variable of the Workspace, or the Project or VariableSet it comes from, is missing.
	ConditionInputsResolved = "InputsResolved"
)

// Reason says in one CamelCase word why something is as it is. Alerts may key off it.
// The reason of an Event is the reason of the condition it announces.
type Reason = string

// Reasons of Workspaces.
const (
	// ReasonAwaitingRollout: waits for its turn; look at the Rollout of its Project.
	ReasonAwaitingRollout Reason = "AwaitingRollout"
	// ReasonProjectNotFound: the Project that spec.projectRef names does not exist; create it.
	ReasonProjectNotFound Reason = "ProjectNotFound"
	// ReasonAwaitingRevision: no commit is known yet for the target revision; the message has git's error, if any.
	ReasonAwaitingRevision Reason = "AwaitingRevision"
	// ReasonRunnerUnavailable: the runner service cannot be reached; it is retried.
	ReasonRunnerUnavailable Reason = "RunnerUnavailable"
	// ReasonRefWatcherUnavailable: the refwatcher service cannot be reached; it is retried.
	ReasonRefWatcherUnavailable Reason = "RefWatcherUnavailable"
	// ReasonRunnerRefused: the runner service answers, but with an error that nobody expects; the message names the RPC, the code and where to look. It is retried.
	ReasonRunnerRefused Reason = "RunnerRefused"
	// ReasonRefWatcherRefused: the same of the refwatcher service.
	ReasonRefWatcherRefused Reason = "RefWatcherRefused"
	// ReasonRevisionNotFound: the target revision does not exist in the repository; mend spec.source or push it.
	ReasonRevisionNotFound Reason = "RevisionNotFound"
	// ReasonAmbiguousRevision: the target revision names a branch and a tag; write the full name, refs/heads/… or refs/tags/….
	ReasonAmbiguousRevision Reason = "AmbiguousRevision"
	// ReasonRemoteUnavailable: the Git remote could not be asked for its refs; the message has its words. It is retried.
	ReasonRemoteUnavailable Reason = "RemoteUnavailable"
	// ReasonSourceRefused: this installation does not ask the remote at all: the scheme of spec.source.repoURL, or its form, is not allowed. Mend spec.source.
	ReasonSourceRefused Reason = "SourceRefused"
	// ReasonCredentialInvalid: the Secret with the credential of the repository cannot be used, or there are two of them; the message names Secret and key.
	ReasonCredentialInvalid Reason = "CredentialInvalid"
	// ReasonHostKeyNotVerified: the credential of the repository has no knownHosts, so nobody knows whether its server is the one that is meant. Add knownHosts.
	ReasonHostKeyNotVerified Reason = "HostKeyNotVerified"
	// ReasonRevisionResolved: the target revision can be resolved again.
	ReasonRevisionResolved Reason = "RevisionResolved"
	// ReasonRunPending: the Job exists and its pod has not started; the message says what Kubernetes waits for.
	ReasonRunPending Reason = "RunPending"
	// ReasonPlanRunning: the plan Job runs.
	ReasonPlanRunning Reason = "PlanRunning"
	// ReasonPlanSucceeded: the plan is clean and is about to be applied.
	ReasonPlanSucceeded Reason = "PlanSucceeded"
	// ReasonAwaitingApproval: the plan waits for the annotation magosproject.io/approved with the run's ID.
	ReasonAwaitingApproval Reason = "AwaitingApproval"
	// ReasonAwaitingBudget: the plan may be looked at and not applied yet: its changes are counted against the budget of the Rollout. Look at the Rollout.
	ReasonAwaitingBudget Reason = "AwaitingBudget"
	// ReasonApplyRunning: the apply Job runs.
	ReasonApplyRunning Reason = "ApplyRunning"
	// ReasonApplySucceeded: the apply succeeded.
	ReasonApplySucceeded Reason = "ApplySucceeded"
	// ReasonNoChanges: the plan was empty; nothing had to be applied.
	ReasonNoChanges Reason = "NoChanges"
	// ReasonPlanFailed: the tool could not plan; the message has its last lines.
	ReasonPlanFailed Reason = "PlanFailed"
	// ReasonApplyFailed: the tool could not apply; the message has its last lines. The next attempt plans again.
	ReasonApplyFailed Reason = "ApplyFailed"
	// ReasonTimedOut: the plan or apply was interrupted at spec.{plan,apply}.timeoutSeconds.
	ReasonTimedOut Reason = "TimedOut"
	// ReasonInterrupted: the pod was asked to end (eviction, drain, deletion) before the tool was done.
	ReasonInterrupted Reason = "Interrupted"
	// ReasonRunLost: a Job that was asked for does not exist, or its result can no longer be read. The next attempt plans again.
	ReasonRunLost Reason = "RunLost"
	// ReasonNodeLost: the node of the pod is gone or silent; nothing new runs until the pod has provably ended.
	ReasonNodeLost Reason = "NodeLost"
	// ReasonFetchFailed: the repository, a module, a provider or the tool itself could not be fetched.
	ReasonFetchFailed Reason = "FetchFailed"
	// ReasonToolUnavailable: the declared version of the tool is nowhere to be had, or its checksum differs; the message names what was tried.
	ReasonToolUnavailable Reason = "ToolUnavailable"
	// ReasonStorageNotWritable: the run's volume cannot be written; look at its StorageClass and fsGroup support.
	ReasonStorageNotWritable Reason = "StorageNotWritable"
	// ReasonStorageFull: the run's volume, or its pod's own storage, is full; the message says how much is free where.
	ReasonStorageFull Reason = "StorageFull"
	// ReasonSealBroken: what was sealed does not match its digest; nothing was applied.
	ReasonSealBroken Reason = "SealBroken"
	// ReasonAlreadyUsed: the plan was claimed before; a plan is applied once at most.
	ReasonAlreadyUsed Reason = "AlreadyUsed"
	// ReasonStateLocked: somebody else holds the lock of the state; nothing was planned or applied. The message says who, since when, and how to act. It is
	// waited for with growing pauses and never broken; it counts as no failure.
	ReasonStateLocked Reason = "StateLocked"
	// ReasonStalePlan: the state changed after the plan was made, so the tool refused to apply it; nothing was applied. It is planned again and counts as no failure.
	ReasonStalePlan Reason = "StalePlan"
	// ReasonInitContainerFailed: an init container that something in the cluster adds to the run's pod failed, so that no container of the run was started; the message
	// names it. It counts as no failure.
	ReasonInitContainerFailed Reason = "InitContainerFailed"
	// ReasonPlanUnreadable: a person has to approve the plan, and nobody can read it; the message says why. Nothing was applied. It is planned again, after growing
	// pauses, and counts as no failure.
	ReasonPlanUnreadable Reason = "PlanUnreadable"
	// ReasonRetriesExhausted: the same inputs failed more often than spec.retry.limit tries them again; they rest until they change or a run is requested.
	ReasonRetriesExhausted Reason = "RetriesExhausted"
	// ReasonServiceAccountNotFound: the ServiceAccount of the run does not exist in the namespace.
	ReasonServiceAccountNotFound Reason = "ServiceAccountNotFound"
	// ReasonQuotaExceeded: a ResourceQuota refuses the pod.
	ReasonQuotaExceeded Reason = "QuotaExceeded"
	// ReasonImagePullBackOff: the run image cannot be pulled.
	ReasonImagePullBackOff Reason = "ImagePullBackOff"
	// ReasonUnschedulable: no node takes the pod.
	ReasonUnschedulable Reason = "Unschedulable"
	// ReasonUnresolvedVariables: a variable's source is missing; the message lists them.
	ReasonUnresolvedVariables Reason = "UnresolvedVariables"
	// ReasonAllVariablesResolved: every variable of the Workspace has its source.
	ReasonAllVariablesResolved Reason = "AllVariablesResolved"
	// ReasonApprovalVoid: an approval named something else than the waiting run and was removed.
	ReasonApprovalVoid Reason = "ApprovalVoid"
	// ReasonApproved: the waiting plan was approved.
	ReasonApproved Reason = "Approved"
	// ReasonRunDiscarded: a plan was given up before its apply; the message says why.
	ReasonRunDiscarded Reason = "RunDiscarded"
	// ReasonCancelling: a person cancelled the run; its pod was asked to end and is given its grace.
	ReasonCancelling Reason = "Cancelling"
	// ReasonCancelled: a person cancelled the run. The same inputs rest until they change or a run is requested.
	ReasonCancelled Reason = "Cancelled"
	// ReasonCancelVoid: a cancel named something else than the live run and was removed.
	ReasonCancelVoid Reason = "CancelVoid"
	// ReasonSuspended: spec.suspend is set; nothing new starts until it is false or removed.
	ReasonSuspended Reason = "Suspended"
	// ReasonInvalidAnnotation: an annotation cannot be understood; the message names it, its value and what to write.
	ReasonInvalidAnnotation Reason = "InvalidAnnotation"
	// ReasonAnnotationsUnderstood: every annotation of a person can be understood.
	ReasonAnnotationsUnderstood Reason = "AnnotationsUnderstood"
	// ReasonDeleting: the Workspace is being deleted; a run that still lives is let end.
	ReasonDeleting Reason = "Deleting"
	// ReasonDestroyed: everything that the Workspace had applied is destroyed; the Workspace goes.
	ReasonDestroyed Reason = "Destroyed"
	// ReasonDestroyUnobstructed: nothing that is known keeps the destroy from going on.
	ReasonDestroyUnobstructed Reason = "DestroyUnobstructed"
	// ReasonNamespaceTerminating: the namespace is being deleted, so that nothing can be started in it, and the Workspace still owes a destroy. Nothing can be
	// destroyed any more by this Workspace: destroy by hand what is to go, then set the annotation magosproject.io/abandon as the message says.
	ReasonNamespaceTerminating Reason = "NamespaceTerminating"
	// ReasonDefinitionTerminating: the same, of the CustomResourceDefinition of Workspaces. Nobody means to destroy everything by removing it.
	ReasonDefinitionTerminating Reason = "DefinitionTerminating"
	// ReasonInputsLost: what the runner had kept of the inputs that were applied last is gone, so that nobody knows what to destroy with. Destroy by hand, then abandon.
	ReasonInputsLost Reason = "InputsLost"
)

// Reasons of Projects.
const (
	// ReasonDefaultParallel: no Rollout exists; every Workspace may run at once.
	ReasonDefaultParallel Reason = "DefaultParallel"
	// ReasonManagedByRollout: the Rollout of the same name decides who may run.
	ReasonManagedByRollout Reason = "ManagedByRollout"
	// ReasonRolloutMissing: the Project wants a Rollout of its name and there is none; nothing runs until it is created.
	ReasonRolloutMissing Reason = "RolloutMissing"
)

// Reasons of Rollouts.
const (
	// ReasonNothingToDo: no member wants anything.
	ReasonNothingToDo Reason = "NothingToDo"
	// ReasonStepProgressing: the current step's members run.
	ReasonStepProgressing Reason = "StepProgressing"
	// ReasonStepSoaking: the current step's members are done; the pass goes on when they have stayed so for as long as the step's soak says.
	ReasonStepSoaking Reason = "StepSoaking"
	// ReasonSoakInterrupted: drift was found in a member of the current step, which soaks; the soak begins anew when it is mended.
	ReasonSoakInterrupted Reason = "SoakInterrupted"
	// ReasonPassSucceeded: every step of the last pass is done.
	ReasonPassSucceeded Reason = "PassSucceeded"
	// ReasonWorkspaceFailed: a member of the current step failed; later steps wait. The message names it.
	ReasonWorkspaceFailed Reason = "WorkspaceFailed"
	// ReasonWorkspaceDeadlineExceeded: a member of the current step was not Applied within the step's workspaceDeadline; later steps wait. The message names it.
	ReasonWorkspaceDeadlineExceeded Reason = "WorkspaceDeadlineExceeded"
	// ReasonProgressDeadlineExceeded: the pass was not done within progressDeadline; no further member is granted.
	ReasonProgressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	// ReasonNoWorkspacesFound: the current step's selector matches no Workspace of the Project.
	ReasonNoWorkspacesFound Reason = "NoWorkspacesFound"
	// ReasonInvalidSelector: a step's selector cannot be understood.
	ReasonInvalidSelector Reason = "InvalidSelector"
	// ReasonWorkspaceRetried: a member of the current step failed and is tried again at once, as onFailure says.
	ReasonWorkspaceRetried Reason = "WorkspaceRetried"
	// ReasonAwaitingStepApproval: the current step requires approval; write the annotation magosproject.io/approved-step as the message says.
	ReasonAwaitingStepApproval Reason = "AwaitingStepApproval"
	// ReasonStepApproved: a person let the pass enter a step.
	ReasonStepApproved Reason = "StepApproved"
	// ReasonStepRetried: a person asked for a fresh attempt of the failed members.
	ReasonStepRetried Reason = "StepRetried"
	// ReasonPaused: spec.paused or the annotation magosproject.io/hold holds every new grant back; set it to false or remove it.
	ReasonPaused Reason = "Paused"
	// ReasonMemberSuspended: all that the current step waits for are members with spec.suspend; set it to false. The message names them.
	ReasonMemberSuspended Reason = "MemberSuspended"
	// ReasonAwaitingWindow: no new grant is given outside of the windows of the Rollout; status.opensAt says when they open.
	ReasonAwaitingWindow Reason = "AwaitingWindow"
	// ReasonAborted: the pass was ended early; a new commit or the annotation magosproject.io/retry-step begins the next.
	ReasonAborted Reason = "Aborted"
	// ReasonPassIncomplete: the last pass went on without members that failed, as onFailure says; the message names them.
	ReasonPassIncomplete Reason = "PassIncomplete"
	// ReasonCommandVoid: an annotation of a person named something else than the present pass and step, and was removed.
	ReasonCommandVoid Reason = "CommandVoid"
	// ReasonInvalidSpec: a field cannot be understood, so nothing is granted; the message says what to write instead.
	ReasonInvalidSpec Reason = "InvalidSpec"
	// ReasonSuperseded: a pass that was stuck, or any with onNewRevision Restart, made way for one with a newer commit or edited steps.
	ReasonSuperseded Reason = "Superseded"
)

// Reasons of VariableSets.
const (
	// ReasonAllReferencesResolved: every reference leads to a value.
	ReasonAllReferencesResolved Reason = "AllReferencesResolved"
	// ReasonUnresolvedReferences: status.unresolvedReferences lists what is missing.
	ReasonUnresolvedReferences Reason = "UnresolvedReferences"
)
