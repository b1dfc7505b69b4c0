package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"magosproject.io/internal/telemetry"
)

func TestEveryLoggerWritesTheSameJSON(t *testing.T) {
	var buffer bytes.Buffer
	logger, err := telemetry.NewLogger(&buffer, "info", "runner")
	if err != nil {
		t.Fatal(err)
	}
	telemetry.Adopt(logger)
	slog.Info("ours", "run", "r-1")
	ctrllog.Log.WithName("controller").Info("controller-runtime's", "namespace", "a")
	ctrllog.Log.V(1).Info("verbose")
	klog.InfoS("client-go's", "lease", "magos-runner")
	klog.Flush()

	want := []struct{ message, key, value string }{
		{"ours", "run", "r-1"}, {"controller-runtime's", "namespace", "a"}, {"client-go's", "lease", "magos-runner"},
	}
	lines := strings.Split(strings.TrimSpace(buffer.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), buffer.String())
	}
	for i, line := range lines {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		if entry["msg"] != want[i].message || entry[want[i].key] != want[i].value || entry["service"] != "runner" || entry["level"] != "INFO" {
			t.Errorf("line %d = %v", i, entry)
		}
	}
}

func TestLevels(t *testing.T) {
	var buffer bytes.Buffer
	logger, err := telemetry.NewLogger(&buffer, "warn", "runner")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("hidden")
	logger.Warn("shown")
	if text := buffer.String(); strings.Contains(text, "hidden") || !strings.Contains(text, "shown") {
		t.Errorf("the log is %q", text)
	}
	if _, err := telemetry.NewLogger(&buffer, "loud", "runner"); err == nil || !strings.Contains(err.Error(), "debug, info, warn or error") {
		t.Errorf("error = %v, want one that lists the levels", err)
	}
}

// start serves on a port of the loopback address.
func start(t *testing.T, registry *prometheus.Registry) (*telemetry.Server, func(path string) (int, string)) {
	t.Helper()
	server := telemetry.NewServer("", telemetry.Gatherer(registry), slog.New(slog.DiscardHandler))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return server, func(path string) (int, string) {
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	server, get := start(t, prometheus.NewRegistry())
	if code, _ := get("/readyz"); code != http.StatusOK {
		t.Errorf("without checks: %d, want 200", code)
	}
	missing := errors.New("not synced yet")
	server.AddReadyCheck("caches", func() error { return missing })
	server.AddReadyCheck("certificates", func() error { return nil })
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || strings.TrimSpace(body) != "caches: not synced yet" {
		t.Errorf("got %d %q, want 503 and what is missing", code, body)
	}
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d: a service that is not ready is alive", code)
	}
	missing = nil
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("got %d %q, want 200", code, body)
	}
	if code, _ := get("/debug/pprof"); code != http.StatusNotFound {
		t.Errorf("an unknown path: %d, want 404", code)
	}
}

func TestMetricsAreOursAndThoseOfTheLibraries(t *testing.T) {
	registry := telemetry.NewRegistry("runner")
	own := prometheus.NewCounter(prometheus.CounterOpts{Name: "magos_runner_things_total", Help: "Things."})
	registry.MustRegister(own)
	own.Inc()
	_, get := start(t, registry)
	code, body := get("/metrics")
	if code != http.StatusOK {
		t.Fatalf("got %d", code)
	}
	for _, line := range []string{"magos_runner_things_total 1", `magos_build_info{go="go`, `service="runner"} 1`, "go_goroutines ", "process_resident_memory_bytes "} {
		if !strings.Contains(body, line) {
			t.Errorf("/metrics lacks %q", line)
		}
	}
}
