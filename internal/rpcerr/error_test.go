package rpcerr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"magosproject.io/internal/rpcerr"
)

const domain = "runner.magosproject.io"

var (
	workspaces = schema.GroupResource{Group: "magosproject.io", Resource: "workspaces"}
	rollouts   = schema.GroupResource{Group: "magosproject.io", Resource: "rollouts"}
	jobs       = schema.GroupResource{Group: "batch", Resource: "jobs"}
)

// overTheWire is what the client gets for what the server's interceptor returns.
func overTheWire(err error) error {
	return rpcerr.FromWire(status.FromProto(status.Convert(err).Proto()).Err())
}

func TestClassify(t *testing.T) {
	peer := rpcerr.FromStatus(rpcerr.New(codes.NotFound, rpcerr.RevisionNotFound, "no branch x").InDomain("refwatcher.magosproject.io").GRPCStatus())
	refused := rpcerr.FromStatus(rpcerr.New(codes.PermissionDenied, rpcerr.PermissionDenied, "we may not").InDomain("refwatcher.magosproject.io").GRPCStatus())
	ownRefusal := rpcerr.FromStatus(rpcerr.New(codes.PermissionDenied, rpcerr.PermissionDenied, "you may not").InDomain(domain).GRPCStatus())
	for name, test := range map[string]struct {
		err    error
		code   codes.Code
		reason string
		domain string
	}{
		"ours":                          {rpcerr.New(codes.FailedPrecondition, rpcerr.RunStillLive, "x"), codes.FailedPrecondition, rpcerr.RunStillLive, domain},
		"ours, wrapped":                 {fmt.Errorf("starting: %w", rpcerr.New(codes.Aborted, rpcerr.Conflict, "x")), codes.Aborted, rpcerr.Conflict, domain},
		"a peer's":                      {peer, codes.NotFound, rpcerr.RevisionNotFound, "refwatcher.magosproject.io"},
		"a peer refused us":             {refused, codes.Internal, rpcerr.Internal, domain},
		"our leader refused the caller": {ownRefusal, codes.PermissionDenied, rpcerr.PermissionDenied, domain},
		"deadline":                      {fmt.Errorf("waiting: %w", context.DeadlineExceeded), codes.DeadlineExceeded, rpcerr.DeadlineExceeded, domain},
		"cancelled":                     {context.Canceled, codes.Canceled, "", ""},
		"the gRPC library's":            {status.Error(codes.Unimplemented, "no such method"), codes.Unimplemented, "", ""},
		"a status that says nothing":    {status.Error(codes.Unknown, "x"), codes.Internal, rpcerr.Internal, domain},
		"conflict":                      {fmt.Errorf("patching: %w", apierrors.NewConflict(workspaces, "a", errors.New("old"))), codes.Aborted, rpcerr.Conflict, domain},
		"already exists":                {apierrors.NewAlreadyExists(jobs, "a"), codes.Aborted, rpcerr.Conflict, domain},
		"no workspace":                  {apierrors.NewNotFound(workspaces, "a"), codes.NotFound, rpcerr.WorkspaceNotFound, domain},
		"no rollout":                    {apierrors.NewNotFound(rollouts, "a"), codes.NotFound, rpcerr.RolloutNotFound, domain},
		"no job":                        {apierrors.NewNotFound(jobs, "a"), codes.Internal, rpcerr.Internal, domain},
		"API server timeout":            {apierrors.NewServerTimeout(jobs, "get", 2), codes.Unavailable, rpcerr.KubernetesUnavailable, domain},
		"API server throttles":          {apierrors.NewTooManyRequests("slow down", 3), codes.Unavailable, rpcerr.KubernetesUnavailable, domain},
		"API server down":               {&url.Error{Op: "Get", URL: "https://10.0.0.1", Err: errors.New("connection refused")}, codes.Unavailable, rpcerr.KubernetesUnavailable, domain},
		"we lack a right":               {apierrors.NewForbidden(jobs, "a", errors.New("rbac")), codes.Internal, rpcerr.Internal, domain},
		"a bug":                         {errors.New("index out of range"), codes.Internal, rpcerr.Internal, domain},
	} {
		t.Run(name, func(t *testing.T) {
			got := overTheWire(rpcerr.Classify(test.err, domain))
			var e *rpcerr.Error
			if !errors.As(got, &e) {
				t.Fatalf("the client got %T, want *rpcerr.Error", got)
			}
			if rpcerr.Code(got) != test.code || rpcerr.Reason(got) != test.reason || e.Domain() != test.domain {
				t.Errorf("got %s %s %s, want %s %s %s", rpcerr.Code(got), rpcerr.Reason(got), e.Domain(), test.code, test.reason, test.domain)
			}
		})
	}
}

