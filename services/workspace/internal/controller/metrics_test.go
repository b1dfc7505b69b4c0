package controller

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/api/v1alpha1"
)

func gathered(t *testing.T, registry *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for _, family := range families {
		all[family.GetName()] = family
	}
	return all
}

func TestMetricsAreDocumentedAndTheirLabelsClosed(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	content, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range gathered(t, registry) {
		row := ""
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(line, "| `"+name+"` |") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
		for _, label := range family.GetMetric()[0].GetLabel() {
			if !strings.Contains(row, "`"+label.GetName()+"`") {
				t.Errorf("the label %s of %s is not in docs/metrics.md", label.GetName(), name)
			}
		}
		if name == "magos_workspace_runs_total" && len(family.GetMetric()) != 28 {
			t.Errorf("%d series of %s, want all 28 from the start", len(family.GetMetric()), name)
		}
	}
}

func TestARunIsCountedOnceWhenItEnds(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	at := metav1.Now()
	status := func(phase v1alpha1.RunPhase, applyRequested bool) *v1alpha1.WorkspaceStatus {
		run := &v1alpha1.WorkspaceRun{ID: "r", Trigger: v1alpha1.TriggerRevision, Phase: phase}
		if applyRequested {
			run.ApplyRequestedAt = &at
		}
		return &v1alpha1.WorkspaceStatus{Run: run}
	}
	m.count(status(v1alpha1.RunPlanning, false), status(v1alpha1.RunPlanned, false))
	m.planEnded("r", at.Time)
	m.applyStarted("r", at.Add(250*time.Millisecond))
	m.applyStarted("r", at.Add(time.Hour))
	m.count(status(v1alpha1.RunApplying, true), status(v1alpha1.RunSucceeded, true))
	m.count(status(v1alpha1.RunSucceeded, true), status(v1alpha1.RunSucceeded, true))
	families := gathered(t, registry)
	for _, series := range families["magos_workspace_runs_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range series.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		want := 0.0
		if labels["trigger"] == "Revision" && labels["result"] == "applied" {
			want = 1
		}
		if got := series.GetCounter().GetValue(); got != want {
			t.Errorf("%v: %v, want %v", labels, got, want)
		}
	}
	h := families["magos_workspace_plan_to_apply_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 1 || h.GetSampleSum() < .24 || h.GetSampleSum() > .26 {
		t.Errorf("%d samples, %v s", h.GetSampleCount(), h.GetSampleSum())
	}
}
