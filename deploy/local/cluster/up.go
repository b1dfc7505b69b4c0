package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"time"

	"magosproject.io/deploy/local/cluster/debian"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/cluster/supervise"
	"magosproject.io/deploy/local/diskspace"
)

// Cluster is a cluster that exists on this machine.
type Cluster struct {
	config  Config
	network network
	isNew   bool
}

// IsNew says whether the Up that returned the cluster has made it, rather than found it.
func (c *Cluster) IsNew() bool { return c.isNew }

// record is what is decided once in the life of a cluster.
type record struct {
	NetworkIndex  int  `json:"networkIndex"`
	UnsafeNoFsync bool `json:"unsafeNoFsync"`
	// HostSettings are the settings of the machine that a cluster changes, as they were before: the last cluster to go
	// puts them back.
	HostSettings map[string]string `json:"hostSettings"`
}

// Up makes sure that the cluster runs: it builds what is missing, makes the cluster when there is none, and starts its
// node when that does not run, as after a restart of the machine. On a healthy cluster it changes nothing. When a new
// cluster cannot be finished, also because the context ends, what was made of it is removed again.
func Up(ctx context.Context, config Config, progress io.Writer) (*Cluster, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkMachine(config); err != nil {
		return nil, err
	}
	binaries, err := prepareBinaries(ctx, config, progress)
	if err != nil {
		return nil, err
	}
	return upWith(ctx, config, binaries, progress)
}

// upWith is Up with the binaries at hand.
func upWith(ctx context.Context, config Config, binaries map[string]string, progress io.Writer) (*Cluster, error) {
	unlock, err := lockFolder(ctx, progress, config.paths().folder)
	if err != nil {
		return nil, err
	}
	defer unlock()

	_, err = os.Stat(config.paths().record())
	isNew := errors.Is(err, fs.ErrNotExist)
	cluster, err := bring(ctx, config, binaries, progress)
	if err == nil {
		cluster.isNew = isNew
		return cluster, nil
	}
	if isNew {
		fmt.Fprintf(progress, "removing the unfinished cluster %s\n", config.Name)
		// The context may have ended; cleaning up must not.
		err = errors.Join(err, remove(context.WithoutCancel(ctx), config))
	}
	return nil, fmt.Errorf("bringing up cluster %s: %w", config.Name, err)
}

func prepareBinaries(ctx context.Context, config Config, progress io.Writer) (map[string]string, error) {
	if err := debian.Ensure(ctx, progress, debian.ClusterRequirements()); err != nil {
		return nil, err
	}
	built, err := config.Builder.Present(parts.ClusterParts()...)
	if err != nil {
		return nil, err
	}
	if !built {
		cache, err := parts.DefaultCache()
		if err != nil {
			return nil, err
		}
		for variable, folder := range map[string]string{"MAGOS_CACHE": cache, "GOCACHE": parts.GoCache()} {
			need := diskspace.Need{Folder: folder, Bytes: buildNeed, Purpose: "building Kubernetes", Variable: variable}
			if err := need.Check(); err != nil {
				return nil, err
			}
		}
	}
	return config.Builder.Build(ctx, progress, parts.ClusterParts()...)
}

// bring does the work of Up under the cluster's lock.
func bring(ctx context.Context, config Config, binaries map[string]string, progress io.Writer) (*Cluster, error) {
	cluster, err := ensureNode(ctx, config, binaries, progress)
	if err != nil {
		return nil, err
	}
	if err := cluster.finish(ctx, binaries, progress); err != nil {
		return nil, err
	}
	return cluster, nil
}

