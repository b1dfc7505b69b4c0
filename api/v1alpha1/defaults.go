package v1alpha1

import "time"

// Defaults of what people may leave out and that no schema default can carry.
const (
	// DefaultReconcileInterval is the time between an apply and the next drift plan.
	DefaultReconcileInterval = 3 * time.Minute
	// DefaultGitPollInterval is the time between two polls of a repository.
	DefaultGitPollInterval = 30 * time.Second
	// DefaultServiceAccountName is the account that run pods use.
	DefaultServiceAccountName = "magos-job"
	// DefaultRetryMaxInterval bounds the pause between two attempts with the same inputs.
	DefaultRetryMaxInterval = time.Hour
	// DefaultTimeout bounds a plan or an apply.
	DefaultTimeout = 24 * time.Hour
	// DefaultWorkspaceDeadline bounds the time from the grant of a Workspace until it is Applied.
	DefaultWorkspaceDeadline = 24 * time.Hour
)
