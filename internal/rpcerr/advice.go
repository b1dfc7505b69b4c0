package rpcerr

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
)

// Silent reports whether err says nothing about what was asked, only about the way there: the peer is down, does not know us, or is of another release.
func Silent(err error) bool {
	switch Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// Advice says which RPC gave no answer, with which code, and what to do: for a status. It leaves out the error's own text, which belongs in the log: it may
// differ from call to call, and the status would be written each time. The method is the full one, such as /magos.runner.v1alpha1.RunnerService/GetRun.
func Advice(method string, err error) string {
	peer, rpc := parseMethod(method)
	answer := Code(err).String()
	if reason := Reason(err); reason != "" {
		answer += " (" + reason + ")"
	}
	var look string
	switch Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		look = fmt.Sprintf("see whether the pods of the %s service are ready", peer)
	case codes.Unauthenticated, codes.PermissionDenied:
		look = "see whether the roles and tokens that the chart makes are in place"
	case codes.Unimplemented:
		look = "see whether all services are of one release"
	default:
		look = fmt.Sprintf("the logs of the %s service and of the caller have the details", peer)
	}
	return fmt.Sprintf("%s answers %s: %s; it is tried again", rpc, answer, look)
}

// parseMethod takes /magos.runner.v1alpha1.RunnerService/GetRun apart: runner, RunnerService.GetRun.
func parseMethod(method string) (peer, rpc string) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	parts := strings.Split(service, ".")
	if len(parts) > 1 {
		peer = parts[1]
	}
	return peer, parts[len(parts)-1] + "." + name
}
