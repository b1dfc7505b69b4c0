package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// network is where a cluster lives: a link of two addresses between host and node, and ranges for pods and Services.
// Each cluster of a machine has another index.
type network struct {
	index int
}

const maxClusters = 200

func (n network) hostAddress() netip.Addr { return netip.AddrFrom4([4]byte{10, 210, byte(n.index), 1}) }
func (n network) nodeAddress() netip.Addr { return netip.AddrFrom4([4]byte{10, 210, byte(n.index), 2}) }

func (n network) link() netip.Prefix     { return netip.PrefixFrom(n.hostAddress(), 30).Masked() }
func (n network) pods() netip.Prefix     { return subnet(211, n.index) }
func (n network) services() netip.Prefix { return subnet(212, n.index) }

func (n network) apiServer() string { return fmt.Sprintf("https://%s:6443", n.nodeAddress()) }

// kubernetesService is the first address of the Service range: the API server, seen from pods.
func (n network) kubernetesService() netip.Addr { return n.services().Addr().Next() }

func (n network) ranges() []netip.Prefix { return []netip.Prefix{n.link(), n.pods(), n.services()} }

func subnet(second, index int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second), byte(index), 0}), 24)
}

// freeNetwork picks the first network that no route of the host uses. Broad routes, such as 10.0.0.0/8 into a company's
// network, do not count: ours are more specific and win for the few addresses they cover.
func freeNetwork(routes []netip.Prefix) (network, error) {
	const broad = 16
	for index := range maxClusters {
		candidate := network{index: index}
		free := true
		for _, route := range routes {
			for _, wanted := range candidate.ranges() {
				if route.Bits() > broad && route.Overlaps(wanted) {
					free = false
				}
			}
		}
		if free {
			return candidate, nil
		}
	}
	return network{}, fmt.Errorf("no free addresses for a cluster: the host has routes to all of 10.210.0.0/16, " +
		"10.211.0.0/16 and 10.212.0.0/16 (see `ip route show table all`)")
}

// parseRoutes reads the answer of `ip -json route show table all`.
func parseRoutes(answer []byte) ([]netip.Prefix, error) {
	var entries []struct {
		Destination string `json:"dst"`
	}
	if err := json.Unmarshal(answer, &entries); err != nil {
		return nil, fmt.Errorf("reading the host's routes: %w", err)
	}
	var routes []netip.Prefix
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry.Destination); err == nil {
			routes = append(routes, prefix)
		} else if address, err := netip.ParseAddr(entry.Destination); err == nil {
			routes = append(routes, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return routes, nil
}
