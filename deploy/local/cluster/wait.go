package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"magosproject.io/deploy/local/cluster/supervise"
)

const (
	// startTimeout is for all processes to become ready; they need about ten seconds on an idle machine.
	startTimeout = 4 * time.Minute
	nodeTimeout  = 4 * time.Minute
	pollInterval = 100 * time.Millisecond
	// maxFailures: a process that ended so often in a row soon after its start will not start.
	maxFailures = 5
)

// finish waits for what was started and adds what a cluster has from the beginning.
func (c *Cluster) finish(ctx context.Context, binaries map[string]string, progress io.Writer) error {
	started := time.Now()
	if err := c.awaitProcess(ctx, processContainerd, progress); err != nil {
		return err
	}
	if err := c.ensurePause(ctx, binaries); err != nil {
		return err
	}
	if err := c.awaitProcess(ctx, processAPIServer, progress); err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	if err := ensureObjects(ctx, client); err != nil {
		return err
	}
	for _, process := range c.processNames() {
		if err := c.awaitProcess(ctx, process, progress); err != nil {
			return err
		}
	}
	if err := c.awaitNode(ctx, client, progress); err != nil {
		return err
	}
	fmt.Fprintf(progress, "cluster %s is ready (%s): export KUBECONFIG=%s\n",
		c.config.Name, time.Since(started).Round(100*time.Millisecond), c.Kubeconfig())
	return nil
}

// WaitReady waits until every process of the cluster works and its node takes pods.
func (c *Cluster) WaitReady(ctx context.Context, progress io.Writer) error {
	for _, process := range c.processNames() {
		if err := c.awaitProcess(ctx, process, progress); err != nil {
			return err
		}
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	return c.awaitNode(ctx, client, progress)
}

// Client returns a client with all rights on the cluster.
func (c *Cluster) Client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = -1, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

func (c *Cluster) processNames() []string {
	spec, err := supervise.ReadSpec(c.config.paths().spec())
	if err != nil {
		return nil
	}
	var names []string
	for _, process := range spec.Processes {
		names = append(names, process.Name)
	}
	return names
}

// awaitProcess waits until the process is ready. It gives up when the node ended, or a process keeps ending: that may
// be another, which this one waits for.
func (c *Cluster) awaitProcess(ctx context.Context, name string, progress io.Writer) error {
	begin := time.Now()
	beat := begin
	var last supervise.ProcessStatus
	for time.Since(begin) < startTimeout {
		status, err := c.liveStatus()
		if err != nil {
			return err
		}
		last = find(status, name)
		if last.Ready {
			return nil
		}
		if err := c.failing(status); err != nil {
			return err
		}
		if time.Since(beat) > 10*time.Second {
			beat = time.Now()
			fmt.Fprintf(progress, "still waiting for %s (%s)\n", name, time.Since(begin).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", name, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	state := "is not ready"
	if last.PID == 0 {
		state = "does not run"
	}
	return c.fault(name, fmt.Sprintf("%s after %s", state, startTimeout))
}

// liveStatus reads what the node says about its processes, and checks that the node still says anything.
func (c *Cluster) liveStatus() (supervise.Status, error) {
	_, alive, err := runningNode(c.config.paths())
	if err != nil {
		return supervise.Status{}, err
	}
	if !alive {
		return supervise.Status{}, c.fault("node", "has ended")
	}
	status, err := supervise.ReadStatus(c.config.paths().status())
	if errors.Is(err, os.ErrNotExist) {
		return supervise.Status{}, nil // The node has only begun.
	}
	return status, err
}

func find(status supervise.Status, name string) supervise.ProcessStatus {
	for _, process := range status.Processes {
		if process.Name == name {
			return process
		}
	}
	return supervise.ProcessStatus{}
}

// failing returns an error about the first process that keeps ending.
func (c *Cluster) failing(status supervise.Status) error {
	for _, process := range status.Processes {
		if !process.Ready && process.Failures >= maxFailures {
			return c.fault(process.Name, fmt.Sprintf("ended %d times in a row, last with %s", process.Failures, process.LastExit))
		}
	}
	return nil
}

// fault is an error about a process, with the end of its log.
func (c *Cluster) fault(process, what string) error {
	path := c.config.paths().log(process)
	text, err := tail(path, 15)
	if err != nil {
		return fmt.Errorf("%s %s; its log cannot be read: %w", process, what, err)
	}
	return fmt.Errorf("%s %s; the end of its log %s:\n%s", process, what, path, text)
}

func tail(path string, lines int) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	const most = 16 << 10
	if _, err := file.Seek(max(0, info.Size()-most), io.SeekStart); err != nil {
		return "", err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return "", err
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n"), nil
}

// awaitNode waits until the node takes pods.
func (c *Cluster) awaitNode(ctx context.Context, client kubernetes.Interface, progress io.Writer) error {
	begin := time.Now()
	beat := begin
	state := "it has not registered"
	for time.Since(begin) < nodeTimeout {
		node, err := client.CoreV1().Nodes().Get(ctx, c.config.nodeName(), metav1.GetOptions{})
		switch {
		case err != nil:
			state = err.Error()
		case isReady(node, &state):
			return nil
		}
		if time.Since(beat) > 10*time.Second {
			beat = time.Now()
			fmt.Fprintf(progress, "still waiting for node %s: %s\n", c.config.nodeName(), state)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for node %s: %w", c.config.nodeName(), ctx.Err())
		case <-time.After(pollInterval):
		}
	}
	return c.fault(processKubelet, fmt.Sprintf("did not make its node ready in %s (%s)", nodeTimeout, state))
}

func isReady(node *corev1.Node, state *string) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			*state = condition.Message
			// A node that was ready before a restart says so until the kubelet reports again, but keeps this taint.
			return condition.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}
