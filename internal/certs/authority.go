package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// backdate makes certificates valid a little before they are made, for machines whose clocks are behind.
const backdate = 10 * time.Minute

// pair is a certificate with its key, as PEM and parsed.
type pair struct {
	certificatePEM, keyPEM []byte
	certificate            *x509.Certificate
	key                    crypto.Signer
}

// parsePair returns nil for anything that cannot be used: the caller then makes another.
func parsePair(certificatePEM, keyPEM []byte) *pair {
	parsed, err := tls.X509KeyPair(certificatePEM, keyPEM)
	if err != nil {
		return nil
	}
	signer, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok {
		return nil
	}
	return &pair{certificatePEM: certificatePEM, keyPEM: keyPEM, certificate: parsed.Leaf, key: signer}
}

// newAuthority makes a CA certificate that can sign only certificates that sign nothing.
func newAuthority(now time.Time, life time.Duration) (*pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "magos-ca"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return issue(template, nil)
}

// newServing makes a certificate for the names, signed by authority, that does not outlive it.
func newServing(now time.Time, life time.Duration, names []string, authority *pair) (*pair, error) {
	notAfter := now.Add(life)
	if authority.certificate.NotAfter.Before(notAfter) {
		notAfter = authority.certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "magos"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              names,
	}
	return issue(template, authority)
}

// issue makes a key and a certificate for it, signed by parent, or by itself where there is none.
func issue(template *x509.Certificate, parent *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	signer, issuer := crypto.Signer(key), template
	if parent != nil {
		signer, issuer = parent.key, parent.certificate
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate back: %w", err)
	}
	return &pair{
		certificatePEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		certificate:    certificate,
		key:            key,
	}, nil
}

// due is when a certificate is to be replaced: after two thirds of its life.
func due(certificate *x509.Certificate) time.Time {
	life := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(life * 2 / 3)
}

// servingNames are the names under which the services are called, and localhost for people with a port-forward.
func servingNames(services []string, namespace string) []string {
	names := []string{"localhost"}
	for _, service := range services {
		names = append(names, service, service+"."+namespace, service+"."+namespace+".svc", service+"."+namespace+".svc.cluster.local")
	}
	slices.Sort(names)
	return names
}

// encodeCertificates joins certificates into one PEM bundle, each once, in the given order.
func encodeCertificates(certificates []*x509.Certificate) []byte {
	var bundle bytes.Buffer
	var seen [][]byte
	for _, certificate := range certificates {
		if slices.ContainsFunc(seen, func(raw []byte) bool { return bytes.Equal(raw, certificate.Raw) }) {
			continue
		}
		seen = append(seen, certificate.Raw)
		bundle.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	}
	return bundle.Bytes()
}
