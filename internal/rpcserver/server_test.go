package rpcserver_test

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	clocktesting "k8s.io/utils/clock/testing"

	runnerv1alpha1 "magosproject.io/gen/magos/runner/v1alpha1"
	"magosproject.io/internal/certs"
	"magosproject.io/internal/certs/certstest"
	"magosproject.io/internal/rpcerr"
	"magosproject.io/internal/rpcserver"
)

func TestRulesAndMethodsMustMatchBothWays(t *testing.T) {
	for name, test := range map[string]struct {
		change func(map[string]rpcserver.Rule)
		want   string
	}{
		"all is well":              {func(map[string]rpcserver.Rule) {}, ""},
		"a method without a rule":  {func(r map[string]rpcserver.Rule) { delete(r, getRun) }, "method " + getRun + " has no rule"},
		"a rule without a method":  {func(r map[string]rpcserver.Rule) { r["/x/Y"] = rpcserver.Rule{Verb: "get", Resource: "x"} }, "the rule for /x/Y has no method"},
		"a rule that asks nothing": {func(r map[string]rpcserver.Rule) { r[getRun] = rpcserver.Rule{} }, "lacks a verb or a resource"},
		"a stream with a deadline": {func(r map[string]rpcserver.Rule) {
			r[watchRuns] = rpcserver.Rule{Verb: "watch", Resource: "workspaces", Deadline: time.Second}
		}, "has a deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			config := rpcserver.Config{Service: "runner", Listen: "127.0.0.1:0", TLS: certstest.Bundle(t), Kube: newKube(), Rules: rules()}
			test.change(config.Rules)
			server, err := rpcserver.New(config)
			if err != nil {
				t.Fatal(err)
			}
			runnerv1alpha1.RegisterRunnerServiceServer(server.GRPC(), &runner{})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err = server.Start(ctx)
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start: %v, want %q", err, test.want)
			}
		})
	}
}

func TestDeadlines(t *testing.T) {
	left := make(chan time.Duration, 1)
	f := serve(t, newKube(), &runner{get: func(ctx context.Context, _ *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return &runnerv1alpha1.GetRunResponse{}, nil
	}}, func(c *rpcserver.Config) {
		rule := c.Rules[getRun]
		rule.Deadline = 70 * time.Minute
		c.Rules[getRun], c.MaxDeadline = rule, 5*time.Hour
	})
	client := runnerv1alpha1.NewRunnerServiceClient(f.bare(t))
	// Hours, so that what a call takes on a busy machine makes no difference.
	for name, test := range map[string]struct{ asked, want time.Duration }{
		"none: the rule's":        {0, 70 * time.Minute},
		"a short one holds":       {20 * time.Minute, 20 * time.Minute},
		"a long one holds":        {3 * time.Hour, 3 * time.Hour},
		"too long a one does not": {24 * time.Hour, 5 * time.Hour},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good")
		if test.asked > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, test.asked)
			defer cancel()
		}
		if _, err := client.GetRun(ctx, request("a")); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got > test.want || got < test.want-10*time.Minute {
			t.Errorf("%s: %s were left, want %s", name, got, test.want)
		}
	}
}

