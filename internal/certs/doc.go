// Package certs lets the services of Magos trust each other without anybody's help: a Rotator makes and renews a CA and one
// serving certificate, and a Bundle follows them in every process, so that a renewal needs no restart.
//
// A new CA is published in the bundle of trusted certificates for an overlap before it signs anything, and an old one stays
// there for as long after, so that no process ever meets a certificate whose CA it does not know yet, or no longer.
package certs

// The Secrets, both in the namespace of the release, and the keys of the one that every service reads.
const (
	// SecretTLS has the serving certificate and the bundle of trusted CA certificates. Writer: the leader of the rollout service.
	SecretTLS = "magos-tls"
	// SecretCA has the CA's key. Reader and writer: the leader of the rollout service.
	SecretCA = "magos-ca"

	// KeyBundle is the PEM bundle of the CA certificates to trust.
	KeyBundle = "ca.crt"
	// KeyCertificate is a PEM certificate.
	KeyCertificate = "tls.crt"
	// KeyPrivate is the PEM private key of KeyCertificate.
	KeyPrivate = "tls.key"
)

// Services are the names of the Kubernetes Services that the serving certificate is for.
func Services() []string {
	return []string{"magos-refwatcher", "magos-rollout", "magos-runner", "magos-workspace"}
}
