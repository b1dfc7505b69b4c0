package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	pb "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/services/runner/internal/execution"
)

func name(namespace, job string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: job}
}

// A watcher that reads nothing owes each run once, however often it changes.
func TestSlowWatcherOwesEachRunOnce(t *testing.T) {
	hub := NewHub()
	w, stop := hub.watch("")
	for i := range 10_000 {
		hub.Changed(name("a", fmt.Sprintf("job-%d", i%3)))
	}
	if len(w.order) != 3 || len(w.due) != 3 {
		t.Errorf("%d names are due, want 3", len(w.order))
	}
	for _, want := range []string{"job-0", "job-1", "job-2"} {
		got, err := w.next(t.Context())
		if err != nil || got.Name != want {
			t.Errorf("next is %v, %v, want %s", got, err, want)
		}
	}
	stop()
	hub.Changed(name("a", "job-0"))
	if len(w.order) != 0 {
		t.Error("a watcher that stopped is still told")
	}
}

func TestWatcherSeesOnlyItsNamespace(t *testing.T) {
	hub := NewHub()
	w, stop := hub.watch("a")
	defer stop()
	hub.Changed(name("b", "job"))
	hub.Changed(name("a", "job"))
	if got, err := w.next(t.Context()); err != nil || got.Namespace != "a" {
		t.Errorf("next is %v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, err := w.next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("next is %v, %v", got, err)
	}
}

// A change between taking a name and waiting again must not be lost.
func TestWatcherLosesNoChange(t *testing.T) {
	hub := NewHub()
	w, stop := hub.watch("")
	defer stop()
	const changes = 2000
	go func() {
		for i := range changes {
			hub.Changed(name("a", fmt.Sprint(i)))
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for i := range changes {
		if got, err := w.next(ctx); err != nil || got.Name != fmt.Sprint(i) {
			t.Fatalf("change %d: %v, %v", i, got, err)
		}
	}
}

func TestEveryMethodHasARule(t *testing.T) {
	rules := Rules()
	for _, method := range pb.RunnerService_ServiceDesc.Methods {
		if _, ok := rules["/"+pb.RunnerService_ServiceDesc.ServiceName+"/"+method.MethodName]; !ok {
			t.Errorf("%s has none", method.MethodName)
		}
	}
	for _, stream := range pb.RunnerService_ServiceDesc.Streams {
		if _, ok := rules["/"+pb.RunnerService_ServiceDesc.ServiceName+"/"+stream.StreamName]; !ok {
			t.Errorf("%s has none", stream.StreamName)
		}
	}
}

func TestEnumsAreAllKnown(t *testing.T) {
	for _, state := range []execution.State{execution.StatePending, execution.StateRunning, execution.StateSucceeded, execution.StateFailed, execution.StateVoid} {
		if states[state] == pb.RunState_RUN_STATE_UNSPECIFIED {
			t.Errorf("%s has no place on the wire", state)
		}
	}
}

func TestRequestsThatCannotBeConvertedAreRefused(t *testing.T) {
	for what, in := range map[string]*pb.StartRunRequest{
		"timeout":      {Timeout: &durationpb.Duration{Seconds: 1, Nanos: -1}},
		"variables[0]": {Variables: []*pb.Variable{{Name: "a"}}},
	} {
		_, err := requestOf(in)
		if rpcerr.Reason(err) != rpcerr.InvalidField || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nothing at all must not crash: the check names what is missing.
	request, err := requestOf(&pb.StartRunRequest{})
	if err != nil || len(execution.Check(request)) == 0 {
		t.Errorf("an empty request: %v", err)
	}
}
