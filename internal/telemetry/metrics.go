package telemetry

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// NewRegistry is for the service's own metrics. It says which build runs.
func NewRegistry(service string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "magos_build_info",
		Help: "Always 1; the labels say which service and build this is.",
	}, []string{"service", "revision", "go"})
	build.WithLabelValues(service, revision(), runtime.Version()).Set(1)
	registry.MustRegister(build)
	return registry
}

// Gatherer joins a service's registry with what controller-runtime counts, the Go runtime and the process included.
func Gatherer(own prometheus.Gatherer) prometheus.Gatherer {
	for _, collector := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		// Refused where controller-runtime has registered its own, which it does as soon as there is a controller.
		_ = ctrlmetrics.Registry.Register(collector)
	}
	return prometheus.Gatherers{own, ctrlmetrics.Registry}
}

// revision is the commit that the binary was built from, "unknown" where the build did not say.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "unknown"
}
