package rpcserver

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"magosproject.io/internal/certs"
)

// defaultGroup is the API group of rules that name none.
const defaultGroup = "magosproject.io"

// Reviewer asks Kubernetes who a caller is and what they may do. Every kubernetes.Interface is one.
type Reviewer interface {
	AuthenticationV1() authenticationv1client.AuthenticationV1Interface
	AuthorizationV1() authorizationv1client.AuthorizationV1Interface
}

// Rule is what one method asks of its caller.
type Rule struct {
	// Verb that the caller must have, such as get or run.
	Verb string
	// Resource on which they must have it, with its subresource if any: "workspaces", "workspaces/log".
	Resource string
	// Group of the resource; default magosproject.io.
	Group string
	// Deadline of a call whose client set none; default Config.DefaultDeadline. Streams have none: leave it 0.
	Deadline time.Duration
	// Object says what a request is about; an empty namespace asks for the right in all namespaces. Nil does so for every request.
	Object func(request any) (namespace, name string)
}

// Config of a Server.
type Config struct {
	// Service is the service's short name, such as "runner". Tokens must be for the audience magos-<service>.
	Service string
	// Listen is the address, such as ":8443".
	Listen string
	// TLS has the serving certificate.
	TLS *certs.Bundle
	// Kube answers TokenReviews and SubjectAccessReviews.
	Kube Reviewer
	// Rules has one Rule per method, by its full name ("/magos.runner.v1alpha1.RunnerService/GetRun"). Health and reflection need none.
	Rules map[string]Rule
	// Metrics gets the server's metrics; nil for none.
	Metrics prometheus.Registerer
	// Log gets one line per call, and the detail of internal errors.
	Log *slog.Logger
	// DrainDelay is how long a stopping server still takes new calls, so that nobody is sent to a closed port; default 0.
	DrainDelay time.Duration
	// Drain bounds how long a stopping server waits for calls to end; default 20 s.
	Drain time.Duration
	// DefaultDeadline of unary calls; default 30 s.
	DefaultDeadline time.Duration
	// MaxDeadline of unary calls, whatever the client asks for; default 5 min.
	MaxDeadline time.Duration
	// MaxStreamAge ends streams, with UNAVAILABLE, so that a token that was revoked does not stay in use for ever; default 1 h.
	MaxStreamAge time.Duration
	// Clock of the caches; default the real one.
	Clock clock.Clock
}

func (c *Config) setDefaults() {
	setDuration(&c.Drain, 20*time.Second)
	setDuration(&c.DefaultDeadline, 30*time.Second)
	setDuration(&c.MaxDeadline, 5*time.Minute)
	setDuration(&c.MaxStreamAge, time.Hour)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func setDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func (c *Config) validate() error {
	var errs []error
	if c.Service == "" {
		errs = append(errs, errors.New("the service has no name"))
	}
	if c.TLS == nil {
		errs = append(errs, errors.New("there is no certificate bundle"))
	}
	if c.Kube == nil {
		errs = append(errs, errors.New("there is nobody to ask who a caller is"))
	}
	return errors.Join(errs...)
}

// audience is what a token must be for.
func (c *Config) audience() string { return "magos-" + c.Service }

// domain of the errors that the server sends.
func (c *Config) domain() string { return c.Service + "." + defaultGroup }
