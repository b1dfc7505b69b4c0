package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"magosproject.io/deploy/local/cluster/supervise"
)

// ErrNotFound says that there is no cluster of that name.
var ErrNotFound = errors.New("there is no such cluster")

// Open returns a cluster that Up has made, whether it runs or not.
func Open(config Config) (*Cluster, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	var decided record
	err = supervise.ReadJSON(config.paths().record(), &decided)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening cluster %s: %w", config.Name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return decided.cluster(config), nil
}

// Kubeconfig is the path of a kubeconfig with all rights. It works on this machine only.
func (c *Cluster) Kubeconfig() string { return c.config.paths().kubeconfig() }

// Name is the name that the cluster was made with, NodeName that of its one node.
func (c *Cluster) Name() string { return c.config.Name }

// NodeName is the name of the cluster's Node object.
func (c *Cluster) NodeName() string { return c.config.nodeName() }

// NodeAddress is the node's address. The host reaches it directly, and through it the addresses of pods and Services.
func (c *Cluster) NodeAddress() string { return c.network.nodeAddress().String() }

// HostAddress is the host's address as pods see it.
func (c *Cluster) HostAddress() string { return c.network.hostAddress().String() }

// StateDir is the folder that holds everything of the cluster: logs, volumes, images, certificates.
func (c *Cluster) StateDir() string { return c.config.paths().folder }

// AuditLog is the file that the API server of a cluster with Config.Audit writes requests to, a line of JSON each: events of
// audit.k8s.io/v1 without bodies, but for those of Kubernetes itself.
func (c *Cluster) AuditLog() string { return c.config.paths().in(auditLogFile) }

// Status says how each process of the cluster fares. Running is false when the node as a whole does not run.
func (c *Cluster) Status() (processes []supervise.ProcessStatus, running bool, err error) {
	_, running, err = runningNode(c.config.paths())
	if err != nil || !running {
		return nil, false, err
	}
	status, err := supervise.ReadStatus(c.config.paths().status())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	return status.Processes, true, err
}

// Down removes the cluster and everything in it: pods, volumes, images, logs. It is no error when there is none, and
// what an earlier, interrupted Down or Up left behind is removed too.
func Down(ctx context.Context, config Config, progress io.Writer) error {
	config, err := config.withDefaults()
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("removing a local cluster needs root; run it with sudo")
	}
	if len(leftovers(ctx, config)) == 0 {
		return nil
	}
	unlock, err := lockFolder(ctx, progress, config.paths().folder)
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(progress, "removing cluster %s\n", config.Name)
	if err := remove(ctx, config); err != nil {
		return fmt.Errorf("removing cluster %s: %w", config.Name, err)
	}
	return nil
}

// remove does the work of Down under the cluster's lock.
func remove(ctx context.Context, config Config) error {
	node, running, err := runningNode(config.paths())
	if err != nil {
		return err
	}
	if running {
		if err := node.end(); err != nil {
			return err
		}
	}
	faults := []error{disconnect(ctx, config), removeCgroups(config)}
	if mounts, err := mountsBelow(config.paths().folder); err != nil || len(mounts) > 0 {
		// Deleting through a mount would delete what is mounted.
		return errors.Join(append(faults, err, fmt.Errorf("still mounted below the state folder: %v", mounts))...)
	}
	if !otherClusters() {
		faults = append(faults, restoreSettings(config))
	}
	if err := os.RemoveAll(config.paths().folder); err != nil {
		faults = append(faults, fmt.Errorf("removing the state folder: %w", err))
	}
	// Only the last cluster's removal succeeds here.
	_ = os.Remove(config.StateRoot)
	return errors.Join(faults...)
}

// Leftovers lists what is on this machine of the cluster of that configuration: its processes, mounts, interface,
// tables, rules, control groups and state folder. After Down it is empty.
func Leftovers(ctx context.Context, config Config) ([]string, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return leftovers(ctx, config), nil
}

func leftovers(ctx context.Context, config Config) []string {
	var found []string
	if count := cgroupProcesses(config); count > 0 {
		found = append(found, fmt.Sprintf("%d processes", count))
	}
	for _, group := range cgroupFolders(config) {
		found = append(found, "control group "+group)
	}
	if mounts, err := mountsBelow(config.paths().folder); err == nil {
		for _, mount := range mounts {
			found = append(found, "mount "+mount)
		}
	}
	if hasLink(config) {
		found = append(found, "interface "+config.linkName())
	}
	if hasTable(ctx, config) {
		found = append(found, "nftables table "+config.tableName())
	}
	for _, rule := range hostRules(ctx, config) {
		found = append(found, "iptables rule "+rule)
	}
	if _, err := os.Stat(config.paths().folder); err == nil {
		found = append(found, "folder "+config.paths().folder)
	}
	return found
}

// mountsBelow lists the mounts of the host below the folder. Those of the node are in its own namespace.
func mountsBelow(folder string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	var found []string
	for _, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], filepath.Clean(folder)+"/") {
			found = append(found, fields[4])
		}
	}
	return found, nil
}
