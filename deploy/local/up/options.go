// Package up brings a running Magos with a demo to this machine, and takes it away again: the flow behind `make up`,
// `make demo-push` and `make down`, which the end-to-end test uses too.
package up

import (
	"io"
	"os"

	"golang.org/x/term"

	"magosproject.io/deploy/local/cluster"
	"magosproject.io/deploy/local/cluster/parts"
)

// Options say which installation is meant. The zero value is that of `make up`, without a progress report.
type Options struct {
	// Name of the local cluster; several can run beside each other. Default: $MAGOS_CLUSTER, or magos.
	Name string
	// StateRoot is the folder that holds the cluster's state. Default: that of package cluster.
	StateRoot string
	// UnsafeNoFsync lets etcd skip waiting for the disk; for tests.
	UnsafeNoFsync bool
	// Audit makes the API server of a local cluster keep an audit log; for measurements.
	Audit bool
	// Kubeconfig names a cluster of the user's own, in place of a local one. Registry must be set then.
	Kubeconfig string
	// Registry, such as registry.example.com/team, is where images are pushed to for a cluster of the user's own.
	Registry string
	// Root of the repository. Default: found from the working directory.
	Root string
	// Values over those of the chart, for instance {"rollout": {"extraArgs": […]}}.
	Values map[string]any
	// Progress receives what a person wants to see meanwhile. Default: nothing.
	Progress io.Writer
}

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = os.Getenv("MAGOS_CLUSTER")
	}
	if o.Name == "" {
		o.Name = "magos"
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Root == "" {
		root, err := parts.Root()
		if err != nil {
			return o, err
		}
		o.Root = root
	}
	return o, nil
}

func (o Options) builder() parts.Builder { return parts.Builder{Root: o.Root} }

func (o Options) cluster() cluster.Config {
	return cluster.Config{Name: o.Name, StateRoot: o.StateRoot, UnsafeNoFsync: o.UnsafeNoFsync, Audit: o.Audit, Builder: o.builder()}
}

// isTerminal says whether a person looks at the output, so that a table can be drawn over itself.
func isTerminal(output io.Writer) bool {
	file, isFile := output.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}
