package certs

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// The keys of the CA's Secret beside KeyCertificate and KeyPrivate.
	keyNextCertificate = "next.crt"
	keyNextPrivate     = "next.key"
	keyPrevious        = "previous.crt"

	// annotationSince is when the bundle last changed.
	annotationSince = "magosproject.io/bundle-changed-at"

	attempts = 8
)

// Rotate brings both Secrets up to date, once. Two of them at the same time end in one consistent state: whoever loses a race looks again.
func (r *Rotator) Rotate(ctx context.Context) error {
	var err error
	for range attempts {
		if err = r.try(ctx); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

// try reads first what is written last: a write of the published Secret then always follows from a CA that was read after the version it replaces,
// so a slow loser cannot put an older CA's certificate over a newer one's.
func (r *Rotator) try(ctx context.Context) error {
	shownSecret, err := r.read(ctx, SecretTLS)
	if err != nil {
		return err
	}
	caSecret, err := r.read(ctx, SecretCA)
	if err != nil {
		return err
	}
	now, shown := r.config.Clock.Now(), readPublished(shownSecret)
	have, change, err := r.config.decideAuthorities(now, readAuthorities(caSecret), shown)
	if err != nil {
		return fmt.Errorf("renewing the CA: %w", err)
	}
	if change != "" {
		if err := r.write(ctx, caSecret, SecretCA, corev1.SecretTypeOpaque, have.data(), nil); err != nil {
			return err
		}
		r.config.Log.Info(change, "serial", have.signing.certificate.SerialNumber.Text(16), "notAfter", have.signing.certificate.NotAfter)
	}
	wanted, differs, err := r.config.decidePublished(now, have, shown)
	if err != nil || !differs {
		return err
	}
	if err := r.write(ctx, shownSecret, SecretTLS, corev1.SecretTypeTLS, wanted.data(), wanted.annotations()); err != nil {
		return err
	}
	leaf := wanted.serving.certificate
	r.config.Log.Info("published the certificates", "serial", leaf.SerialNumber.Text(16), "notAfter", leaf.NotAfter, "renewAfter", due(leaf))
	return nil
}

// read returns nil for a Secret that does not exist.
func (r *Rotator) read(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := r.config.Secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return secret, nil
}

// write replaces the version that was read, or creates the Secret where there was none; anything else is a conflict.
func (r *Rotator) write(ctx context.Context, read *corev1.Secret, name string, kind corev1.SecretType, data map[string][]byte, annotations map[string]string) error {
	if read == nil {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: map[string]string{"app.kubernetes.io/part-of": "magos"}},
			Type:       kind,
			Data:       data,
		}
		if _, err := r.config.Secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating Secret %s: %w", name, err)
		}
		return nil
	}
	secret := read.DeepCopy()
	secret.Data = data
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, key, value)
	}
	if _, err := r.config.Secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating Secret %s: %w", name, err)
	}
	return nil
}

func readAuthorities(secret *corev1.Secret) authorities {
	if secret == nil {
		return authorities{}
	}
	have := authorities{
		signing: parsePair(secret.Data[KeyCertificate], secret.Data[KeyPrivate]),
		next:    parsePair(secret.Data[keyNextCertificate], secret.Data[keyNextPrivate]),
	}
	if previous, err := parseCertificates(secret.Data[keyPrevious]); err == nil {
		have.previous = previous
	}
	return have
}

func (a authorities) data() map[string][]byte {
	data := map[string][]byte{KeyCertificate: a.signing.certificatePEM, KeyPrivate: a.signing.keyPEM}
	if a.next != nil {
		data[keyNextCertificate], data[keyNextPrivate] = a.next.certificatePEM, a.next.keyPEM
	}
	if len(a.previous) > 0 {
		data[keyPrevious] = encodeCertificates(a.previous)
	}
	return data
}

func readPublished(secret *corev1.Secret) published {
	if secret == nil {
		return published{}
	}
	shown := published{serving: parsePair(secret.Data[KeyCertificate], secret.Data[KeyPrivate]), bundle: secret.Data[KeyBundle]}
	if since, err := time.Parse(time.RFC3339, secret.Annotations[annotationSince]); err == nil {
		shown.since = since
	}
	return shown
}

func (p published) data() map[string][]byte {
	return map[string][]byte{KeyBundle: p.bundle, KeyCertificate: p.serving.certificatePEM, KeyPrivate: p.serving.keyPEM}
}

func (p published) annotations() map[string]string {
	return map[string]string{annotationSince: p.since.UTC().Format(time.RFC3339)}
}