func TestHandlerErrorsReachTheCallerInTheVocabulary(t *testing.T) {
	var answer error
	f := serve(t, newKube(), &runner{
		get: func(context.Context, *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
			return &runnerv1alpha1.GetRunResponse{}, answer
		},
		watch: func(*runnerv1alpha1.WatchRunsRequest, grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error {
			return answer
		},
	}, nil)
	client := f.client(t, "good")
	answer = rpcerr.Invalid("key.run_id", "must not be empty")
	_, err := client.GetRun(t.Context(), request("a"))
	expect(t, err, codes.InvalidArgument, rpcerr.InvalidField)
	var e *rpcerr.Error
	if !errors.As(err, &e) || len(e.Violations()) != 1 || e.Domain() != "runner.magosproject.io" {
		t.Errorf("error = %#v, want one violation and the service's domain", e)
	}
	stream, err := client.WatchRuns(t.Context(), &runnerv1alpha1.WatchRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	expect(t, err, codes.InvalidArgument, rpcerr.InvalidField)

	answer = errors.New("the password is xyzzy")
	_, err = client.GetRun(t.Context(), request("a"))
	expect(t, err, codes.Internal, rpcerr.Internal)
	if strings.Contains(err.Error(), "xyzzy") || !strings.Contains(f.log.String(), "xyzzy") {
		t.Errorf("the detail belongs into the log and not into the answer %q", err)
	}
}

func TestAPanicEndsTheCallAndNothingElse(t *testing.T) {
	f := serve(t, newKube(), &runner{get: func(context.Context, *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
		panic("secret detail")
	}}, nil)
	client := f.client(t, "good")
	for range 2 {
		_, err := client.GetRun(t.Context(), request("a"))
		expect(t, err, codes.Internal, rpcerr.Internal)
		if strings.Contains(err.Error(), "secret detail") {
			t.Errorf("the caller learns of the panic: %v", err)
		}
	}
	if text := f.log.String(); !strings.Contains(text, "secret detail") || !strings.Contains(text, "server_test.go") {
		t.Error("the log lacks the panic or its stack")
	}
}

func TestTheLogSaysWhoDidWhatAndKeepsTokensOut(t *testing.T) {
	f := serve(t, newKube(), &runner{}, nil)
	if _, err := f.client(t, "good").GetRun(t.Context(), request("team-a")); err != nil {
		t.Fatal(err)
	}
	_, err := f.client(t, "tellmenot").GetRun(t.Context(), request("team-a"))
	expect(t, err, codes.Unauthenticated, rpcerr.Unauthenticated)
	text := f.log.String()
	for _, part := range []string{`"method":"` + getRun + `"`, `"user":"jane"`, `"namespace":"team-a"`, `"name":"dev"`, `"code":"OK"`, `"reason":"UNAUTHENTICATED"`} {
		if !strings.Contains(text, part) {
			t.Errorf("the log lacks %s:\n%s", part, text)
		}
	}
	if strings.Contains(text, "tellmenot") || strings.Contains(text, "Bearer good") {
		t.Error("a token is in the log")
	}
}

func TestDrain(t *testing.T) {
	entered, release, clock := make(chan struct{}, 2), make(chan struct{}), clocktesting.NewFakeClock(time.Now())
	f := serve(t, newKube(), &runner{
		get: func(context.Context, *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
			entered <- struct{}{}
			<-release
			return &runnerv1alpha1.GetRunResponse{}, nil
		},
		watch: func(_ *runnerv1alpha1.WatchRunsRequest, stream grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error {
			entered <- struct{}{}
			<-stream.Context().Done()
			return nil
		},
	}, func(c *rpcserver.Config) { c.DrainDelay, c.Clock = time.Minute, clock })
	client := f.client(t, "good")
	called := make(chan error, 1)
	go func() {
		_, err := client.GetRun(t.Context(), request("a"))
		called <- err
	}()
	stream, err := client.WatchRuns(t.Context(), &runnerv1alpha1.WatchRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	<-entered

	health := healthv1.NewHealthClient(f.bare(t))
	if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	f.stop()
	eventually(t, func() error {
		answer, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{})
		if err == nil && answer.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
			err = errors.New("still SERVING")
		}
		return err
	})
	eventually(t, func() error {
		if !clock.HasWaiters() {
			return errors.New("it does not wait for the delay")
		}
		return nil
	})
	clock.Step(time.Minute)
	_, err = stream.Recv()
	expect(t, err, codes.Unavailable, rpcerr.ServerDraining)
	close(release)
	if err := <-called; err != nil {
		t.Errorf("the call in flight: %v, want it to finish", err)
	}
	// On the clock of the test the limit never comes: the server ends because all calls have.
	select {
	case <-f.ended:
	case <-time.After(3 * time.Minute):
		t.Error("the server has not ended although all calls have")
	}
}

func TestACallThatNeverEndsIsCutOff(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	f := serve(t, newKube(), &runner{get: func(ctx context.Context, _ *runnerv1alpha1.GetRunRequest) (*runnerv1alpha1.GetRunResponse, error) {
		close(entered)
		<-ctx.Done()
		<-release
		return nil, ctx.Err()
	}}, func(c *rpcserver.Config) { c.Drain = 200 * time.Millisecond })
	called := make(chan error, 1)
	go func() {
		_, err := f.client(t, "good").GetRun(t.Context(), request("a"))
		called <- err
	}()
	<-entered
	f.stop()
	if err := <-called; rpcerr.Code(err) != codes.Unavailable {
		t.Errorf("the stuck call: %v, want UNAVAILABLE", err)
	}
	close(release)
	<-f.ended
}

func TestAnOldStreamEnds(t *testing.T) {
	f := serve(t, newKube(), &runner{watch: func(_ *runnerv1alpha1.WatchRunsRequest, stream grpc.ServerStreamingServer[runnerv1alpha1.WatchRunsResponse]) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	}}, func(c *rpcserver.Config) { c.MaxStreamAge = 50 * time.Millisecond })
	stream, err := f.client(t, "good").WatchRuns(t.Context(), &runnerv1alpha1.WatchRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	expect(t, err, codes.Unavailable, rpcerr.ServerDraining)
}

func TestAStreamThatIsDoneIsDone(t *testing.T) {
	f := serve(t, newKube(), &runner{}, nil)
	stream, err := f.client(t, "good").WatchRuns(t.Context(), &runnerv1alpha1.WatchRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("Recv: %v, want io.EOF", err)
	}
}

func TestMessagesHaveALimit(t *testing.T) {
	f := serve(t, newKube(), &runner{}, nil)
	huge := request(strings.Repeat("x", 5<<20))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good")
	_, err := runnerv1alpha1.NewRunnerServiceClient(f.bare(t)).GetRun(ctx, huge)
	if rpcerr.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of 5 MiB: %v, want RESOURCE_EXHAUSTED", err)
	}
}

func TestWithoutACertificateHandshakesFail(t *testing.T) {
	f := serve(t, newKube(), &runner{}, func(c *rpcserver.Config) { c.TLS = certs.NewBundle(certs.BundleConfig{}) })
	_, err := f.client(t, "good").GetRun(t.Context(), request("a"))
	if rpcerr.Code(err) != codes.Unavailable {
		t.Errorf("error = %v, want UNAVAILABLE", err)
	}
}

func TestMetrics(t *testing.T) {
	f := serve(t, newKube(), &runner{}, nil)
	if _, err := f.client(t, "good").GetRun(t.Context(), request("a")); err != nil {
		t.Fatal(err)
	}
	_, _ = f.client(t, "bad").GetRun(t.Context(), request("a"))
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := documented(t)
	if len(families) != len(want) {
		t.Errorf("%d metrics, want %d", len(families), len(want))
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if got := labels(metric); strings.Join(got, ",") != strings.Join(want[family.GetName()], ",") {
				t.Errorf("%s has labels %v, want %v", family.GetName(), got, want[family.GetName()])
			}
			if code := value(metric, "code"); family.GetName() == "magos_grpc_server_handled_total" && metric.GetCounter().GetValue() != 1 {
				t.Errorf("code %s was counted %v times, want once", code, metric.GetCounter().GetValue())
			}
			if family.GetName() == "magos_grpc_server_in_flight" && metric.GetGauge().GetValue() != 0 {
				t.Errorf("%v calls are in flight", metric.GetGauge().GetValue())
			}
		}
	}
}

// documented reads the metrics of the server, with their labels, from the documentation.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(magos_grpc_server_[a-z_]+)` \\| [a-z]+ \\| ([^|]+) \\|").FindAllStringSubmatch(string(content), -1) {
		metrics[row[1]] = strings.Split(strings.ReplaceAll(row[2], "`", ""), ", ")
	}
	return metrics
}

func labels(metric *dto.Metric) []string {
	var names []string
	for _, pair := range metric.GetLabel() {
		names = append(names, pair.GetName())
	}
	return names
}

func value(metric *dto.Metric, label string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == label {
			return pair.GetValue()
		}
	}
	return ""
}
