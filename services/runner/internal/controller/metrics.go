package controller

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
	"magosproject.io/services/runner/internal/runspec"
)

// Metrics of the runner. Every label has a closed set of values: phase is plan or apply, result is succeeded, failed or
// void, outcome is created, found or refused.
type Metrics struct {
	starts   *prometheus.CounterVec
	results  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	latency  *prometheus.HistogramVec
}

// Outcomes of a StartRun.
const (
	StartCreated = "created"
	StartFound   = "found"
	StartRefused = "refused"
)

// runBuckets fit plans and applies, which last seconds to hours.
var runBuckets = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400}

// NewMetrics declares and registers the metrics of the runner, and puts every label value there from the start.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "magos_run_starts_total", Help: "Requests to start a phase of a run, by what came of them."}, []string{"phase", "outcome"}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "magos_run_results_total", Help: "Phases of runs that have provably ended, by result."}, []string{"phase", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "magos_run_duration_seconds", Help: "Time from the start of the first container to the end of the last, by result.", Buckets: runBuckets}, []string{"phase", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "magos_run_start_latency_seconds", Help: "Time from the creation of the Job to the start of its first container.",
			Buckets: []float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}}, []string{"phase"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.starts, m.results, m.duration, m.latency} {
		errs = append(errs, registerer.Register(c))
	}
	for _, phase := range []string{runspec.PhasePlan, runspec.PhaseApply} {
		for _, outcome := range []string{StartCreated, StartFound, StartRefused} {
			m.starts.WithLabelValues(phase, outcome)
		}
		for _, state := range []execution.State{execution.StateSucceeded, execution.StateFailed, execution.StateVoid} {
			m.results.WithLabelValues(phase, label(state))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the metrics of runs: %w", err)
	}
	return m, nil
}

// Started counts a StartRun of a phase that was understood.
func (m *Metrics) Started(phase, outcome string) {
	if phase == runspec.PhasePlan || phase == runspec.PhaseApply {
		m.starts.WithLabelValues(phase, outcome).Inc()
	}
}

// ended counts a result that has just been kept.
func (m *Metrics) ended(job *batchv1.Job, result execution.Result) {
	phase := job.Labels[v1alpha1.LabelRunPhase]
	if phase != runspec.PhasePlan && phase != runspec.PhaseApply {
		return
	}
	m.results.WithLabelValues(phase, label(result.State)).Inc()
	if result.StartedAt == nil {
		return
	}
	m.latency.WithLabelValues(phase).Observe(result.StartedAt.Sub(job.CreationTimestamp.Time).Seconds())
	if result.FinishedAt != nil {
		m.duration.WithLabelValues(phase, label(result.State)).Observe(result.FinishedAt.Sub(result.StartedAt.Time).Seconds())
	}
}

func label(state execution.State) string { return strings.ToLower(string(state)) }
