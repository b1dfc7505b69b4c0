package rpcerr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Violation says what is wrong with one field of a request.
type Violation struct {
	// Field is the path of the field as the .proto file spells it, such as key.run_id.
	Field string
	// Description says what to send instead.
	Description string
}

// Error is an error with a place in the vocabulary. Make one with New; the methods that add to it return a copy.
type Error struct {
	code       codes.Code
	reason     string
	domain     string
	err        error
	metadata   map[string]string
	violations []Violation
	retryAfter time.Duration
}

// New makes an error. The text is sent to the caller; %w keeps a cause for errors.Is and errors.As on this side of the wire.
func New(code codes.Code, reason, format string, args ...any) *Error {
	return &Error{code: code, reason: reason, err: fmt.Errorf(format, args...)}
}

// Invalid makes the error for one field that is missing or wrong; add others with WithViolation.
func Invalid(field, description string) *Error {
	return New(codes.InvalidArgument, InvalidField, "%s: %s", field, description).WithViolation(field, description)
}

// With adds a variable part that callers may read, such as the run ID.
func (e *Error) With(key, value string) *Error {
	c := e.copy()
	if c.metadata == nil {
		c.metadata = map[string]string{}
	}
	c.metadata[key] = value
	return c
}

// WithViolation adds a field that is wrong.
func (e *Error) WithViolation(field, description string) *Error {
	c := e.copy()
	c.violations = append(c.violations, Violation{Field: field, Description: description})
	return c
}

// WithRetryAfter tells the caller when trying again makes sense.
func (e *Error) WithRetryAfter(delay time.Duration) *Error {
	c := e.copy()
	c.retryAfter = delay
	return c
}

// InDomain names the service that the error comes from, unless one is named already.
func (e *Error) InDomain(domain string) *Error {
	if e.domain != "" {
		return e
	}
	c := e.copy()
	c.domain = domain
	return c
}

// Error is the text for people.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.err }

// Code is the canonical code.
func (e *Error) Code() codes.Code { return e.code }

// Reason is the constant that callers branch on.
func (e *Error) Reason() string { return e.reason }

// Domain is `<service>.magosproject.io`, empty until a server has sent the error.
func (e *Error) Domain() string { return e.domain }

// Metadata has the variable parts. The caller must not change it.
func (e *Error) Metadata() map[string]string { return e.metadata }

// Violations has the fields that are wrong.
func (e *Error) Violations() []Violation { return slices.Clone(e.violations) }

// RetryAfter is when trying again makes sense, 0 when nothing was said.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

func (e *Error) copy() *Error {
	c := *e
	c.metadata = maps.Clone(e.metadata)
	c.violations = slices.Clone(e.violations)
	return &c
}

// Reason is the reason of the first Error in err's chain, empty if there is none. It works on errors of either side of the wire.
func Reason(err error) string {
	if e := find(err); e != nil {
		return e.reason
	}
	return ""
}

// Code is the code of the first Error or status in err's chain: OK for nil, Unknown if there is none.
func Code(err error) codes.Code {
	if e := find(err); e != nil {
		return e.code
	}
	return status.Code(err)
}

func find(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if s, ok := status.FromError(err); ok && err != nil && s.Code() != codes.OK {
		return FromStatus(s)
	}
	return nil
}
