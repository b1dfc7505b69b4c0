package rpcserver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// metrics of the server. Methods are those that are registered, and codes those of gRPC, so that the label sets are closed.
type metrics struct {
	handled  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

// Values of the label type.
const (
	typeUnary  = "unary"
	typeStream = "stream"
)

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "magos_grpc_server_handled_total",
			Help: "Calls that ended, by method and code.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "magos_grpc_server_handling_seconds",
			Help:    "How long unary calls took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "magos_grpc_server_in_flight",
			Help: "Calls that are being handled, by type (unary or stream).",
		}, []string{"type"}),
	}
	m.inFlight.WithLabelValues(typeUnary)
	m.inFlight.WithLabelValues(typeStream)
	if registerer == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.handled, m.seconds, m.inFlight} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) begin(kind string) { m.inFlight.WithLabelValues(kind).Inc() }

func (m *metrics) end(kind, method string, code codes.Code, took time.Duration) {
	m.inFlight.WithLabelValues(kind).Dec()
	m.handled.WithLabelValues(method, code.String()).Inc()
	if kind == typeUnary {
		m.seconds.WithLabelValues(method).Observe(took.Seconds())
	}
}
