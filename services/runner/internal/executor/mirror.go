package executor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// mirrorProxy speaks TLS for a provider mirror that does not: the tools take network mirrors over https only. It listens
// on the loopback address of keeper's pod, with a certificate that only keeper's own tool trusts.
type mirrorProxy struct {
	// url replaces the mirror's; authorities is a file with the usual authorities and the proxy's own.
	url, authorities string
	server           *http.Server
}

func startMirrorProxy(mirror, scratch string) (*mirrorProxy, error) {
	target, err := url.Parse(mirror)
	if err != nil {
		return nil, fmt.Errorf("reading the provider mirror's URL: %w", err)
	}
	certificate, encoded, err := loopbackCertificate(time.Now())
	if err != nil {
		return nil, err
	}
	authorities := filepath.Join(scratch, "authorities.pem")
	if err := os.WriteFile(authorities, append(systemAuthorities(), encoded...), 0o640); err != nil {
		return nil, fmt.Errorf("writing the provider mirror's authority: %w", err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, fmt.Errorf("listening for the provider mirror: %w", err)
	}
	handler := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) }}
	proxy := &mirrorProxy{
		url:         "https://" + listener.Addr().String() + target.Path,
		authorities: authorities,
		server:      &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute},
	}
	go func() { _ = proxy.server.Serve(listener) }()
	return proxy, nil
}

func (p *mirrorProxy) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = p.server.Close()
	}
}

func loopbackCertificate(now time.Time) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("making a key for the provider mirror: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "magos-exec provider mirror"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("making a certificate for the provider mirror: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// systemAuthorities returns the bundle of the image, or nothing: the tool could not reach registries over https then,
// but it can the mirror.
func systemAuthorities() []byte {
	for _, file := range []string{os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if data, err := os.ReadFile(file); err == nil {
			return append(data, '\n')
		}
	}
	return nil
}
