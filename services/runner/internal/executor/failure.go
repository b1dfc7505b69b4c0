package executor

import (
	"context"
	"errors"
	"fmt"

	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/runspec"
)

// Reasons that a Record may give. They are reasons of the API; a test holds them to it, since linking the API into every
// container of a run for nine words would not be worth it.
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

// toolFailed tells how the tool ended without success.
func toolFailed(ctx context.Context, reason string, err error, out *toolOutput) error {
	if errors.Is(err, process.ErrInterrupted) {
		if why := interrupted(ctx); why != nil {
			return fmt.Errorf("%w; %w%s", why, err, out.lastWords())
		}
	}
	var exit *process.ExitError
	if !errors.As(err, &exit) {
		return fail(runspec.ExitInternal, reason, err)
	}
	if out.stateLocked() {
		return failf(runspec.ExitStateLocked, reasonStateLocked, "the state is locked by somebody else%s", out.lastWords())
	}
	return failf(runspec.ExitToolFailed, reason, "%w%s", err, out.lastWords())
}
