package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"

	"magosproject.io/deploy/local/cluster/debian"
	"magosproject.io/deploy/local/diskspace"
)

var errNotLinux = errors.New("a local cluster needs Linux, since pods are Linux processes; use a virtual machine with Debian")

const (
	// stateNeed is for images, logs and etcd of a small cluster; buildNeed for Go's build cache and the binaries.
	stateNeed = 2 * diskspace.Gibibyte
	buildNeed = 6 * diskspace.Gibibyte
)

// Check refuses what cannot work, before anything is built or made: another system than Linux, a user without rights, a disk
// without room, and Debian packages that are missing where there is no apt. Those that are missing it installs.
func Check(ctx context.Context, config Config, progress io.Writer) error {
	config, err := config.withDefaults()
	if err != nil {
		return err
	}
	if err := checkMachine(config); err != nil {
		return err
	}
	return debian.Ensure(ctx, progress, debian.ClusterRequirements())
}

// StateNeed is the room that a cluster needs for its state.
func StateNeed(config Config) (diskspace.Need, error) {
	config, err := config.withDefaults()
	return diskspace.Need{Folder: config.paths().folder, Bytes: stateNeed, Purpose: "a cluster", Variable: "MAGOS_STATE"}, err
}

// checkMachine refuses what cannot work, before anything is changed.
func checkMachine(config Config) error {
	if runtime.GOOS != "linux" {
		return errNotLinux
	}
	if os.Geteuid() != 0 {
		return errors.New("a local cluster needs root, for namespaces, mounts and network links; run it with sudo")
	}
	need, err := StateNeed(config)
	if err != nil {
		return err
	}
	return need.Check()
}
