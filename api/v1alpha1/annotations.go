package v1alpha1

// Annotations. Each has one writer, named in its comment; a service never writes another's.
const (
	// AnnotationExecutionAllowed ("true") is the first part of a grant. Writer: the rollout service.
	AnnotationExecutionAllowed = GroupName + "/execution-allowed"
	// AnnotationGrantedScope says how far a granted run may go: a GrantScope. Writer: the rollout service.
	AnnotationGrantedScope = GroupName + "/granted-scope"
	// AnnotationGrantedPass names the pass that a grant belongs to, StandingPass without a Rollout. Writer: the rollout service.
	AnnotationGrantedPass = GroupName + "/granted-pass"
	// AnnotationGrantedRevision pins the commit of a granted run; absent without a Rollout. Writer: the rollout service.
	AnnotationGrantedRevision = GroupName + "/granted-revision"
	// AnnotationGrantedFor is the GrantSubject that was granted: a grant for something else is no grant. Writer: the rollout service.
	AnnotationGrantedFor = GroupName + "/granted-for"

	// AnnotationGrantedAttempt numbers the fresh attempts that a pass gives a Workspace that has failed in it, from 1; absent for the first run. A run that
	// failed under a lower number is tried again at once, without its back-off. Writer: the rollout service.
	AnnotationGrantedAttempt = GroupName + "/granted-attempt"

	// AnnotationDetectedRevision is the commit to which the target revision resolved last. Writer: the refwatcher service.
	AnnotationDetectedRevision = GroupName + "/detected-revision"
	// AnnotationDetectedFor is the GrantSubject that AnnotationDetectedRevision was detected for, written together with it: where it differs from the
	// Workspace's present one, the commit is that of another repository or revision and says nothing. Writer: the refwatcher service.
	AnnotationDetectedFor = GroupName + "/detected-for"

	// AnnotationApproved approves the waiting plan of the run whose ID is its value. Writer: people.
	AnnotationApproved = GroupName + "/approved"
	// AnnotationApprovedBy is the user name of who set AnnotationApproved (or a Rollout's approval) last. Stamped, never believed from people: by an
	// admission policy where the cluster has such, by the services for callers of their RPCs; absent means that nobody knows. Removed with the approval.
	AnnotationApprovedBy = GroupName + "/approved-by"
	// AnnotationCancel ends the run whose ID is its value: a pod that runs is interrupted once and given its grace. Then the same inputs rest until they change
	// or a run is requested. Writer: people.
	AnnotationCancel = GroupName + "/cancel"
	// AnnotationConfirmEnded says that the run whose ID is its value has ended, where nothing else can prove it: its node is lost, or its pod was removed by force.
	// It counts only for a pod that looks lost or is being deleted, or is gone. Writer: people.
	AnnotationConfirmEnded = GroupName + "/confirm-ended"
	// AnnotationAbandon gives up the destruction that a Workspace under deletion owes (spec.deletionPolicy Destroy): with the Workspace's UID as its value the
	// Workspace goes as under Retain, and what it has applied stays as it is. Any other value does nothing. Writer: people.
	AnnotationAbandon = GroupName + "/abandon"
	// AnnotationReconcileRequest asks for a fresh run when its value is one not handled before. Writer: people.
	AnnotationReconcileRequest = GroupName + "/reconcile-request"
	// AnnotationReconcileInterval is the time between an apply and the next drift plan, a Go duration; default DefaultReconcileInterval. Writer: people.
	AnnotationReconcileInterval = GroupName + "/reconcile-interval"
	// AnnotationTFLogLevel is how much the tool says of its own doings in the log of a run, one of TFLogLevels; absent for none. Writer: people.
	AnnotationTFLogLevel = GroupName + "/tf-log-level"
	// AnnotationGitPollInterval is the time between two polls of the Workspace's repository, a Go duration; default DefaultGitPollInterval. Writer: people.
	AnnotationGitPollInterval = GroupName + "/git-poll-interval"
)

// TFLogLevels are the values of AnnotationTFLogLevel, the most talkative first.
func TFLogLevels() []string { return []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"} }

// Annotations on Rollouts. The rollout service removes what it has obeyed, and what is void: it names another pass or step than the present one. So GitOps
// tools do not undo them, and applying an old manifest again does nothing.
const (
	// AnnotationHold ("true") pauses a Rollout as spec.paused does; "false" and "" do not. It is never removed by a service. Writer: people.
	AnnotationHold = GroupName + "/hold"
	// AnnotationApprovedStep lets a pass enter a step that requires approval; its value is PassStep(pass ID, step name). Writer: people.
	AnnotationApprovedStep = GroupName + "/approved-step"
	// AnnotationRetryStep gives the failed Workspaces of the current step a fresh attempt at once; its value is PassStep(pass ID, step name). With the ID of
	// a pass that was aborted, or that went on without failed Workspaces, and any of its steps, it begins a new pass. Writer: people.
	AnnotationRetryStep = GroupName + "/retry-step"
	// AnnotationAbort ends the pass whose ID is its value. Writer: people.
	AnnotationAbort = GroupName + "/abort"
)

// UnknownApprover is recorded where AnnotationApprovedBy does not say who approved.
const UnknownApprover = "unknown"

// PassStep is how a command names a step of a pass.
func PassStep(pass, step string) string { return pass + "/" + step }

// Labels on the children of a Workspace (Jobs, Pods, ConfigMaps, PersistentVolumeClaims). Writer: the runner service.
const (
	// LabelWorkspace is the name of the Workspace.
	LabelWorkspace = GroupName + "/workspace"
	// LabelWorkspaceUID is the UID of the Workspace, so that a successor of the same name is told apart.
	LabelWorkspaceUID = GroupName + "/workspace-uid"
	// LabelRunID is the ID of the run.
	LabelRunID = GroupName + "/run-id"
	// LabelRunPhase is "plan" or "apply".
	LabelRunPhase = GroupName + "/run-phase"
)

// Labels of people.
const (
	// LabelSecretType with the value SecretTypeRepository marks a Secret that holds the credential of Git repositories. Writer: people.
	LabelSecretType = GroupName + "/secret-type"
	// SecretTypeRepository is the value of LabelSecretType for credentials of repositories.
	SecretTypeRepository = "repository"
)

// Annotations on run Jobs. Writer: the runner service.
const (
	// AnnotationRequestDigest is the digest of the StartRun request that made a Job: the same request finds its Job again, another is refused.
	AnnotationRequestDigest = GroupName + "/request-digest"
	// AnnotationRunResult is the durable result of an ended run Job, as JSON.
	AnnotationRunResult = GroupName + "/run-result"
	// AnnotationRunVoid ("true") marks the Job of a phase that was cancelled before it began: it is suspended, and deleted once its end is kept. No pod of it will ever run.
	AnnotationRunVoid = GroupName + "/run-void"
)

// Finalizers.
const (
	// FinalizerWorkspace keeps a Workspace until its runs have ended. Writer: the workspace service.
	FinalizerWorkspace = GroupName + "/workspace"
	// FinalizerRunner keeps a Workspace and its Jobs until their Pods have provably ended and what they left is removed. The workspace service adds it to a
	// Workspace together with its own, in one write; the runner service alone removes it, and writes it on Jobs.
	FinalizerRunner = GroupName + "/runner"
	// FinalizerResult keeps the Pod of a run, also one that is deleted by force, until it has provably ended and its result is written on the Job. Writer: the runner service.
	FinalizerResult = GroupName + "/result"
)
