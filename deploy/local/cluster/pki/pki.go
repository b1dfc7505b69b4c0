// Package pki keeps the certificate authority of a local cluster, the certificates of its components and the
// kubeconfig files that carry them.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	lifetime          = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced, when the cluster is next brought up.
	renewBefore = 120 * 24 * time.Hour
)

// Authority signs the certificates of one cluster and keeps them as <name>.crt and <name>.key in its folder.
type Authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	now         time.Time
}

// Request describes a certificate: who its holder is, and for a server under which names and addresses it is reached.
type Request struct {
	// Name is the name of the files.
	Name string
	// User and Groups are what the API server takes from a client's certificate.
	User   string
	Groups []string
	// Hosts and Addresses are what a server's certificate is valid for.
	Hosts     []string
	Addresses []net.IP
}

// Open loads the authority of the folder, or makes one when there is none.
func Open(folder string, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	authority := &Authority{folder: folder, now: now}
	certificate, key, err := authority.load("ca")
	if errors.Is(err, fs.ErrNotExist) {
		return authority, authority.create()
	}
	if err != nil {
		return nil, err
	}
	authority.certificate, authority.key = certificate, key
	return authority, nil
}

// CertificateFile is the file of a certificate that Ensure made.
func (a *Authority) CertificateFile(name string) string { return filepath.Join(a.folder, name+".crt") }

// KeyFile is the private key that belongs to CertificateFile.
func (a *Authority) KeyFile(name string) string { return filepath.Join(a.folder, name+".key") }

func (a *Authority) create() error {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "magos-local-ca"},
		NotBefore:             a.now.Add(-time.Minute),
		NotAfter:              a.now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the authority's key: %w", err)
	}
	a.certificate, a.key = template, key
	if err := a.sign("ca", template, key); err != nil {
		return err
	}
	a.certificate, _, err = a.load("ca")
	return err
}

// Ensure makes the certificate, unless there is one that fits the request and is valid for long enough.
func (a *Authority) Ensure(request Request) error {
	present, _, err := a.load(request.Name)
	if err == nil && a.fits(present, request) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: request.User, Organization: request.Groups},
		NotBefore:   a.now.Add(-time.Minute),
		NotAfter:    a.now.Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    request.Hosts,
		IPAddresses: request.Addresses,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of %s: %w", request.Name, err)
	}
	return a.sign(request.Name, template, key)
}

func (a *Authority) fits(present *x509.Certificate, request Request) bool {
	if present.CheckSignatureFrom(a.certificate) != nil || a.now.Add(renewBefore).After(present.NotAfter) {
		return false
	}
	for _, host := range request.Hosts {
		if present.VerifyHostname(host) != nil {
			return false
		}
	}
	for _, address := range request.Addresses {
		if present.VerifyHostname(address.String()) != nil {
			return false
		}
	}
	return present.Subject.CommonName == request.User
}

func (a *Authority) sign(name string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("signing the certificate of %s: %w", name, err)
	}
	if err := writeKey(a.KeyFile(name), key); err != nil {
		return err
	}
	return writePEM(a.CertificateFile(name), "CERTIFICATE", signed, 0o644)
}

func (a *Authority) load(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	block, err := readPEM(a.CertificateFile(name))
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate of %s: %w", name, err)
	}
	if block, err = readPEM(a.KeyFile(name)); err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(block)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the key of %s: %w", name, err)
	}
	return certificate, key, nil
}

// EnsureSigningKey makes the key pair that signs ServiceAccount tokens: <name>.key and <name>.pub.
func (a *Authority) EnsureSigningKey(name string) error {
	if _, err := readPEM(filepath.Join(a.folder, name+".pub")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of ServiceAccount tokens: %w", err)
	}
	if err := writeKey(a.KeyFile(name), key); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encoding the key of ServiceAccount tokens: %w", err)
	}
	return writePEM(filepath.Join(a.folder, name+".pub"), "PUBLIC KEY", public, 0o644)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a private key: %w", err)
	}
	return writePEM(path, "EC PRIVATE KEY", encoded, 0o600)
}

// writePEM replaces the file in one step, so that an interrupted run leaves no half certificate.
func writePEM(path, kind string, content []byte, mode os.FileMode) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("reading %s: it holds no PEM block", path)
	}
	return block.Bytes, nil
}
