package cluster

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"
)

func TestFreeNetworkAvoidsWhatTheHostUses(t *testing.T) {
	tests := map[string]struct {
		routes []string
		want   int
	}{
		"an empty host gets the first":                          {nil, 0},
		"a cluster's link takes its index":                      {[]string{"10.210.0.0/30"}, 1},
		"a pod range alone takes its index":                     {[]string{"10.211.0.0/24"}, 1},
		"a single address inside a range counts":                {[]string{"10.212.0.77/32"}, 1},
		"gaps are filled":                                       {[]string{"10.210.0.0/30", "10.210.2.0/30"}, 1},
		"a broad route into a company's network is no obstacle": {[]string{"10.0.0.0/8", "0.0.0.0/0"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var routes []netip.Prefix
			for _, route := range test.routes {
				routes = append(routes, netip.MustParsePrefix(route))
			}
			got, err := freeNetwork(routes)
			if err != nil || got.index != test.want {
				t.Fatalf("got index %d, error %v; want %d", got.index, err, test.want)
			}
		})
	}
}

func TestFreeNetworkSaysSoWhenAllAreTaken(t *testing.T) {
	var routes []netip.Prefix
	for index := range maxClusters {
		routes = append(routes, network{index: index}.link())
	}
	if _, err := freeNetwork(routes); err == nil || !strings.Contains(err.Error(), "no free addresses") {
		t.Fatalf("got %v", err)
	}
}

func TestNetworksOfTwoClustersDoNotOverlap(t *testing.T) {
	for _, first := range (network{index: 3}).ranges() {
		for _, second := range (network{index: 4}).ranges() {
			if first.Overlaps(second) {
				t.Errorf("%s overlaps %s", first, second)
			}
		}
	}
}

func TestParseRoutesReadsRangesAndSingleAddresses(t *testing.T) {
	routes, err := parseRoutes([]byte(`[{"dst":"default","gateway":"192.0.2.1"},{"dst":"192.0.2.0/24"},{"type":"local","dst":"192.0.2.2"}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.2/32")}
	if len(routes) != 2 || routes[0] != want[0] || routes[1] != want[1] {
		t.Fatalf("got %v, want %v", routes, want)
	}
}

func TestParseResolversTakesWhatANodeCanReach(t *testing.T) {
	got := parseResolvers("# made by a tool\nsearch example.org\nnameserver 127.0.0.53\nnameserver 192.0.2.53\nnameserver ::1\nnameserver 198.51.100.1\noptions edns0\n")
	if strings.Join(got, " ") != "192.0.2.53 198.51.100.1" {
		t.Fatalf("got %v", got)
	}
}

func TestParseCgroupRootsPrefersVersionOne(t *testing.T) {
	const (
		first  = "31 24 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n"
		second = "35 24 0:31 / /sys/fs/cgroup/unified rw,relatime shared:13 - cgroup2 cgroup2 rw\n"
	)
	if got := parseCgroupRoots(second + first); len(got) != 1 || got[0] != "/sys/fs/cgroup/cpu" {
		t.Errorf("with both versions: got %v", got)
	}
	if got := parseCgroupRoots(second); len(got) != 1 || got[0] != "/sys/fs/cgroup/unified" {
		t.Errorf("with version 2 alone: got %v", got)
	}
}

func TestOneClusterAtATimeChoosesItsAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("clusters are for Linux")
	}
	unlock, err := lockNetworks(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said := &cancelling{cancel: cancel}
	if _, err := lockNetworks(ctx, said); !errors.Is(err, context.Canceled) {
		t.Errorf("locked twice: %v", err)
	}
	if !strings.Contains(said.text, "waiting for another cluster") {
		t.Errorf("it said %q", said.text)
	}
	unlock()
	unlock, err = lockNetworks(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// cancelling ends a context once something is said.
type cancelling struct {
	cancel func()
	text   string
}

func (c *cancelling) Write(text []byte) (int, error) {
	c.text += string(text)
	c.cancel()
	return len(text), nil
}
