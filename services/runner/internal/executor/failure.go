package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/executor/toolerror"
	"magosproject.io/services/runner/internal/runspec"
)

// Reasons that a Record may give. They are reasons of the API; a test holds them to it, since linking the API into every
// container of a run for a dozen words would not be worth it.
const (
	reasonPlanFailed         = "PlanFailed"
	reasonTimedOut           = "TimedOut"
	reasonInterrupted        = "Interrupted"
	reasonFetchFailed        = "FetchFailed"
	reasonToolUnavailable    = "ToolUnavailable"
	reasonStorageNotWritable = "StorageNotWritable"
	reasonStateLocked        = "StateLocked"
	reasonApplyFailed        = "ApplyFailed"
	reasonSealBroken         = "SealBroken"
	reasonAlreadyUsed        = "AlreadyUsed"
	reasonStalePlan          = "StalePlan"
	reasonStorageFull        = "StorageFull"
)

// failure is an error that knows how the container ends because of it.
type failure struct {
	code   int
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, reason string, err error) error {
	return &failure{code: code, reason: reason, err: err}
}

func failf(code int, reason, format string, args ...any) error {
	return fail(code, reason, fmt.Errorf(format, args...))
}

var (
	errAskedToEnd = errors.New("the pod was asked to end")
	errTimedOut   = errors.New("the run's timeout has passed")
)

// interrupted says why ctx ended. It is nil while ctx lives.
func interrupted(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, errTimedOut):
		return fail(runspec.ExitTimedOut, reasonTimedOut, cause)
	default:
		return fail(runspec.ExitInterrupted, reasonInterrupted, cause)
	}
}

// orInterrupted gives the end of ctx precedence over what it led to.
func orInterrupted(ctx context.Context, err error) error {
	if why := interrupted(ctx); err != nil && why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return err
}

// sourceHint explains what OpenTofu says when the source of a module depends on a variable.
// Modules are fetched by keeper, which has no values of variables: it must not, for it has the credentials.
func sourceHint(out *toolOutput) string {
	for _, words := range []string{"Unable to compute static value", "Failed to request input from user for variable", "Module source has changed", "Module version requirements have changed"} {
		if out.said.Contains(words) {
			return "\nModules are fetched before variables have values: source and version of a module may depend on constants, locals and " +
				"defaults of variables, and no VariableSet or tfvars file may give such a variable another value."
		}
	}
	return ""
}

// toolFailed tells how the tool ended without success.
func toolFailed(ctx context.Context, reason string, err error, out *toolOutput) error {
	if errors.Is(err, process.ErrInterrupted) {
		if why := interrupted(ctx); why != nil {
			return fmt.Errorf("%w; %w%s", why, err, out.words())
		}
	}
	var exit *process.ExitError
	if !errors.As(err, &exit) {
		return fail(runspec.ExitInternal, reason, err)
	}
	switch kind := out.said.Kind(); {
	case kind == toolerror.StateLocked:
		lock := out.said.Lock()
		said := lock.Describe(filepath.Base(exit.Program))
		if lock.ID == "" {
			said += out.words()
		}
		return fail(runspec.ExitStateLocked, reasonStateLocked, errors.New(said))
	// A plan has no plan to be stale: whatever printed these words there, it is an ordinary failure, with its back-off.
	case kind == toolerror.StalePlan && reason == reasonApplyFailed:
		return failf(runspec.ExitStalePlan, reasonStalePlan, "the saved plan is stale: the state has changed since it was made, so that the way on is a new plan%s", out.words())
	}
	return failf(runspec.ExitToolFailed, reason, "%w%s%s", err, out.words(), sourceHint(out))
}
