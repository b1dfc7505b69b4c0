package up

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"magosproject.io/deploy/local/cluster"
	"magosproject.io/deploy/local/cluster/parts"
)

// Installation is a cluster with or without Magos, and the programs to work on it.
type Installation struct {
	options    Options
	local      *cluster.Cluster // nil for a cluster of the user's own
	kubeconfig string
	programs   map[string]string
	kube       kubernetes.Interface
	objects    dynamic.Interface
}

// Kubeconfig is the path of the file that names the cluster.
func (i *Installation) Kubeconfig() string { return i.kubeconfig }

// Kube is a client with the rights of the kubeconfig.
func (i *Installation) Kube() kubernetes.Interface { return i.kube }

// Cluster is the local cluster, nil for one of the user's own.
func (i *Installation) Cluster() *cluster.Cluster { return i.local }

// Program is the path of kubectl, helm or grpcurl.
func (i *Installation) Program(name string) string { return i.programs[name] }

// connect makes the clients.
func (i *Installation) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", i.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = -1, -1
	if i.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if i.objects, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// linkPrograms puts kubectl, helm and grpcurl where people can have them in their PATH. They go with the cluster.
func (i *Installation) linkPrograms() error {
	if i.local == nil {
		return nil
	}
	if err := os.MkdirAll(i.programFolder(), 0o755); err != nil {
		return fmt.Errorf("making a folder for programs: %w", err)
	}
	for _, name := range []string{parts.Kubectl, parts.Helm, parts.Grpcurl} {
		link := filepath.Join(i.programFolder(), name)
		if target, err := os.Readlink(link); err == nil && target == i.programs[name] {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("replacing the link to %s: %w", name, err)
		}
		if err := os.Symlink(i.programs[name], link); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}

func (i *Installation) programFolder() string { return filepath.Join(i.local.StateDir(), "bin") }

// apply brings the manifests into the cluster and returns a line for each object that was not so before.
func (i *Installation) apply(ctx context.Context, manifests []byte) ([]string, error) {
	said, err := i.kubectl(ctx, manifests, "apply", "-f", "-")
	if err != nil {
		return nil, err
	}
	var changed []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, " unchanged") {
			changed = append(changed, line)
		}
	}
	return changed, nil
}

func (i *Installation) kubectl(ctx context.Context, input []byte, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, i.programs[parts.Kubectl], append([]string{"--kubeconfig", i.kubeconfig}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("kubectl %s: %w: %s", arguments[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