func TestInternalDetailStaysOnTheServer(t *testing.T) {
	cause := errors.New("reading Secret db-password: xyzzy")
	e := rpcerr.Classify(cause, domain)
	if strings.Contains(overTheWire(e).Error(), "xyzzy") {
		t.Error("the client learns the detail of an internal error")
	}
	if !errors.Is(e, cause) {
		t.Error("the server has lost the cause")
	}
}

func TestDetailsSurviveTheWire(t *testing.T) {
	sent := rpcerr.Invalid("key.run_id", "must not be empty").WithViolation("source.path", "must not start with /").
		With("run", "r-1").WithRetryAfter(3 * time.Second).InDomain(domain)
	var got *rpcerr.Error
	if !errors.As(overTheWire(sent), &got) {
		t.Fatal("no *rpcerr.Error")
	}
	violations := got.Violations()
	if len(violations) != 2 || violations[0].Field != "key.run_id" || violations[1].Description != "must not start with /" {
		t.Errorf("violations = %+v", violations)
	}
	if got.Metadata()["run"] != "r-1" || got.RetryAfter() != 3*time.Second || got.Error() != "key.run_id: must not be empty" {
		t.Errorf("metadata %v, retry after %s, text %q", got.Metadata(), got.RetryAfter(), got.Error())
	}
}

func TestContextErrorsSurviveTheWire(t *testing.T) {
	for code, want := range map[codes.Code]error{codes.DeadlineExceeded: context.DeadlineExceeded, codes.Canceled: context.Canceled} {
		got := rpcerr.FromWire(status.Error(code, "x"))
		if !errors.Is(got, want) || rpcerr.Code(got) != code {
			t.Errorf("%s: errors.Is(%v, %v) is false", code, got, want)
		}
		if errors.Is(got, io.EOF) {
			t.Errorf("%s is taken for io.EOF", code)
		}
	}
}

func TestWhatIsNoStatusStaysAsItIs(t *testing.T) {
	if got := rpcerr.FromWire(io.EOF); !errors.Is(got, io.EOF) {
		t.Errorf("io.EOF became %v", got)
	}
	if rpcerr.FromWire(nil) != nil {
		t.Error("nil became an error")
	}
	if rpcerr.Reason(nil) != "" || rpcerr.Code(nil) != codes.OK || rpcerr.Reason(io.EOF) != "" {
		t.Error("nil or a plain error has a reason or code")
	}
	if got := rpcerr.Reason(status.Error(codes.Unavailable, "connection refused")); got != "" {
		t.Errorf("a status without details has reason %q", got)
	}
}

func TestAddingToAnErrorLeavesItAlone(t *testing.T) {
	base := rpcerr.New(codes.NotFound, rpcerr.RunNotFound, "no such run")
	_ = base.With("a", "b").WithViolation("c", "d").WithRetryAfter(time.Second).InDomain("e")
	if len(base.Metadata()) != 0 || len(base.Violations()) != 0 || base.RetryAfter() != 0 || base.Domain() != "" {
		t.Errorf("the original was changed: %+v", base)
	}
}
