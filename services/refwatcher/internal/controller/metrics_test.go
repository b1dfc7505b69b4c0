package controller

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"magosproject.io/services/refwatcher/internal/schedule"
)

// docs/metrics.md lists exactly the metrics and labels that there are.
func TestMetricsAreDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, func() (int, int) { return 3, 1 })
	m.polled(schedule.Answered, time.Second)
	m.polled(schedule.Unreachable, time.Second)
	m.pushAnswered(time.Second)
	m.Webhook(WebhookAccepted)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var real []string
	for _, family := range families {
		var labels []string
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
		}
		slices.Sort(labels)
		real = append(real, strings.Join(append([]string{family.GetName(), strings.ToLower(family.GetType().String())}, labels...), " "))
	}
	content, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(magos_refwatcher_[a-z_]+)` \\| (\\w+) \\| (?:`(\\w+)`: (.*?))? ?\\|").FindAllStringSubmatch(string(content), -1)
	var documented []string
	for _, row := range rows {
		line := []string{row[1], row[2]}
		for _, value := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[4], -1) {
			line = append(line, row[3]+"="+value[1])
		}
		documented = append(documented, strings.Join(line, " "))
	}
	slices.Sort(real)
	slices.Sort(documented)
	if !slices.Equal(real, documented) {
		t.Errorf("docs/metrics.md has\n%s\nthe service has\n%s", strings.Join(documented, "\n"), strings.Join(real, "\n"))
	}
}
