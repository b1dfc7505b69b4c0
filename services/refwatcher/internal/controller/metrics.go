package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"magosproject.io/services/refwatcher/internal/schedule"
)

// The values of the label result.
const (
	resultSuccess     = "success"
	resultRefused     = "refused"
	resultUnavailable = "unavailable"
)

// The values of the label result of webhooks.
const (
	WebhookAccepted        = "accepted"
	WebhookUnknown         = "unknown"
	WebhookIgnored         = "ignored"
	WebhookUnauthenticated = "unauthenticated"
	WebhookInvalid         = "invalid"
	WebhookTooLarge        = "too_large"
	WebhookUnavailable     = "unavailable"
)

var webhookResults = []string{
	WebhookAccepted, WebhookUnknown, WebhookIgnored, WebhookUnauthenticated, WebhookInvalid, WebhookTooLarge, WebhookUnavailable,
}

var results = map[schedule.Outcome]string{schedule.Answered: resultSuccess, schedule.Refused: resultRefused, schedule.Unreachable: resultUnavailable}

// Metrics of polling and of what hurries it.
type Metrics struct {
	polls    *prometheus.CounterVec
	duration prometheus.Histogram
	webhooks *prometheus.CounterVec
	lag      prometheus.Histogram
}

// NewMetrics registers the metrics; remotes is asked for the number of remotes at each scrape.
func NewMetrics(registerer prometheus.Registerer, remotes func() (wanted, failing int)) *Metrics {
	m := &Metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "magos_refwatcher_polls_total", Help: "Polls of Git remotes that ended, by result: success, refused or unavailable.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "magos_refwatcher_poll_duration_seconds", Help: "Time from the start of a poll of a Git remote to its end.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "magos_refwatcher_webhooks_total", Help: "Requests to the webhook port that were answered, by what came of them.",
		}, []string{"result"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "magos_refwatcher_push_to_poll_seconds", Help: "Time from when a push was heard of to the end of the poll that was made for it.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
	}
	for _, result := range webhookResults {
		m.webhooks.WithLabelValues(result)
	}
	for _, result := range results {
		m.polls.WithLabelValues(result)
	}
	registerer.MustRegister(m.polls, m.duration, m.webhooks, m.lag, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "magos_refwatcher_remotes", Help: "Git remotes that this replica polls; 0 on a replica that does not lead.",
	}, func() float64 { wanted, _ := remotes(); return float64(wanted) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "magos_refwatcher_remotes_failing", Help: "Those of them whose last poll failed.",
	}, func() float64 { _, failing := remotes(); return float64(failing) }))
	return m
}

func (m *Metrics) polled(outcome schedule.Outcome, took time.Duration) {
	m.polls.WithLabelValues(results[outcome]).Inc()
	m.duration.Observe(took.Seconds())
}

// pushAnswered counts a poll that was made because of a push.
func (m *Metrics) pushAnswered(took time.Duration) { m.lag.Observe(took.Seconds()) }

// Webhook counts a request to the webhook port; result is one of the constants above.
func (m *Metrics) Webhook(result string) { m.webhooks.WithLabelValues(result).Inc() }
