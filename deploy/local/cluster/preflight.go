package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

var errNotLinux = errors.New("a local cluster needs Linux, since pods are Linux processes; use a virtual machine with Debian")

const (
	gibibyte = 1 << 30
	// stateNeed is for images, logs and etcd of a small cluster; buildNeed for Go's build cache and the binaries.
	stateNeed = 2 * gibibyte
	buildNeed = 6 * gibibyte
)

// checkMachine refuses what cannot work, before anything is changed.
func checkMachine(config Config) error {
	if runtime.GOOS != "linux" {
		return errNotLinux
	}
	if os.Geteuid() != 0 {
		return errors.New("a local cluster needs root, for namespaces, mounts and network links; run it with sudo")
	}
	return checkSpace(config.StateRoot, stateNeed, "a cluster", "MAGOS_STATE")
}

// checkSpace measures the file system that the folder is or would be on.
func checkSpace(folder string, need uint64, purpose, variable string) error {
	existing := folder
	for {
		if _, err := os.Stat(existing); err == nil || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	var space syscall.Statfs_t
	if err := syscall.Statfs(existing, &space); err != nil {
		return fmt.Errorf("measuring the free space of %s: %w", existing, err)
	}
	free := space.Bavail * uint64(space.Bsize)
	if free < need {
		return fmt.Errorf("disk nearly full: %s has %.1f GiB free and %s needs %.0f GiB there; free some, or set %s to a folder elsewhere",
			existing, float64(free)/gibibyte, purpose, float64(need)/gibibyte, variable)
	}
	return nil
}
