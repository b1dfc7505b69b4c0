package certs

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"
)

// authorities is what the CA's Secret holds.
type authorities struct {
	// signing signs serving certificates; nil before there is one.
	signing *pair
	// next is published already and signs later; nil except during an overlap.
	next *pair
	// previous have signed and are still trusted. Their keys are gone.
	previous []*x509.Certificate
}

// published is what the Secret that everybody reads holds.
type published struct {
	serving *pair
	bundle  []byte
	// since is when the bundle last changed; zero when that is not known.
	since time.Time
}

// trusted is the bundle to publish.
func (a authorities) trusted() []byte {
	all := []*x509.Certificate{a.signing.certificate}
	if a.next != nil {
		all = append(all, a.next.certificate)
	}
	return encodeCertificates(append(all, a.previous...))
}

// Changes of the CA, for the log.
const (
	madeFirst       = "made a CA"
	madeNext        = "made the next CA, which signs after the overlap"
	promoted        = "the next CA signs from now on"
	droppedPrevious = "the previous CA is no longer trusted"
)

// decideAuthorities takes one step towards the CAs that there should be, and says which; an empty string means none.
func (c *RotatorConfig) decideAuthorities(now time.Time, have authorities, shown published) (authorities, string, error) {
	switch {
	case !usable(now, have.signing) && usable(now, have.next):
		return promote(have), promoted, nil
	case !usable(now, have.signing):
		made, err := newAuthority(now, c.CALife)
		return authorities{signing: made}, madeFirst, err
	case have.next == nil && !now.Before(due(have.signing.certificate)):
		made, err := newAuthority(now, c.CALife)
		return authorities{signing: have.signing, next: made, previous: have.previous}, madeNext, err
	case have.next != nil && c.overlapped(now, have.next, shown):
		return promote(have), promoted, nil
	case len(have.previous) > 0 && c.isPreviousDone(now, have, shown):
		return authorities{signing: have.signing, next: have.next}, droppedPrevious, nil
	}
	return have, "", nil
}

// usable is about the end only: a clock that is behind must not make a leader throw a good CA away.
func usable(now time.Time, p *pair) bool {
	return p != nil && now.Before(p.certificate.NotAfter)
}

func promote(have authorities) authorities {
	next := authorities{signing: have.next, previous: have.previous}
	if have.signing != nil {
		next.previous = append([]*x509.Certificate{have.signing.certificate}, have.previous...)
	}
	return next
}

// overlapped reports whether every process has had the time to learn of the next CA.
func (c *RotatorConfig) overlapped(now time.Time, next *pair, shown published) bool {
	listed, err := parseCertificates(shown.bundle)
	if err != nil || shown.since.IsZero() {
		return false
	}
	isListed := slices.ContainsFunc(listed, func(certificate *x509.Certificate) bool { return certificate.Equal(next.certificate) })
	return isListed && now.Sub(shown.since) >= c.Overlap
}

// isPreviousDone reports whether nobody can still use a certificate that a previous CA signed: the present one has been shown for an overlap.
func (c *RotatorConfig) isPreviousDone(now time.Time, have authorities, shown published) bool {
	if shown.serving == nil || shown.serving.certificate.CheckSignatureFrom(have.signing.certificate) != nil {
		return false
	}
	made := shown.serving.certificate.NotBefore.Add(backdate)
	return now.Sub(made) >= c.Overlap
}

// decidePublished makes what everybody should see, and reports whether it differs from what is shown.
func (c *RotatorConfig) decidePublished(now time.Time, have authorities, shown published) (published, bool, error) {
	wanted := published{serving: shown.serving, bundle: have.trusted(), since: shown.since}
	changed := false
	if !bytes.Equal(wanted.bundle, shown.bundle) || shown.since.IsZero() {
		wanted.since, changed = now, true
	}
	if !c.isServingGood(now, have.signing, shown.serving) {
		made, err := newServing(now, c.ServingLife, servingNames(c.Services, c.Namespace), have.signing)
		if err != nil {
			return published{}, false, err
		}
		wanted.serving, changed = made, true
	}
	return wanted, changed, nil
}

// isServingGood reports whether the serving certificate can stay.
func (c *RotatorConfig) isServingGood(now time.Time, authority, serving *pair) bool {
	if serving == nil || !now.Before(due(serving.certificate)) {
		return false
	}
	if serving.certificate.CheckSignatureFrom(authority.certificate) != nil {
		return false
	}
	names := slices.Sorted(slices.Values(serving.certificate.DNSNames))
	return slices.Equal(names, servingNames(c.Services, c.Namespace))
}
