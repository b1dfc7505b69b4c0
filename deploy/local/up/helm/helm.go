// Package helm renders and installs charts with the Helm that this repository pins.
package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Client runs the helm binary.
type Client struct {
	// Binary is the path of helm. Required.
	Binary string
	// Kubeconfig is the file that names the cluster. Only Template and Lint do without.
	Kubeconfig string
}

// Release is an installation of a chart.
type Release struct {
	// Name and Namespace of the release. Required. The namespace is made where it is missing.
	Name, Namespace string
	// Chart is the folder of the chart. Required.
	Chart string
	// Values over those of the chart.
	Values map[string]any
	// Description is kept with the installed revision; Installed finds it again.
	Description string
}

// Template renders the chart without a cluster, as one stream of YAML documents.
func (c Client) Template(ctx context.Context, r Release) ([]byte, error) {
	return c.withValues(ctx, r, "template", r.Name, r.Chart, "--namespace", r.Namespace)
}

// Lint returns an error that holds what Helm finds wrong with the chart; warnings count as wrong.
func (c Client) Lint(ctx context.Context, r Release) error {
	_, err := c.withValues(ctx, r, "lint", r.Chart, "--strict", "--quiet")
	return err
}

// Upgrade installs the release, or brings an installed one to this chart and these values. It does not wait for pods.
func (c Client) Upgrade(ctx context.Context, r Release) error {
	_, err := c.withValues(ctx, r, "upgrade", r.Name, r.Chart, "--install", "--namespace", r.Namespace, "--create-namespace",
		"--description", r.Description, "--history-max", "5", "--timeout", (2 * time.Minute).String())
	return err
}

// Uninstall removes the release. One that does not exist is no error.
func (c Client) Uninstall(ctx context.Context, name, namespace string) error {
	_, err := c.run(ctx, nil, "uninstall", name, "--namespace", namespace, "--ignore-not-found")
	return err
}

// Installed returns the description with which the release was last deployed, or "" where there is no release or its
// last upgrade did not succeed.
func (c Client) Installed(ctx context.Context, name, namespace string) (string, error) {
	output, err := c.run(ctx, nil, "status", name, "--namespace", namespace, "--output", "json")
	if err != nil && strings.Contains(err.Error(), "release: not found") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var release struct {
		Info struct {
			Status      string `json:"status"`
			Description string `json:"description"`
		} `json:"info"`
	}
	if err := json.Unmarshal(output, &release); err != nil {
		return "", fmt.Errorf("reading the state of release %s: %w", name, err)
	}
	if release.Info.Status != "deployed" {
		return "", nil
	}
	return release.Info.Description, nil
}

func (c Client) withValues(ctx context.Context, r Release, arguments ...string) ([]byte, error) {
	if len(r.Values) == 0 {
		return c.run(ctx, nil, arguments...)
	}
	// JSON is YAML.
	values, err := json.Marshal(r.Values)
	if err != nil {
		return nil, fmt.Errorf("writing the values of release %s: %w", r.Name, err)
	}
	return c.run(ctx, values, append(arguments, "--values", "-")...)
}

func (c Client) run(ctx context.Context, input []byte, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, c.Binary, arguments...)
	command.Env = environment(c.Kubeconfig)
	// Helm ends its work in order when it is interrupted; only one that does not is killed.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &stdout, &stderr
	err := command.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = strings.TrimSpace(stdout.String())
		}
		return nil, fmt.Errorf("helm %s: %s", arguments[0], strings.TrimPrefix(said, "Error: "))
	}
	if err != nil {
		return nil, fmt.Errorf("running helm: %w", err)
	}
	return stdout.Bytes(), nil
}

// environment is the process's own, without what would make Helm use another cluster, namespace or store than we say.
func environment(kubeconfig string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "HELM_") && !strings.HasPrefix(variable, "KUBE") {
			kept = append(kept, variable)
		}
	}
	if kubeconfig == "" {
		kubeconfig = os.DevNull
	}
	return append(kept, "KUBECONFIG="+kubeconfig)
}
