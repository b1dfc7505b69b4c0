package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// BundleConfig says where the certificates are.
type BundleConfig struct {
	// Secrets of the release's namespace. The Bundle only gets and watches the one Secret. Nil for a Bundle that is fed by Load alone.
	Secrets corev1client.SecretInterface
	// Name of the Secret; default SecretTLS.
	Name string
	// Log gets every change, and handshakes that fail for want of a certificate.
	Log *slog.Logger
	// Clock; default the real one.
	Clock clock.Clock
}

// Bundle is the present set of certificates of this process. It works before there is any: then Ready is false and handshakes fail.
// Add it to a manager, or call Start, to make it follow the Secret.
type Bundle struct {
	config     BundleConfig
	current    atomic.Pointer[material]
	lastLogged atomic.Int64
	// taken is the version of the Secret that was looked at last; only the goroutine of Start uses it.
	taken string

	mutex   sync.Mutex
	changed chan struct{}
}

// NewBundle makes a Bundle that is not ready yet.
func NewBundle(config BundleConfig) *Bundle {
	if config.Name == "" {
		config.Name = SecretTLS
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Bundle{config: config, changed: make(chan struct{})}
}

// Load takes a new set: the PEM bundle of CA certificates, the certificate and its key. A set that does not fit together is refused, and the present one stays.
func (b *Bundle) Load(bundle, certificate, key []byte) error {
	next, err := parseMaterial(bundle, certificate, key)
	if err != nil {
		return err
	}
	b.current.Store(next)
	b.announce()
	return nil
}

func (b *Bundle) announce() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// Changed is closed at the next change of the Secret. Take it before looking at what may change.
func (b *Bundle) Changed() <-chan struct{} {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.changed
}

// Ready reports whether there is a serving certificate that is valid now.
func (b *Bundle) Ready() bool { return b.Check() == nil }

// Check says what is missing when the Bundle is not ready.
func (b *Bundle) Check() error {
	m := b.current.Load()
	if m == nil {
		return fmt.Errorf("the serving certificate does not exist yet: Secret %s, which the leader of the rollout service writes", b.config.Name)
	}
	if now := b.config.Clock.Now(); now.After(m.notAfter) {
		return fmt.Errorf("the serving certificate expired at %s", m.notAfter.Format(time.RFC3339))
	}
	return nil
}

// ServerConfig is for a listener: each handshake uses the certificate of that moment.
func (b *Bundle) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		Time:       b.config.Clock.Now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if err := b.Check(); err != nil {
				b.logHandshake(err)
				return nil, err
			}
			return &b.current.Load().certificate, nil
		},
	}
}

// ClientConfig is for one connection to serverName: it trusts the CA certificates of this moment, so take a new one for each connection.
// While the Bundle has none it trusts nobody.
func (b *Bundle) ClientConfig(serverName string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		ServerName: serverName,
		Time:       b.config.Clock.Now,
		RootCAs:    x509.NewCertPool(),
	}
	if m := b.current.Load(); m != nil {
		config.RootCAs = m.trusted
	}
	return config
}

// logHandshake logs at most once in ten seconds: clients try again and again.
func (b *Bundle) logHandshake(err error) {
	now := b.config.Clock.Now().Unix()
	last := b.lastLogged.Load()
	if now-last < 10 || !b.lastLogged.CompareAndSwap(last, now) {
		return
	}
	b.config.Log.Warn("refusing a TLS handshake", "error", err)
}

// take uses what a Secret holds now. A Secret that was deleted changes nothing: its certificates are as good as before.
func (b *Bundle) take(secret *corev1.Secret) {
	if b.taken != "" && secret.ResourceVersion == b.taken {
		return
	}
	b.taken = secret.ResourceVersion
	if err := b.Load(secret.Data[KeyBundle], secret.Data[KeyCertificate], secret.Data[KeyPrivate]); err != nil {
		if len(secret.Data) > 0 {
			b.config.Log.Error("refusing a change of the certificates", "secret", secret.Name, "resourceVersion", secret.ResourceVersion, "error", err)
		}
		return
	}
	m := b.current.Load()
	b.config.Log.Info("certificates loaded", "secret", secret.Name, "serial", m.serial, "notAfter", m.notAfter)
}
