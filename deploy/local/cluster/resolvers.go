package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

// resolverFiles are tried in this order. The second is where systemd-resolved keeps the real resolvers while
// /etc/resolv.conf names only its own loopback address, which a node cannot reach.
var resolverFiles = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}

// hostResolvers returns the name servers of the host that the node can reach, none when there are none.
func hostResolvers() ([]string, error) {
	for _, file := range resolverFiles {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the host's resolvers: %w", err)
		}
		if found := parseResolvers(string(content)); len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}

// parseResolvers takes the IPv4 name servers that are not loopback addresses; the node has no IPv6. The forwarder
// takes at most fifteen, resolv.conf has three.
func parseResolvers(content string) []string {
	var found []string
	for _, line := range strings.Split(content, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(found) == 3 {
			continue
		}
		address, err := netip.ParseAddr(fields[1])
		if err == nil && address.Is4() && !address.IsLoopback() {
			found = append(found, address.String())
		}
	}
	return found
}

func renderResolvers(servers []string) string {
	var text strings.Builder
	for _, server := range servers {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	return text.String()
}
