package rpcerr

import (
	"context"
	"errors"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// genericText is all that a caller learns about a fault of ours: the detail may hold what is not for them, and is logged.
const genericText = "internal error; the log of the service has the detail"

// Classify finds the place of any error in the vocabulary, as the server sends it under its own domain (`<service>.magosproject.io`).
// An Error keeps its code and reason, wherever it is in the chain, and a status its code. Errors of the Kubernetes API and of contexts have their own; all else is INTERNAL.
func Classify(err error, domain string) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return fromPeer(e, domain)
	case errors.Is(err, context.DeadlineExceeded):
		return New(codes.DeadlineExceeded, DeadlineExceeded, "the deadline passed before there was an answer: %w", err).InDomain(domain)
	case errors.Is(err, context.Canceled):
		return New(codes.Canceled, "", "the call was cancelled: %w", err).InDomain(domain)
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown && s.Code() != codes.Internal {
		// From the gRPC library itself, such as UNIMPLEMENTED.
		return fromPeer(FromStatus(s), domain)
	}
	if e := fromKubernetes(err); e != nil {
		return e.InDomain(domain)
	}
	return hidden(err).InDomain(domain)
}

// fromPeer passes on an error that another service gave us, except that it refused *us*: that is a fault of the installation, not of our caller.
func fromPeer(e *Error, domain string) *Error {
	foreign := e.domain != "" && e.domain != domain
	if foreign && (e.code == codes.Unauthenticated || e.code == codes.PermissionDenied) {
		return hidden(e).InDomain(domain)
	}
	return e.InDomain(domain)
}

// hidden keeps the cause for the log and shows the caller nothing of it.
func hidden(err error) *Error {
	return &Error{code: codes.Internal, reason: Internal, err: &concealed{cause: err}}
}

// Cause is the error to log: what Classify concealed from the caller, or err itself.
func Cause(err error) error {
	var c *concealed
	if errors.As(err, &c) {
		return c.cause
	}
	return err
}

type concealed struct{ cause error }

func (c *concealed) Error() string { return genericText }
func (c *concealed) Unwrap() error { return c.cause }

// fromKubernetes maps errors of the Kubernetes API; nil for an error that is none, or that only a bug of ours explains.
func fromKubernetes(err error) *Error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return New(codes.Aborted, Conflict, "the object changed in between; read it and try again: %w", err)
	case apierrors.IsNotFound(err):
		return notFound(err)
	case unreachable(err):
		e := New(codes.Unavailable, KubernetesUnavailable, "the Kubernetes API could not be asked: %w", err)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			e = e.WithRetryAfter(time.Duration(seconds) * time.Second)
		}
		return e
	}
	return nil
}

// notFound knows the kinds that callers name; a missing object of any other kind is a surprise of our own.
func notFound(err error) *Error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Details == nil {
		return nil
	}
	details := answer.Status().Details
	switch details.Kind {
	case "workspaces", "Workspace":
		return New(codes.NotFound, WorkspaceNotFound, "workspace %q does not exist", details.Name)
	case "rollouts", "Rollout":
		return New(codes.NotFound, RolloutNotFound, "rollout %q does not exist", details.Name)
	}
	return nil
}

func unreachable(err error) bool {
	if apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err) || apierrors.IsInternalError(err) {
		return true
	}
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return false
	}
	var transport *url.Error
	return errors.As(err, &transport) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err)
}
