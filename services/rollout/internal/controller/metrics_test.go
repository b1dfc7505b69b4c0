package controller

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"magosproject.io/api/v1alpha1"
)

func steppedRollout() v1alpha1.Rollout {
	at := func(seconds int) *metav1.Time {
		t := metav1.NewTime(began.Add(time.Duration(seconds) * time.Second))
		return &t
	}
	r := v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pay"}}
	r.Status.CurrentStep = 1
	r.Status.Steps = []v1alpha1.RolloutStepStatus{
		{Name: "dev", Phase: v1alpha1.StepSucceeded, Total: 2, Applied: 2, StartedAt: at(0), FinishedAt: at(30)},
		{Name: "prod", Phase: v1alpha1.StepFailed, Total: 5, Applied: 1, Failed: 2, StartedAt: at(30)},
	}
	r.Status.History = []v1alpha1.RolloutHistoryEntry{{ID: "b", Result: "Succeeded"}, {ID: "a", Result: "Superseded"}}
	return r
}

func TestStepsAreShownFromStatus(t *testing.T) {
	rollouts := []v1alpha1.Rollout{steppedRollout()}
	collector := NewCollector(func() ([]v1alpha1.Rollout, error) { return rollouts, nil }, clocktesting.NewFakeClock(began.Add(time.Minute)))
	want := `
# HELP magos_rollout_step_current 1 for the step that may run, or that the last pass ended at, else 0.
# TYPE magos_rollout_step_current gauge
magos_rollout_step_current{namespace="team",rollout="pay",step="dev"} 0
magos_rollout_step_current{namespace="team",rollout="pay",step="prod"} 1
# HELP magos_rollout_step_duration_seconds How long the present or last pass has been or was in a step.
# TYPE magos_rollout_step_duration_seconds gauge
magos_rollout_step_duration_seconds{namespace="team",rollout="pay",step="dev"} 30
magos_rollout_step_duration_seconds{namespace="team",rollout="pay",step="prod"} 30
# HELP magos_rollout_step_members Workspaces of a step in the present or last pass. Labeled by state: applied, failed, waiting.
# TYPE magos_rollout_step_members gauge
magos_rollout_step_members{namespace="team",rollout="pay",state="applied",step="dev"} 2
magos_rollout_step_members{namespace="team",rollout="pay",state="applied",step="prod"} 1
magos_rollout_step_members{namespace="team",rollout="pay",state="failed",step="dev"} 0
magos_rollout_step_members{namespace="team",rollout="pay",state="failed",step="prod"} 2
magos_rollout_step_members{namespace="team",rollout="pay",state="waiting",step="dev"} 0
magos_rollout_step_members{namespace="team",rollout="pay",state="waiting",step="prod"} 2
# HELP magos_rollout_history_passes Passes in the Rollout's history, of which the last ten are kept. Labeled by result.
# TYPE magos_rollout_history_passes gauge
magos_rollout_history_passes{namespace="team",result="Aborted",rollout="pay"} 0
magos_rollout_history_passes{namespace="team",result="Incomplete",rollout="pay"} 0
magos_rollout_history_passes{namespace="team",result="Succeeded",rollout="pay"} 1
magos_rollout_history_passes{namespace="team",result="Superseded",rollout="pay"} 1
`
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	rollouts = nil
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("%d series outlive their Rollout", n)
	}
}

// docs/metrics.md lists exactly the metrics that there are, with their labels.
func TestMetricsAreDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	registry.MustRegister(NewCollector(func() ([]v1alpha1.Rollout, error) { return []v1alpha1.Rollout{steppedRollout()}, nil }, clocktesting.NewFakeClock(began)))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## rollout\n")
	if !found {
		t.Fatal("docs/metrics.md has no section rollout")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, real []string
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) > 4 && strings.Contains(cells[1], "`magos_") {
			documented = append(documented, strings.Trim(cells[1], " `")+" "+strings.TrimSpace(cells[2])+" "+sortedLabels(cells[3]))
		}
	}
	for _, family := range families {
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		real = append(real, strings.TrimSpace(family.GetName()+" "+strings.ToLower(family.GetType().String())+" "+strings.Join(labels, ", ")))
	}
	slices.Sort(documented)
	for i := range documented {
		documented[i] = strings.TrimSpace(documented[i])
	}
	slices.Sort(real)
	if !slices.Equal(documented, real) {
		t.Errorf("docs/metrics.md has\n%s\nthe service has\n%s", strings.Join(documented, "\n"), strings.Join(real, "\n"))
	}
}

func sortedLabels(cell string) string {
	labels := strings.Split(strings.TrimSpace(cell), ", ")
	slices.Sort(labels)
	return strings.Join(labels, ", ")
}

func TestEndedPassesAreCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	entry := func(id string, result v1alpha1.PassResult) v1alpha1.RolloutHistoryEntry {
		return v1alpha1.RolloutHistoryEntry{ID: id, Result: result}
	}
	before := []v1alpha1.RolloutHistoryEntry{entry("b", "Succeeded"), entry("a", "Succeeded")}
	m.ended(before, before)
	m.ended(before, append([]v1alpha1.RolloutHistoryEntry{entry("d", "Superseded"), entry("c", "Succeeded")}, before...))
	for result, want := range map[string]float64{"Succeeded": 1, "Superseded": 1} {
		if got := testutil.ToFloat64(m.passes.WithLabelValues(result)); got != want {
			t.Errorf("%s counted %v times, want %v", result, got, want)
		}
	}
}
