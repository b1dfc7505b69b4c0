package remote

import (
	"fmt"
	"strings"
	"time"
)

// SchemeError says that the scheme of a URL is not on the list.
type SchemeError struct {
	// Scheme that was refused.
	Scheme string
	// Allowed schemes.
	Allowed []string
}

func (e *SchemeError) Error() string {
	return fmt.Sprintf("scheme %q is not allowed: use one of %s", e.Scheme, strings.Join(e.Allowed, ", "))
}

// RefusedError says that the server answered and will most likely answer the same until somebody does something: there is no such repository, the
// credential is missing or wrong, the server is not who it should be.
type RefusedError struct {
	// RetryAfter is how long the server wants to be left alone; 0 if it does not say.
	RetryAfter time.Duration
	text       string
	cause      error
}

func (e *RefusedError) Error() string { return e.text }

// Unwrap returns the cause, if there is one.
func (e *RefusedError) Unwrap() error { return e.cause }

// BusyError says that the server answers that it cannot serve now.
type BusyError struct {
	// RetryAfter is how long the server wants to be left alone; 0 if it does not say.
	RetryAfter time.Duration
	text       string
}

func (e *BusyError) Error() string { return e.text }

func refused(format string, args ...any) *RefusedError {
	err := fmt.Errorf(format, args...)
	return &RefusedError{text: err.Error(), cause: err}
}
