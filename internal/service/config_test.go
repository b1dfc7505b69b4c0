package service

import (
	"bytes"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func good() Config {
	config := NewDefaultConfig()
	config.ReleaseNamespace = "magos-system"
	return config
}

func TestDefaultsAreValid(t *testing.T) {
	config := good()
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no release namespace":             {func(c *Config) { c.ReleaseNamespace = "" }, "--release-namespace"},
		"a namespace that is none":         {func(c *Config) { c.Namespaces = []string{"Team_A"} }, `"Team_A"`},
		"a lease shorter than its renewal": {func(c *Config) { c.LeaseDuration = time.Second }, "--lease-duration"},
		"no retry":                         {func(c *Config) { c.RetryPeriod = 0 }, "--retry-period"},
		"no drain":                         {func(c *Config) { c.DrainTimeout = 0 }, "--drain-timeout"},
		"a burst below the rate":           {func(c *Config) { c.Burst = 1 }, "--kube-api-burst"},
		"an address without a port":        {func(c *Config) { c.AdvertiseAddress = "10.0.0.1" }, "--advertise-address"},
	} {
		config := good()
		test.change(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want it to name %s", name, err, test.want)
		}
	}
	config := good()
	config.ReleaseNamespace, config.Burst = "", 0
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "--release-namespace") || !strings.Contains(err.Error(), "--kube-api-burst") {
		t.Errorf("error = %v, want both faults", err)
	}
}

func TestFlags(t *testing.T) {
	config := good()
	flags := flag.NewFlagSet("x", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	config.BindFlags(flags)
	err := flags.Parse([]string{"--namespaces=a, b,", "--peers=runner=127.0.0.1:1,refwatcher=127.0.0.1:2", "--leader-elect=false", "--drain-timeout=7s"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Namespaces, []string{"a", "b"}) || config.Peers["refwatcher"] != "127.0.0.1:2" || config.LeaderElect || config.DrainTimeout != 7*time.Second {
		t.Errorf("config = %+v", config)
	}
	if err := flags.Parse([]string{"--peers=runner"}); err == nil {
		t.Error("a peer without an address was taken")
	}
}

func TestWrongArgumentsEndBeforeAnythingStarts(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		code      int
		want      string
	}{
		"an unknown flag":   {[]string{"--nonsense"}, 2, "-nonsense"},
		"no flag at all":    {[]string{"--release-namespace=a", "serve"}, 2, `"serve" is no flag`},
		"a wrong setting":   {[]string{"--release-namespace=A"}, 2, "wrong settings"},
		"a wrong log level": {[]string{"--release-namespace=a", "--log-level=loud"}, 2, "debug, info, warn or error"},
		"help":              {[]string{"--help"}, 0, "-grpc-listen"},
	} {
		var output bytes.Buffer
		code := Run(t.Context(), Definition{Name: "runner"}, test.arguments, &output)
		if code != test.code || !strings.Contains(output.String(), test.want) {
			t.Errorf("%s: exit code %d, output %q; want %d and %q", name, code, output.String(), test.code, test.want)
		}
	}
}

func TestAddressInIdentity(t *testing.T) {
	identity := newIdentity("10.1.2.3:8443")
	if got := addressOf(identity); got != "10.1.2.3:8443" {
		t.Errorf("addressOf(%q) = %q", identity, got)
	}
	if identity == newIdentity("10.1.2.3:8443") {
		t.Error("a restarted process has the identity of the one before")
	}
	for _, foreign := range []string{"", "host", "host_uuid"} {
		if got := addressOf(foreign); got != "" {
			t.Errorf("addressOf(%q) = %q, want none", foreign, got)
		}
	}
}
