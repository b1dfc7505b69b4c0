package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"magosproject.io/api/v1alpha1"
)

// The results of runs, the values of the label result.
const (
	resultApplied   = "applied"
	resultNoChanges = "no_changes"
	resultFailed    = "failed"
	resultDiscarded = "discarded"
)

var triggers = []v1alpha1.Trigger{
	v1alpha1.TriggerSpec, v1alpha1.TriggerRevision, v1alpha1.TriggerVariables, v1alpha1.TriggerManual, v1alpha1.TriggerRetry, v1alpha1.TriggerDrift,
	v1alpha1.TriggerDestroy,
}

// maxWaiting bounds how many plans are remembered between their end and their apply.
const maxWaiting = 10000

// Metrics of the workspace service. Labels are closed sets: what one object does is in its status.
type Metrics struct {
	runs        *prometheus.CounterVec
	planToApply prometheus.Histogram

	mutex sync.Mutex
	ended map[string]time.Time
}

// NewMetrics makes the metrics and registers them, every series from the start.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		ended: map[string]time.Time{},
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "magos_workspace_runs_total",
			Help: "Runs that ended, by what they were started for and how they ended.",
		}, []string{"trigger", "result"}),
		planToApply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "magos_workspace_plan_to_apply_seconds",
			Help:    "Time from when the end of a plan that needs no approval was seen until the runner had taken its apply.",
			Buckets: []float64{.01, .025, .05, .1, .2, .3, .5, 1, 2.5, 10, 60, 600, 3600},
		}),
	}
	for _, trigger := range triggers {
		for _, result := range []string{resultApplied, resultNoChanges, resultFailed, resultDiscarded} {
			m.runs.WithLabelValues(string(trigger), result)
		}
	}
	registerer.MustRegister(m.runs, m.planToApply)
	return m
}

// count counts the run that ended between old and next.
func (m *Metrics) count(old, next *v1alpha1.WorkspaceStatus) {
	run := next.Run
	if run == nil || !run.Phase.Terminal() || old.Run != nil && old.Run.ID == run.ID && old.Run.Phase.Terminal() {
		return
	}
	result := resultFailed
	switch {
	case run.Phase == v1alpha1.RunDiscarded:
		result = resultDiscarded
	case run.Phase == v1alpha1.RunSucceeded && run.ApplyRequestedAt == nil:
		result = resultNoChanges
	case run.Phase == v1alpha1.RunSucceeded:
		result = resultApplied
	}
	m.runs.WithLabelValues(string(run.Trigger), result).Inc()
	m.forget(run.ID)
}

func (m *Metrics) planEnded(run string, at time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.ended) < maxWaiting {
		m.ended[run] = at
	}
}

func (m *Metrics) applyStarted(run string, at time.Time) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if ended, known := m.ended[run]; known {
		m.planToApply.Observe(at.Sub(ended).Seconds())
		delete(m.ended, run)
	}
}

func (m *Metrics) forget(run string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.ended, run)
}
