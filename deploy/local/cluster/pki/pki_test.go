package pki

import (
	"bytes"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func request() Request {
	return Request{
		Name: "server", User: "system:node:a", Groups: []string{"system:nodes"},
		Hosts: []string{"a"}, Addresses: []net.IP{net.IPv4(10, 0, 0, 1)},
	}
}

func open(t *testing.T, folder string, now time.Time) *Authority {
	t.Helper()
	authority, err := Open(folder, now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func ensure(t *testing.T, authority *Authority, wanted Request) []byte {
	t.Helper()
	if err := authority.Ensure(wanted); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(authority.CertificateFile(wanted.Name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestACertificateIsTrustedForItsHolder(t *testing.T) {
	authority := open(t, t.TempDir(), start)
	ensure(t, authority, request())
	certificate, _, err := authority.load("server")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.certificate)
	for _, host := range []string{"a", "10.0.0.1"} {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: start}); err != nil {
			t.Errorf("as server %s: %v", host, err)
		}
	}
	if certificate.Subject.CommonName != "system:node:a" || certificate.Subject.Organization[0] != "system:nodes" {
		t.Errorf("holder is %s", certificate.Subject)
	}
}

func TestCertificatesAreKeptUntilTheyNoLongerFit(t *testing.T) {
	folder := t.TempDir()
	first := ensure(t, open(t, folder, start), request())
	if kept := ensure(t, open(t, folder, start.Add(24*time.Hour)), request()); !bytes.Equal(first, kept) {
		t.Error("a day later it was replaced")
	}
	if renewed := ensure(t, open(t, folder, start.Add(300*24*time.Hour)), request()); bytes.Equal(first, renewed) {
		t.Error("near its end it was kept")
	}
	moved := request()
	moved.Addresses = append(moved.Addresses, net.IPv4(10, 0, 0, 2))
	before := ensure(t, open(t, folder, start), request())
	if after := ensure(t, open(t, folder, start), moved); bytes.Equal(before, after) {
		t.Error("it was kept although the address is not in it")
	}
}

func TestPrivateKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	folder := t.TempDir()
	authority := open(t, folder, start)
	ensure(t, authority, request())
	if err := authority.EnsureSigningKey("tokens"); err != nil {
		t.Fatal(err)
	}
	if err := authority.WriteKubeconfig(filepath.Join(folder, "kubeconfig"), "local", "https://10.0.0.1:6443", "server"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "server.key", "tokens.key", "kubeconfig"} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAKubeconfigCarriesItsCertificates(t *testing.T) {
	folder := t.TempDir()
	authority := open(t, folder, start)
	certificate := ensure(t, authority, request())
	path := filepath.Join(folder, "kubeconfig")
	if err := authority.WriteKubeconfig(path, "local", "https://10.0.0.1:6443", "server"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.0.0.1:6443" || !bytes.Equal(config.CertData, certificate) || len(config.CAData) == 0 {
		t.Errorf("host %s, %d bytes of certificate, %d of authority", config.Host, len(config.CertData), len(config.CAData))
	}
}
