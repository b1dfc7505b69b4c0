package service

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	podAddress    = "POD_IP"
)

// Config has the settings that all services share.
type Config struct {
	// GRPCListen is the address of the gRPC server; default ":8443".
	GRPCListen string
	// HTTPListen is the address for probes and metrics; default ":8080".
	HTTPListen string
	// AdvertiseAddress is where other replicas reach this one's gRPC server; default the variable POD_IP with port 8443.
	AdvertiseAddress string
	// Namespaces are those that the service works in; empty for all.
	Namespaces []string
	// ReleaseNamespace has the Leases, the certificates and the peers; default the namespace of the pod.
	ReleaseNamespace string
	// LogLevel is debug, info, warn or error; default info.
	LogLevel string
	// LeaderElect lets one replica lead; default true. Without it every replica acts: only for a single process.
	LeaderElect bool
	// LeaseDuration is how long a silent leader keeps others waiting; default 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew before it exits; default 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two attempts; default 2 s.
	RetryPeriod time.Duration
	// DrainDelay is how long a stopping replica still takes calls; default 3 s.
	DrainDelay time.Duration
	// DrainTimeout bounds how long a stopping replica waits for calls to end; default 20 s.
	DrainTimeout time.Duration
	// TokenDir has one file per peer with a token for it; default /var/run/secrets/magos/tokens.
	TokenDir string
	// Peers overrides addresses of peers, for instance runner=127.0.0.1:8443; default magos-<peer>.<release namespace>.svc:8443.
	Peers map[string]string
	// QPS and Burst bound the requests to the API server per second; default 200 and 400.
	QPS, Burst int
}

// NewDefaultConfig has the defaults for a process in a pod, and reads from its surroundings what only they know.
func NewDefaultConfig() Config {
	config := Config{
		GRPCListen: ":8443", HTTPListen: ":8080", LogLevel: "info",
		LeaderElect: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		DrainDelay: 3 * time.Second, DrainTimeout: 20 * time.Second,
		TokenDir: "/var/run/secrets/magos/tokens", Peers: map[string]string{}, QPS: 200, Burst: 400,
	}
	if content, err := os.ReadFile(namespaceFile); err == nil {
		config.ReleaseNamespace = strings.TrimSpace(string(content))
	} else if !errors.Is(err, fs.ErrNotExist) {
		// Validate asks for the flag; there is no log yet that could say why.
		config.ReleaseNamespace = ""
	}
	if ip := os.Getenv(podAddress); ip != "" {
		config.AdvertiseAddress = net.JoinHostPort(ip, "8443")
	}
	return config
}

// BindFlags makes a flag of each setting.
func (c *Config) BindFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.GRPCListen, "grpc-listen", c.GRPCListen, "address of the gRPC server")
	flags.StringVar(&c.HTTPListen, "http-listen", c.HTTPListen, "address for /metrics, /healthz and /readyz")
	flags.StringVar(&c.AdvertiseAddress, "advertise-address", c.AdvertiseAddress, "where other replicas reach this one's gRPC server (host:port); default $POD_IP:8443")
	flags.Func("namespaces", "namespaces to work in, separated by commas; empty for all", func(value string) error {
		c.Namespaces = splitList(value)
		return nil
	})
	flags.StringVar(&c.ReleaseNamespace, "release-namespace", c.ReleaseNamespace, "namespace of the Leases, certificates and peers; default the pod's")
	flags.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn or error")
	flags.BoolVar(&c.LeaderElect, "leader-elect", c.LeaderElect, "let one replica lead; turn off only where there is a single process")
	flags.DurationVar(&c.LeaseDuration, "lease-duration", c.LeaseDuration, "how long a silent leader keeps others waiting")
	flags.DurationVar(&c.RenewDeadline, "renew-deadline", c.RenewDeadline, "how long a leader tries to renew its lease before it exits")
	flags.DurationVar(&c.RetryPeriod, "retry-period", c.RetryPeriod, "pause between two attempts at the lease")
	flags.DurationVar(&c.DrainDelay, "drain-delay", c.DrainDelay, "how long a stopping replica still takes calls")
	flags.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long a stopping replica waits for calls to end")
	flags.StringVar(&c.TokenDir, "token-dir", c.TokenDir, "folder with one token file per peer")
	flags.Func("peers", "addresses of peers that are not at their usual place, as runner=host:port, separated by commas", c.setPeers)
	flags.IntVar(&c.QPS, "kube-api-qps", c.QPS, "requests to the API server per second")
	flags.IntVar(&c.Burst, "kube-api-burst", c.Burst, "requests to the API server at once")
}

func (c *Config) setPeers(value string) error {
	for _, entry := range splitList(value) {
		name, address, found := strings.Cut(entry, "=")
		if !found {
			return fmt.Errorf("%q is not of the form peer=host:port", entry)
		}
		c.Peers[name] = address
	}
	return nil
}

// Validate joins everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	for _, namespace := range append([]string{c.ReleaseNamespace}, c.Namespaces...) {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, fmt.Errorf("namespace %q (--release-namespace, --namespaces): %s", namespace, problem))
		}
	}
	if c.RetryPeriod <= 0 || c.RenewDeadline <= c.RetryPeriod || c.LeaseDuration <= c.RenewDeadline {
		errs = append(errs, fmt.Errorf("want --lease-duration (%s) > --renew-deadline (%s) > --retry-period (%s) > 0", c.LeaseDuration, c.RenewDeadline, c.RetryPeriod))
	}
	if c.DrainDelay < 0 || c.DrainTimeout <= 0 {
		errs = append(errs, errors.New("--drain-delay must not be negative, and --drain-timeout not zero"))
	}
	if c.QPS <= 0 || c.Burst < c.QPS {
		errs = append(errs, fmt.Errorf("want --kube-api-burst (%d) >= --kube-api-qps (%d) > 0", c.Burst, c.QPS))
	}
	if c.AdvertiseAddress != "" {
		if _, _, err := net.SplitHostPort(c.AdvertiseAddress); err != nil {
			errs = append(errs, fmt.Errorf("--advertise-address: %w", err))
		}
	}
	return errors.Join(errs...)
}

func splitList(value string) []string {
	var list []string
	for _, entry := range strings.Split(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			list = append(list, entry)
		}
	}
	return list
}
