package controller

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/execution"
)

// Every metric with its labels is in docs/metrics.md, and nothing else is in the runner's section.
func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.Started("plan", StartCreated)
	m.Started("nonsense", StartRefused)
	at := metav1.Now()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at, Labels: map[string]string{v1alpha1.LabelRunPhase: "plan"}}}
	end := metav1.NewTime(at.Add(time.Minute))
	m.ended(job, execution.Result{State: execution.StateSucceeded, StartedAt: &at, FinishedAt: &end})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+pair.GetName()+"`")
			if pair.GetValue() == "nonsense" {
				t.Errorf("%s has a label value that is in no closed set", family.GetName())
			}
		}
		slices.Sort(labels)
		got = append(got, fmt.Sprintf("%s %s %s", family.GetName(), strings.ToLower(family.GetType().String()), strings.Join(labels, ", ")))
	}
	text, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Runner\n")
	if !found {
		t.Fatal("docs/metrics.md has no section Runner")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([^|]+) \\|").FindAllStringSubmatch(section, -1) {
		labels := strings.Split(strings.TrimSpace(row[3]), ", ")
		slices.Sort(labels)
		want = append(want, fmt.Sprintf("%s %s %s", row[1], row[2], strings.Join(labels, ", ")))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("registered:\n%s\ndocumented:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
