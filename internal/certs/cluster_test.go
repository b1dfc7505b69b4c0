package certs_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"magosproject.io/internal/certs"
	"magosproject.io/internal/testcluster"
)

var cluster *rest.Config

func TestMain(m *testing.M) {
	testcluster.Main(m, func(config *rest.Config) { cluster = config })
}

const serverName = "magos-runner.magos-system.svc"

func secrets(t *testing.T) corev1client.SecretInterface {
	t.Helper()
	core, err := corev1client.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return core.Secrets(testcluster.Namespace(t, testcluster.Client(t, cluster)))
}

func rotator(s corev1client.SecretInterface, c clock.Clock, log io.Writer) *certs.Rotator {
	return certs.NewRotator(certs.RotatorConfig{Secrets: s, Namespace: "magos-system", Clock: c, Log: slog.New(slog.NewTextHandler(log, nil))})
}

func rotate(t *testing.T, r *certs.Rotator) {
	t.Helper()
	if err := r.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// process is one that loads the Secret when the test says so, or follows it.
func process(s corev1client.SecretInterface, c clock.Clock) *certs.Bundle {
	return certs.NewBundle(certs.BundleConfig{Secrets: s, Clock: c})
}

func load(t *testing.T, s corev1client.SecretInterface, b *certs.Bundle) {
	t.Helper()
	secret, err := s.Get(t.Context(), certs.SecretTLS, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Load(secret.Data[certs.KeyBundle], secret.Data[certs.KeyCertificate], secret.Data[certs.KeyPrivate]); err != nil {
		t.Fatal(err)
	}
}

// handshake is one TLS connection between two processes.
func handshake(client, server *certs.Bundle) error {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() {
		_ = tls.Server(far, server.ServerConfig()).Handshake()
	}()
	return tls.Client(near, client.ClientConfig(serverName)).Handshake()
}

func TestSecondRotateChangesNothing(t *testing.T) {
	s, c := secrets(t), clocktesting.NewFakeClock(time.Now())
	r := rotator(s, c, io.Discard)
	rotate(t, r)
	before := versions(t, s)
	rotate(t, r)
	c.Step(5 * time.Minute)
	rotate(t, r)
	if after := versions(t, s); after != before {
		t.Errorf("versions went from %s to %s", before, after)
	}
}

func versions(t *testing.T, s corev1client.SecretInterface) string {
	t.Helper()
	list, err := s.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, secret := range list.Items {
		all = append(all, secret.Name+"="+secret.ResourceVersion)
	}
	return strings.Join(all, " ")
}

// Over three years every process can talk to every other, whether it has just read the Secret or last did so a moment before the latest change.
func TestNoHandshakeFailsThroughAllRenewals(t *testing.T) {
	s, c := fake.NewClientset().CoreV1().Secrets("magos-system"), clocktesting.NewFakeClock(time.Now())
	var log bytes.Buffer
	r := rotator(s, c, &log)
	fresh, late := process(nil, c), process(nil, c)
	rotate(t, r)
	load(t, s, late)
	signers := map[string]bool{}
	for range 3 * 365 * 2 {
		c.Step(12 * time.Hour)
		rotate(t, r)
		load(t, s, fresh)
		for name, ends := range map[string][2]*certs.Bundle{"late client": {late, fresh}, "late server": {fresh, late}, "both fresh": {fresh, fresh}} {
			if err := handshake(ends[0], ends[1]); err != nil {
				t.Fatalf("%s at %s: %v\n%s", name, c.Now(), err, log.String())
			}
		}
		load(t, s, late)
		signers[authorityInUse(t, s)] = true
	}
	if len(signers) < 4 {
		t.Errorf("%d CAs have signed in three years, want at least 4", len(signers))
	}
	if strings.Contains(log.String(), "PRIVATE KEY") {
		t.Error("a key was logged")
	}
}

func authorityInUse(t *testing.T, s corev1client.SecretInterface) string {
	t.Helper()
	secret, err := s.Get(t.Context(), certs.SecretTLS, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[certs.KeyCertificate])
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return string(leaf.AuthorityKeyId)
}

func TestRacingRotatorsEndInOneConsistentState(t *testing.T) {
	for range 10 {
		s, now := secrets(t), time.Now()
		var wait sync.WaitGroup
		for _, ahead := range []time.Duration{0, time.Minute, -time.Minute} {
			wait.Go(func() {
				if err := rotator(s, clocktesting.NewFakeClock(now.Add(ahead)), io.Discard).Rotate(t.Context()); err != nil {
					t.Errorf("Rotate: %v", err)
				}
			})
		}
		wait.Wait()
		b := process(nil, clock.RealClock{})
		load(t, s, b)
		if err := handshake(b, b); err != nil {
			t.Error(err)
		}
		before := versions(t, s)
		rotate(t, rotator(s, clocktesting.NewFakeClock(now), io.Discard))
		if after := versions(t, s); after != before {
			t.Errorf("the state after the race was not settled: %s, then %s", before, after)
		}
	}
}

func TestBundleFollowsTheSecret(t *testing.T) {
	s := secrets(t)
	b := process(s, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.Start(ctx)
	}()
	defer func() { cancel(); <-ended }()
	if b.Ready() || handshake(b, b) == nil {
		t.Error("ready before the Secret exists")
	}

	rotate(t, rotator(s, clocktesting.NewFakeClock(time.Now()), io.Discard))
	wait(t, "the Secret was made", b.Ready)
	if err := handshake(b, b); err != nil {
		t.Error(err)
	}

	first := serial(t, b)
	rotate(t, rotator(s, clocktesting.NewFakeClock(time.Now().Add(21*24*time.Hour)), io.Discard))
	// The certificate of the future leader is good only to those who live then; this process has to take it all the same.
	wait(t, "the certificate was renewed", func() bool { return serial(t, b) != first })

	if _, err := s.Patch(t.Context(), certs.SecretTLS, "application/merge-patch+json", []byte(`{"data":{"tls.crt":"YnJva2Vu"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	changed := b.Changed()
	if err := s.Delete(t.Context(), certs.SecretTLS, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(3 * time.Minute):
		t.Error("nobody was woken when the Secret was deleted")
	}
	if !b.Ready() {
		t.Errorf("a broken or deleted Secret took the certificate away: %v", b.Check())
	}
}

func TestStartRestoresADeletedSecret(t *testing.T) {
	s := secrets(t)
	b := process(s, clock.RealClock{})
	r := certs.NewRotator(certs.RotatorConfig{Secrets: s, Namespace: "magos-system", Changed: b.Changed})
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = b.Start(ctx) })
	ended.Go(func() { _ = r.Start(ctx) })
	defer func() { cancel(); ended.Wait() }()
	wait(t, "the first Secret", b.Ready)
	if err := s.Delete(t.Context(), certs.SecretTLS, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the Secret was restored", func() bool {
		_, err := s.Get(t.Context(), certs.SecretTLS, metav1.GetOptions{})
		return err == nil
	})
}

func TestExpiredCertificateIsNotReady(t *testing.T) {
	s, c := secrets(t), clocktesting.NewFakeClock(time.Now())
	rotate(t, rotator(s, c, io.Discard))
	b := process(nil, c)
	load(t, s, b)
	c.Step(31 * 24 * time.Hour)
	if b.Ready() || handshake(b, b) == nil {
		t.Error("an expired certificate serves")
	}
}

func serial(t *testing.T, b *certs.Bundle) string {
	t.Helper()
	certificate, err := b.ServerConfig().GetCertificate(nil)
	if err != nil {
		return ""
	}
	return certificate.Leaf.SerialNumber.String()
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting: %s", what)
		}
	}
}
