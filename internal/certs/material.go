package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// material is one consistent set of certificates, as a process uses it.
type material struct {
	certificate tls.Certificate
	trusted     *x509.CertPool
	notAfter    time.Time
	serial      string
}

// parseMaterial refuses a set in which the key is not the certificate's, or the bundle does not trust the certificate:
// a process keeps what it has rather than take half of a renewal. Whether the certificate has expired does not matter here.
func parseMaterial(bundle, certificate, key []byte) (*material, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading %s and %s: %w", KeyCertificate, KeyPrivate, err)
	}
	authorities, err := parseCertificates(bundle)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", KeyBundle, err)
	}
	if len(authorities) == 0 {
		return nil, fmt.Errorf("reading %s: no certificate in it", KeyBundle)
	}
	trusted, signed := x509.NewCertPool(), false
	for _, authority := range authorities {
		trusted.AddCert(authority)
		signed = signed || pair.Leaf.CheckSignatureFrom(authority) == nil
	}
	if !signed {
		return nil, fmt.Errorf("checking %s: none of %s has signed it", KeyCertificate, KeyBundle)
	}
	return &material{certificate: pair, trusted: trusted, notAfter: pair.Leaf.NotAfter, serial: pair.Leaf.SerialNumber.Text(16)}, nil
}

// parseCertificates reads every certificate of a PEM bundle and refuses anything else in it.
func parseCertificates(bundle []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return certificates, nil
		}
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("something else than a certificate is in it")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
}
