package rpcerr

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// GRPCStatus is the error as it goes over the wire.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.code, e.Error())
	var details []protoadapt.MessageV1
	if e.reason != "" {
		details = append(details, &errdetails.ErrorInfo{Domain: e.domain, Reason: e.reason, Metadata: e.metadata})
	}
	if len(e.violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range e.violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
		}
		details = append(details, bad)
	}
	if e.retryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.retryAfter)})
	}
	detailed, err := s.WithDetails(details...)
	if err != nil {
		// Only a code OK or a text that is no UTF-8 gets here; the code and the text still tell the caller something.
		return s
	}
	return detailed
}

// FromStatus reads what came over the wire. A status from elsewhere (a proxy, the gRPC library) has no reason and keeps its code.
func FromStatus(s *status.Status) *Error {
	e := &Error{code: s.Code(), err: &received{text: s.Message(), code: s.Code()}}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			e.domain, e.reason, e.metadata = d.GetDomain(), d.GetReason(), d.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.violations = append(e.violations, Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.retryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// FromWire turns the error of a gRPC call into an *Error; nil, io.EOF and what is no status stay as they are.
func FromWire(err error) error {
	if err == nil {
		return nil
	}
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() == codes.OK {
		return err
	}
	return FromStatus(s)
}

// received is the text of another process. It answers errors.Is for the context errors that a code stands for.
type received struct {
	text string
	code codes.Code
}

func (r *received) Error() string { return r.text }

func (r *received) Is(target error) bool {
	switch r.code {
	case codes.DeadlineExceeded:
		return target == context.DeadlineExceeded
	case codes.Canceled:
		return target == context.Canceled
	default:
		return false
	}
}
