package rpcerr

// The reasons, as they appear in google.rpc.ErrorInfo. docs/errors.md says what each asks the caller to do.
const (
	// RequestDiffers: the run's Job exists for another request.
	RequestDiffers = "REQUEST_DIFFERS"
	// RunNotFound: no such Job.
	RunNotFound = "RUN_NOT_FOUND"
	// RunNotRecorded: the Workspace's status does not name this run, phase and digest.
	RunNotRecorded = "RUN_NOT_RECORDED"
	// RunStillLive: an earlier pod of the Workspace has not provably ended.
	RunStillLive = "RUN_STILL_LIVE"
	// RunVoid: the phase was cancelled before its Job existed.
	RunVoid = "RUN_VOID"
	// ServiceAccountNotFound: the ServiceAccount of the run does not exist.
	ServiceAccountNotFound = "SERVICE_ACCOUNT_NOT_FOUND"
	// VolumeNotReady: the Workspace's volume claim belongs to another Workspace or is going away.
	VolumeNotReady = "VOLUME_NOT_READY"
	// ConfigMapDiffers: the run's ConfigMap exists with another content.
	ConfigMapDiffers = "CONFIG_MAP_DIFFERS"
	// RunNotLive: the run that is to be cancelled has ended, or another lives.
	RunNotLive = "RUN_NOT_LIVE"
	// LogsGone: the pod whose log was asked for is gone.
	LogsGone = "LOGS_GONE"
	// ReviewUnavailable: what people read of a plan cannot be had; the message says why.
	ReviewUnavailable = "REVIEW_UNAVAILABLE"
	// WorkspaceNotFound: no such Workspace, or not with this UID.
	WorkspaceNotFound = "WORKSPACE_NOT_FOUND"
	// RolloutNotFound: no such Rollout.
	RolloutNotFound = "ROLLOUT_NOT_FOUND"
	// RevisionNotFound: the remote has no such branch, tag or commit.
	RevisionNotFound = "REVISION_NOT_FOUND"
	// AmbiguousRevision: a branch and a tag have the name.
	AmbiguousRevision = "AMBIGUOUS_REVISION"
	// SchemeNotAllowed: the repository's URL has a scheme that this installation refuses.
	SchemeNotAllowed = "SCHEME_NOT_ALLOWED"
	// CredentialInvalid: the Secret with the credential of the repository cannot be used, or there are two for it.
	CredentialInvalid = "CREDENTIAL_INVALID"
	// RemoteUnavailable: the Git remote did not answer.
	RemoteUnavailable = "REMOTE_UNAVAILABLE"
	// NoLeader: no replica of the service leads at present.
	NoLeader = "NO_LEADER"
	// Conflict: the object changed in between.
	Conflict = "CONFLICT"
	// NotAwaitingApproval: no plan waits for an approval, or another one does.
	NotAwaitingApproval = "NOT_AWAITING_APPROVAL"
	// OtherPass: the command names a pass that is not the present one.
	OtherPass = "OTHER_PASS"
	// OtherStep: the command names a step that is not the current one.
	OtherStep = "OTHER_STEP"
	// PassOver: the pass that the command names has ended.
	PassOver = "PASS_OVER"
	// PausedInSpec: spec.paused holds the Rollout, and the command cannot change that.
	PausedInSpec = "PAUSED_IN_SPEC"
	// InvalidField: fields of the request are missing or wrong; the field violations name them.
	InvalidField = "INVALID_FIELD"
	// Unauthenticated: the token is missing, expired, or not for this service.
	Unauthenticated = "UNAUTHENTICATED"
	// PermissionDenied: the caller lacks the right that the message names.
	PermissionDenied = "PERMISSION_DENIED"
	// KubernetesUnavailable: the Kubernetes API could not be asked.
	KubernetesUnavailable = "KUBERNETES_UNAVAILABLE"
	// ServerDraining: the replica is stopping, or ends a stream that has lasted long enough; connect again.
	ServerDraining = "SERVER_DRAINING"
	// DeadlineExceeded: the call took longer than its deadline.
	DeadlineExceeded = "DEADLINE_EXCEEDED"
	// Internal: a fault of the service; its log has the detail.
	Internal = "INTERNAL"
)

// Reasons has every reason, in the order above.
func Reasons() []string {
	return []string{
		RequestDiffers, RunNotFound, RunNotRecorded, RunStillLive, RunVoid, ServiceAccountNotFound, VolumeNotReady, ConfigMapDiffers, RunNotLive, LogsGone, ReviewUnavailable,
		WorkspaceNotFound, RolloutNotFound, RevisionNotFound, AmbiguousRevision, SchemeNotAllowed, CredentialInvalid, RemoteUnavailable, NoLeader,
		Conflict, NotAwaitingApproval, OtherPass, OtherStep, PassOver, PausedInSpec, InvalidField, Unauthenticated, PermissionDenied, KubernetesUnavailable, ServerDraining,
		DeadlineExceeded, Internal,
	}
}
