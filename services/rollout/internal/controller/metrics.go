package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"magosproject.io/api/v1alpha1"
)

// Metrics counts what the rollout service does. docs/metrics.md describes them.
type Metrics struct {
	// grants by scope: Run, Drift.
	grants *prometheus.CounterVec
	// revocations of grants.
	revocations prometheus.Counter
	// conflicts that made a decision be made again.
	conflicts prometheus.Counter
	// passes that ended, by result, one of v1alpha1.PassResults.
	passes *prometheus.CounterVec
	// questions to the refwatcher, by result: Resolved or a reason.
	questions *prometheus.CounterVec
	// grantLatency is the time from a want to its grant.
	grantLatency prometheus.Histogram
}

const resultResolved = "Resolved"

// NewMetrics registers the metrics; a nil registerer counts without showing.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		grants:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "magos_rollout_grants_total", Help: "Grants given to Workspaces. Labeled by scope."}, []string{"scope"}),
		revocations: prometheus.NewCounter(prometheus.CounterOpts{Name: "magos_rollout_revocations_total", Help: "Grants taken from Workspaces."}),
		conflicts:   prometheus.NewCounter(prometheus.CounterOpts{Name: "magos_rollout_conflicts_total", Help: "Decisions that were made again because somebody wrote in between."}),
		passes:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "magos_rollout_passes_total", Help: "Passes of Rollouts that ended. Labeled by result."}, []string{"result"}),
		questions:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "magos_rollout_revision_requests_total", Help: "Questions to the refwatcher service. Labeled by result."}, []string{"result"}),
		grantLatency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "magos_rollout_grant_latency_seconds", Help: "Time from when a Workspace wanted to run until it was granted.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600},
		}),
	}
	for _, scope := range []v1alpha1.GrantScope{v1alpha1.ScopeRun, v1alpha1.ScopeDrift} {
		m.grants.WithLabelValues(string(scope))
	}
	for _, result := range v1alpha1.PassResults() {
		m.passes.WithLabelValues(string(result))
	}
	for _, result := range []string{resultResolved, v1alpha1.ReasonAwaitingRevision, v1alpha1.ReasonRevisionNotFound, v1alpha1.ReasonAmbiguousRevision, v1alpha1.ReasonRefWatcherUnavailable,
		v1alpha1.ReasonRefWatcherRefused} {
		m.questions.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(m.grants, m.revocations, m.conflicts, m.passes, m.questions, m.grantLatency)
	}
	return m
}

func (m *Metrics) granted(g v1alpha1.Grant, w *v1alpha1.Workspace, now time.Time) {
	m.grants.WithLabelValues(string(g.Scope)).Inc()
	if w.Status.Wants != nil {
		m.grantLatency.Observe(max(0, now.Sub(w.Status.Wants.Since.Time).Seconds()))
	}
}

func (m *Metrics) resolved(reason v1alpha1.Reason) {
	if reason == "" {
		reason = resultResolved
	}
	m.questions.WithLabelValues(reason).Inc()
}

// ended counts the passes that the history has gained.
func (m *Metrics) ended(before, after []v1alpha1.RolloutHistoryEntry) {
	for _, entry := range after {
		if len(before) > 0 && entry.ID == before[0].ID {
			return
		}
		m.passes.WithLabelValues(string(entry.Result)).Inc()
	}
}
