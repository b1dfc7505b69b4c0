package rpcerr_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"magosproject.io/internal/rpcerr"
)

func TestAdviceNamesTheRPCTheCodeAndWhatToDo(t *testing.T) {
	const method = "/magos.runner.v1alpha1.RunnerService/GetRun"
	for name, c := range map[string]struct {
		err    error
		silent bool
		want   string
	}{
		"down": {rpcerr.New(codes.Unavailable, "", "dial tcp 10.0.0.7:4711"), true,
			"RunnerService.GetRun answers Unavailable: see whether the pods of the runner service are ready; it is tried again"},
		"no right": {rpcerr.New(codes.PermissionDenied, rpcerr.PermissionDenied, "needs run on workspaces"), true,
			"RunnerService.GetRun answers PermissionDenied (PERMISSION_DENIED): see whether the roles and tokens that the chart makes are in place; it is tried again"},
		"another release": {rpcerr.New(codes.Unimplemented, "", "unknown method"), true,
			"RunnerService.GetRun answers Unimplemented: see whether all services are of one release; it is tried again"},
		"a fault": {rpcerr.New(codes.Internal, rpcerr.Internal, "internal error"), false,
			"RunnerService.GetRun answers Internal (INTERNAL): the logs of the runner service and of the caller have the details; it is tried again"},
		"no status at all": {errors.New("odd"), false,
			"RunnerService.GetRun answers Unknown: the logs of the runner service and of the caller have the details; it is tried again"},
	} {
		if got := rpcerr.Advice(method, c.err); got != c.want || rpcerr.Silent(c.err) != c.silent {
			t.Errorf("%s: %q, silent %t", name, got, rpcerr.Silent(c.err))
		}
	}
}
