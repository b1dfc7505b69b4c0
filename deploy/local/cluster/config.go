// Package cluster runs a real one-node Kubernetes on this machine, without a container engine and without a registry:
// etcd, the control plane, containerd, a kubelet and pods, all inside namespaces of their own.
//
// Everything of a cluster hangs on one process, the node (see package supervise): ending it ends every process and
// frees every mount and interface inside. On the host there are only the state folder, one veth link with its routes,
// one nftables table, two iptables rules and the control groups, all named after the cluster, so that clusters with
// different names run beside each other.
package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"magosproject.io/deploy/local/cluster/parts"
)

// Config says which cluster is meant and how it is made.
type Config struct {
	// Name tells clusters on one machine apart: a lower-case name of at most 20 letters, digits and dashes. Required.
	Name string
	// StateRoot is the folder that holds the state of each cluster in a folder of its name. Default: $MAGOS_STATE, or
	// /var/lib/magos.
	StateRoot string
	// UnsafeNoFsync lets etcd skip waiting for the disk: faster, and a power cut may lose the cluster. For tests.
	UnsafeNoFsync bool
	// Audit makes the API server write down the requests that it answers, in AuditLog. For measurements.
	Audit bool
	// Builder builds the cluster's binaries. The zero value is fine inside a checkout.
	Builder parts.Builder
}

const defaultStateRoot = "/var/lib/magos"

// A socket's path may have 107 characters; the longest of ours is below the state folder.
const maxSocketPath = 107

var validName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

func (c Config) withDefaults() (Config, error) {
	if !validName.MatchString(c.Name) {
		return c, fmt.Errorf("cluster name %q: use at most 20 lower-case letters, digits and dashes, a letter first", c.Name)
	}
	if c.StateRoot == "" {
		c.StateRoot = os.Getenv("MAGOS_STATE")
	}
	if c.StateRoot == "" {
		c.StateRoot = defaultStateRoot
	}
	root, err := filepath.Abs(c.StateRoot)
	if err != nil {
		return c, fmt.Errorf("finding the state folder: %w", err)
	}
	c.StateRoot = root
	if socket := c.paths().containerdSocket(); len(socket) > maxSocketPath {
		return c, fmt.Errorf("state folder %s is too deep: the socket %s has %d characters, %d are possible; set MAGOS_STATE",
			root, socket, len(socket), maxSocketPath)
	}
	return c, nil
}

func (c Config) paths() paths { return paths{folder: filepath.Join(c.StateRoot, c.Name)} }

func (c Config) nodeName() string { return "magos-" + c.Name }

// id names what the cluster has outside its state folder. It follows from the folder, so that clusters of one name in
// two state roots do not meet; eight characters, since interface names may have only 15.
func (c Config) id() string {
	sum := sha256.Sum256([]byte(c.paths().folder))
	return hex.EncodeToString(sum[:])[:8]
}

// linkPrefix starts the names of the links of all clusters.
const linkPrefix = "magos"

func (c Config) linkName() string    { return linkPrefix + c.id() }
func (c Config) tableName() string   { return "magos_" + c.id() }
func (c Config) cgroupName() string  { return "magos-" + c.id() }
func (c Config) contextName() string { return "magos-" + c.Name }

// paths are the files of a cluster.
type paths struct{ folder string }

func (p paths) in(elements ...string) string {
	return filepath.Join(append([]string{p.folder}, elements...)...)
}

func (p paths) record() string           { return p.in("cluster.json") }
func (p paths) spec() string             { return p.in("node.json") }
func (p paths) status() string           { return p.in("status.json") }
func (p paths) identity() string         { return p.in("node.pid") }
func (p paths) kubeconfig() string       { return p.in("kubeconfig") }
func (p paths) containerdSocket() string { return p.in("containerd.sock") }
func (p paths) log(process string) string {
	return p.in("logs", process+".log")
}
