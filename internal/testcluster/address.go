package testcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
)

// Ports of Address: below those that Linux gives to connections, which would take a free one at any moment.
const (
	firstPort = 20_000
	lastPort  = 29_999
)

// Address is an address on loopback that nothing listens at, and that no other test gets until this one ends, in this process or
// another: for a server that takes an address and not a listener. A port that was merely seen to be free can be lost to a connection
// or to another test before the server listens.
func Address(tb testing.TB) string {
	tb.Helper()
	start := rand.IntN(lastPort - firstPort + 1)
	for i := range lastPort - firstPort + 1 {
		port := firstPort + (start+i)%(lastPort-firstPort+1)
		release, err := reserve(port)
		if err != nil {
			continue
		}
		tb.Cleanup(release)
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	tb.Fatal("no port of 20000 to 29999 is free")
	return ""
}

// reserve takes a name in the kernel that stands for the port, and checks that nobody else listens there.
func reserve(port int) (release func(), err error) {
	release = func() {}
	if runtime.GOOS == "linux" {
		// The name goes with the process, however that ends.
		claim, err := net.Listen("unix", fmt.Sprintf("@magos-test-port-%d", port))
		if err != nil {
			return nil, err
		}
		release = func() { _ = claim.Close() }
	}
	for _, network := range []string{"tcp4", "tcp6"} {
		listener, err := net.Listen(network, fmt.Sprintf(":%d", port))
		if err != nil && network == "tcp6" && !strings.Contains(err.Error(), "in use") {
			continue // a machine without IPv6
		}
		if err != nil {
			release()
			return nil, errors.Join(fmt.Errorf("port %d is taken", port), err)
		}
		_ = listener.Close()
	}
	return release, nil
}