// ensureNode makes sure that the node runs, with addresses that nothing else on this machine has.
func ensureNode(ctx context.Context, config Config, binaries map[string]string, progress io.Writer) (*Cluster, error) {
	// Addresses are taken once the node is connected. Until then other new clusters wait, those of other state roots too.
	unlock, err := lockNetworks(ctx, progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	decided, err := settle(ctx, config, progress)
	if err != nil {
		return nil, err
	}
	cluster := decided.cluster(config)
	resolvers, err := hostResolvers()
	if err != nil {
		return nil, err
	}
	spec, rendered, err := cluster.renderSpec(binaries, resolvers)
	if err != nil {
		return nil, err
	}
	node, running, err := runningNode(config.paths())
	if err != nil {
		return nil, err
	}
	if running && !cluster.runsAs(spec) {
		fmt.Fprintf(progress, "restarting cluster %s: its binaries or settings have changed\n", config.Name)
		if err := node.end(); err != nil {
			return nil, err
		}
		running = false
	}
	if !running {
		if err := cluster.start(ctx, rendered, spec, resolvers, progress); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

// cluster is the cluster of this record. What was recorded wins over what the caller asks for later.
func (r record) cluster(config Config) *Cluster {
	config.UnsafeNoFsync = r.UnsafeNoFsync
	return &Cluster{config: config, network: network{index: r.NetworkIndex}}
}

// settle decides on the cluster's addresses, once, and records them.
func settle(ctx context.Context, config Config, progress io.Writer) (record, error) {
	var decided record
	err := supervise.ReadJSON(config.paths().record(), &decided)
	if err == nil {
		return decided, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return record{}, err
	}
	// Under the lock of all clusters, so that two new ones do not choose the same addresses.
	unlock, err := lockFolder(ctx, progress, config.StateRoot)
	if err != nil {
		return record{}, err
	}
	defer unlock()
	taken, err := hostRoutes(ctx)
	if err != nil {
		return record{}, err
	}
	others, err := recordedClusters(config.StateRoot)
	if err != nil {
		return record{}, err
	}
	for _, other := range others {
		taken = append(taken, network{index: other.NetworkIndex}.ranges()...)
	}
	chosen, err := freeNetwork(taken)
	if err != nil {
		return record{}, err
	}
	settings, err := readSettings(hostSettings())
	if err != nil {
		return record{}, err
	}
	for _, other := range others {
		settings = other.HostSettings // As they were before the first.
	}
	decided = record{NetworkIndex: chosen.index, UnsafeNoFsync: config.UnsafeNoFsync, HostSettings: settings}
	return decided, supervise.WriteJSON(config.paths().record(), decided)
}

// recordedClusters reads the records of all clusters in the state root.
func recordedClusters(stateRoot string) ([]record, error) {
	files, err := filepath.Glob(filepath.Join(stateRoot, "*", "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("looking for other clusters: %w", err)
	}
	var found []record
	for _, file := range files {
		var other record
		if err := supervise.ReadJSON(file, &other); err != nil {
			return nil, fmt.Errorf("reading the record of another cluster: %w", err)
		}
		found = append(found, other)
	}
	return found, nil
}

func (c *Cluster) renderSpec(binaries map[string]string, resolvers []string) (supervise.Spec, components, error) {
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return supervise.Spec{}, components{}, fmt.Errorf("looking for containerd: %w", err)
	}
	rendered := components{config: c.config, network: c.network, binaries: binaries, containerd: containerd}
	spec := supervise.Spec{
		Hostname:  c.config.nodeName(),
		StateDir:  c.config.paths().folder,
		Resolvers: renderResolvers(resolvers),
		Address:   fmt.Sprintf("%s/30", c.network.nodeAddress()),
		Gateway:   c.network.hostAddress().String(),
		Processes: rendered.processes(),
	}
	for _, name := range parts.ClusterParts() {
		spec.Visible = append(spec.Visible, filepath.Dir(binaries[name]))
	}
	return spec, rendered, nil
}

// runsAs says whether the node was started with this specification.
func (c *Cluster) runsAs(spec supervise.Spec) bool {
	running, err := supervise.ReadSpec(c.config.paths().spec())
	return err == nil && reflect.DeepEqual(running, spec)
}

func (c *Cluster) start(
	ctx context.Context, rendered components, spec supervise.Spec, resolvers []string, progress io.Writer,
) error {
	fmt.Fprintf(progress, "starting cluster %s: node %s at %s, state in %s\n",
		c.config.Name, c.config.nodeName(), c.network.nodeAddress(), c.config.paths().folder)
	for _, folder := range []string{"logs", "pod-logs", "volumes", "containerd", "kubelet"} {
		if err := os.MkdirAll(c.config.paths().in(folder), 0o755); err != nil {
			return fmt.Errorf("making the state folder: %w", err)
		}
	}
	// A status of the last life must not be taken for one of this.
	if err := os.Remove(c.config.paths().status()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the old status: %w", err)
	}
	if err := prepareCertificates(c.config, c.network, time.Now()); err != nil {
		return err
	}
	if err := rendered.writeFiles(resolvers); err != nil {
		return err
	}
	if err := supervise.WriteJSON(c.config.paths().spec(), spec); err != nil {
		return err
	}
	// Pods of an earlier life that was cut off left empty groups, in which the kubelet would look for processes.
	if err := removeCgroups(c.config); err != nil {
		return err
	}
	return startNode(ctx, c.config, c.network, rendered.binaries[parts.Node])
}
