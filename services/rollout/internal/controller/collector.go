package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"magosproject.io/api/v1alpha1"
)

// Collector shows the steps of every Rollout. It reads statuses when it is scraped, so that a series ends with its object.
type Collector struct {
	list    func() ([]v1alpha1.Rollout, error)
	clock   clock.PassiveClock
	members *prometheus.Desc
	active  *prometheus.Desc
	seconds *prometheus.Desc
	passes  *prometheus.Desc
}

// NewCollector reads the Rollouts with list, which must answer from a cache.
func NewCollector(list func() ([]v1alpha1.Rollout, error), clock clock.PassiveClock) *Collector {
	step := []string{"namespace", "rollout", "step"}
	return &Collector{
		list: list, clock: clock,
		members: prometheus.NewDesc("magos_rollout_step_members", "Workspaces of a step in the present or last pass. Labeled by state: applied, failed, waiting.", append(step, "state"), nil),
		active:  prometheus.NewDesc("magos_rollout_step_current", "1 for the step that may run, or that the last pass ended at, else 0.", step, nil),
		seconds: prometheus.NewDesc("magos_rollout_step_duration_seconds", "How long the present or last pass has been or was in a step.", step, nil),
		passes:  prometheus.NewDesc("magos_rollout_history_passes", "Passes in the Rollout's history, of which the last ten are kept. Labeled by result.", []string{"namespace", "rollout", "result"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.members
	out <- c.active
	out <- c.seconds
	out <- c.passes
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	rollouts, err := c.list()
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.members, err)
		return
	}
	now := c.clock.Now()
	for i := range rollouts {
		c.collectOne(&rollouts[i], now, out)
	}
}

func (c *Collector) collectOne(r *v1alpha1.Rollout, now time.Time, out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{r.Namespace, r.Name}, labels...)...)
	}
	for i, step := range r.Status.Steps {
		gauge(c.members, float64(step.Applied), step.Name, "applied")
		gauge(c.members, float64(step.Failed), step.Name, "failed")
		gauge(c.members, float64(max(0, step.Total-step.Applied-step.Failed)), step.Name, "waiting")
		current := 0.0
		if i == int(r.Status.CurrentStep) {
			current = 1
		}
		gauge(c.active, current, step.Name)
		gauge(c.seconds, inStep(step, now).Seconds(), step.Name)
	}
	results := map[v1alpha1.PassResult]int{}
	for _, entry := range r.Status.History {
		results[entry.Result]++
	}
	for _, result := range v1alpha1.PassResults() {
		gauge(c.passes, float64(results[result]), string(result))
	}
}

func inStep(step v1alpha1.RolloutStepStatus, now time.Time) time.Duration {
	switch {
	case step.StartedAt == nil:
		return 0
	case step.FinishedAt != nil:
		return step.FinishedAt.Sub(step.StartedAt.Time)
	}
	return max(0, now.Sub(step.StartedAt.Time))
}
