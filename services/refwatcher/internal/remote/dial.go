package remote

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

const dialTimeout = 10 * time.Second

// metadata are addresses at which clouds hand out credentials and that are not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

// translated is the prefix under which IPv6-only networks reach IPv4 addresses.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// dialer connects to remotes, whatever protocol is spoken then. go-git's own clients for ssh and git dial by themselves, without a context and
// without a way to look at the address: that is why they are not used.
type dialer struct{ net.Dialer }

func newDialer(allowLocal bool) *dialer {
	d := &dialer{net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}}
	if !allowLocal {
		// Called with the address after the name was looked up, for each one tried: a name that resolves to a loopback address is refused as well.
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error { return checkAddress(address) }
	}
	return d
}

// checkAddress refuses addresses that lead back into the pod, the node or the cloud's metadata.
func checkAddress(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading address %q: %w", address, err)
	}
	if addr := parsed.Addr(); isLocal(addr) {
		return fmt.Errorf("address %s is loopback, link-local or a cloud's metadata service: not allowed (--git-allow-local-addresses)", addr)
	}
	return nil
}

func isLocal(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if translated.Contains(addr) {
		raw := addr.As16()
		addr = netip.AddrFrom4([4]byte(raw[12:]))
	}
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
		return true
	}
	for _, m := range metadata {
		if addr == m {
			return true
		}
	}
	// 0.0.0.0/8 is "this host" on Linux, 255.255.255.255 is everybody.
	return addr.Is4() && (addr.As4()[0] == 0 || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}

// open connects to a remote whose protocol has no notion of a context: the connection is closed when ctx ends.
func (d *dialer) open(ctx context.Context, address string) (net.Conn, func(), error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, func() { stop(); _ = conn.Close() }, nil
}
