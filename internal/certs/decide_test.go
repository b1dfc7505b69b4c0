package certs

import (
	"crypto/x509"
	"testing"
	"time"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func testConfig() *RotatorConfig {
	return &NewRotator(RotatorConfig{Namespace: "magos-system"}).config
}

func authority(t *testing.T, at time.Time, life time.Duration) *pair {
	t.Helper()
	made, err := newAuthority(at, life)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func serving(t *testing.T, at time.Time, by *pair) *pair {
	t.Helper()
	c := testConfig()
	made, err := newServing(at, c.ServingLife, servingNames(c.Services, c.Namespace), by)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestDecideAuthorities(t *testing.T) {
	const day = 24 * time.Hour
	old, next := authority(t, begin, 365*day), authority(t, begin.Add(250*day), 365*day)
	retired := []*x509.Certificate{authority(t, begin.Add(-300*day), 365*day).certificate}
	both := authorities{signing: old, next: next}
	shownSince := func(when time.Time) published { return published{bundle: both.trusted(), since: when} }
	now := begin.Add(260 * day)
	for name, test := range map[string]struct {
		now   time.Time
		have  authorities
		shown published
		want  string
	}{
		"nothing yet":                                {begin, authorities{}, published{}, madeFirst},
		"young":                                      {begin.Add(10 * day), authorities{signing: old}, published{}, ""},
		"a clock that is behind":                     {begin.Add(-day), authorities{signing: old}, published{}, ""},
		"two thirds are over":                        {begin.Add(244 * day), authorities{signing: old}, published{}, madeNext},
		"the next one is not published":              {now, both, published{bundle: authorities{signing: old}.trusted(), since: begin}, ""},
		"nobody knows since when":                    {now, both, published{bundle: both.trusted()}, ""},
		"the overlap is not over":                    {now, both, shownSince(now.Add(-23 * time.Hour)), ""},
		"it was published in the future":             {now, both, shownSince(now.Add(time.Hour)), ""},
		"the overlap is over":                        {now, both, shownSince(now.Add(-24 * time.Hour)), promoted},
		"the old one expired during the overlap":     {begin.Add(366 * day), both, shownSince(begin.Add(366 * day)), promoted},
		"expired, and there is no next":              {begin.Add(366 * day), authorities{signing: old}, published{}, madeFirst},
		"the previous one may still be in use":       {now, authorities{signing: next, previous: retired}, published{serving: serving(t, now.Add(-23*time.Hour), next)}, ""},
		"the previous one still signs what is shown": {now, authorities{signing: next, previous: []*x509.Certificate{old.certificate}}, published{serving: serving(t, begin.Add(259*day), old)}, ""},
		"the previous one is out of use":             {now, authorities{signing: next, previous: retired}, published{serving: serving(t, now.Add(-25*time.Hour), next)}, droppedPrevious},
	} {
		t.Run(name, func(t *testing.T) {
			got, change, err := testConfig().decideAuthorities(test.now, test.have, test.shown)
			if err != nil {
				t.Fatal(err)
			}
			if change != test.want {
				t.Errorf("change = %q, want %q", change, test.want)
			}
			if !usable(test.now, got.signing) {
				t.Error("nothing usable signs")
			}
		})
	}
}

func TestPromotionKeepsTheOldCATrusted(t *testing.T) {
	old, next := authority(t, begin, time.Hour), authority(t, begin, time.Hour)
	got := promote(authorities{signing: old, next: next})
	if got.signing != next || got.next != nil || len(got.previous) != 1 || !got.previous[0].Equal(old.certificate) {
		t.Errorf("after the promotion: %+v", got)
	}
	if certificates, err := parseCertificates(got.trusted()); err != nil || len(certificates) != 2 {
		t.Errorf("%d certificates are trusted (%v), want 2", len(certificates), err)
	}
	if _, found := got.data()[keyNextPrivate]; found {
		t.Error("the next CA's key is stored twice")
	}
}

func TestDecidePublished(t *testing.T) {
	const day = 24 * time.Hour
	ca, other := authority(t, begin, 365*day), authority(t, begin, 365*day)
	short := *testConfig()
	short.Services = []string{"magos-runner"}
	fewer, err := newServing(begin, short.ServingLife, servingNames(short.Services, short.Namespace), ca)
	if err != nil {
		t.Fatal(err)
	}
	have := authorities{signing: ca}
	good := published{serving: serving(t, begin, ca), bundle: have.trusted(), since: begin}
	for name, test := range map[string]struct {
		now                 time.Time
		shown               func(published) published
		changed, newServing bool
	}{
		"all is well":             {begin.Add(day), func(p published) published { return p }, false, false},
		"a clock that is behind":  {begin.Add(-day), func(p published) published { return p }, false, false},
		"nothing yet":             {begin, func(published) published { return published{} }, true, true},
		"two thirds are over":     {begin.Add(21 * day), func(p published) published { return p }, true, true},
		"signed by another CA":    {begin, func(p published) published { p.serving = serving(t, begin, other); return p }, true, true},
		"a service's name lacks":  {begin, func(p published) published { p.serving = fewer; return p }, true, true},
		"another bundle":          {begin, func(p published) published { p.bundle = authorities{signing: other}.trusted(); return p }, true, false},
		"nobody knows since when": {begin, func(p published) published { p.since = time.Time{}; return p }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			shown := test.shown(good)
			got, changed, err := testConfig().decidePublished(test.now, have, shown)
			if err != nil {
				t.Fatal(err)
			}
			if changed != test.changed || (got.serving != shown.serving) != test.newServing {
				t.Errorf("changed = %t, new certificate = %t; want %t, %t", changed, got.serving != shown.serving, test.changed, test.newServing)
			}
			if _, err := parseMaterial(got.bundle, got.serving.certificatePEM, got.serving.keyPEM); err != nil {
				t.Errorf("what is published does not fit together: %v", err)
			}
		})
	}
}

func TestServingCertificateDoesNotOutliveItsCA(t *testing.T) {
	ca := authority(t, begin, 10*24*time.Hour)
	if leaf := serving(t, begin, ca).certificate; leaf.NotAfter.After(ca.certificate.NotAfter) {
		t.Errorf("the certificate lasts until %s, its CA until %s", leaf.NotAfter, ca.certificate.NotAfter)
	}
}

func TestServingCertificateIsForTheNamesThatAreDialled(t *testing.T) {
	leaf := serving(t, begin, authority(t, begin, time.Hour)).certificate
	for _, name := range []string{"localhost", "magos-runner", "magos-runner.magos-system", "magos-rollout.magos-system.svc", "magos-workspace.magos-system.svc.cluster.local", "magos-refwatcher.magos-system.svc"} {
		if err := leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if leaf.VerifyHostname("magos-runner.elsewhere.svc") == nil {
		t.Error("the certificate is good for another namespace")
	}
	if leaf.IsCA || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("the certificate may do more than serve: CA %t, usages %v", leaf.IsCA, leaf.ExtKeyUsage)
	}
}

func TestRefusedMaterial(t *testing.T) {
	ca, other := authority(t, begin, time.Hour), authority(t, begin, time.Hour)
	leaf, stranger := serving(t, begin, ca), serving(t, begin, other)
	bundle := authorities{signing: ca}.trusted()
	for name, set := range map[string][3][]byte{
		"empty":                   {},
		"another key":             {bundle, leaf.certificatePEM, stranger.keyPEM},
		"a bundle without the CA": {bundle, stranger.certificatePEM, stranger.keyPEM},
		"no bundle":               {nil, leaf.certificatePEM, leaf.keyPEM},
		"a key in the bundle":     {append(append([]byte(nil), bundle...), ca.keyPEM...), leaf.certificatePEM, leaf.keyPEM},
	} {
		b := NewBundle(BundleConfig{})
		if err := b.Load(set[0], set[1], set[2]); err == nil || b.current.Load() != nil {
			t.Errorf("%s: taken", name)
		}
	}
}
