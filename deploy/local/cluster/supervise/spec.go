// Package supervise runs the processes of a one-node cluster as the first process of namespaces of its own: network,
// mounts, processes and hostname. Ending that one process ends every process of the cluster and frees every mount and
// interface inside it; the kernel does the cleaning.
package supervise

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Spec is what a node runs. The starter writes it as a file; the node reads it once, when it starts.
type Spec struct {
	// Hostname is the name of the node inside its namespace.
	Hostname string `json:"hostname"`
	// StateDir is the one folder of the host that the node writes to.
	StateDir string `json:"stateDir"`
	// Visible are further folders of the host that the node must see although they may lie under a folder that it
	// hides (/run, /var/lib, /var/log): those of its binaries.
	Visible []string `json:"visible"`
	// Resolvers is the content of the node's resolv.conf.
	Resolvers string `json:"resolvers"`
	// Address is the node's address with its prefix length, Gateway the host's end of the link.
	Address string `json:"address"`
	Gateway string `json:"gateway"`
	// Processes are started each as soon as those in its After are ready, and again whenever they end.
	Processes []Process `json:"processes"`
}

// Process is one long-running process of the node.
type Process struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	// After names the processes that must be ready before this one is started for the first time.
	After []string `json:"after,omitempty"`
	// ReadyURL answers 200 once the process does its work; or ReadySocket is a unix socket that accepts connections.
	// With neither, a process is ready when it runs.
	ReadyURL    string `json:"readyURL,omitempty"`
	ReadySocket string `json:"readySocket,omitempty"`
}

// Status is what the node reports about its processes.
type Status struct {
	Processes []ProcessStatus `json:"processes"`
}

// ProcessStatus is the state of one process.
type ProcessStatus struct {
	Name string `json:"name"`
	// PID is the process's ID inside the node, 0 while it does not run.
	PID   int  `json:"pid"`
	Ready bool `json:"ready"`
	// Exits counts how often it ended, Failures how often in a row it did soon after its start. LastExit says how it
	// ended last.
	Exits    int       `json:"exits"`
	Failures int       `json:"failures"`
	LastExit string    `json:"lastExit,omitempty"`
	Started  time.Time `json:"started"`
}

// ReadSpec reads the file that the starter wrote.
func ReadSpec(path string) (Spec, error) {
	var spec Spec
	return spec, ReadJSON(path, &spec)
}

// ReadStatus reads what the node last reported.
func ReadStatus(path string) (Status, error) {
	var status Status
	return status, ReadJSON(path, &status)
}

// WriteJSON replaces the file in one step: a reader sees the old or the new content, never a part.
func WriteJSON(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// ReadJSON reads a file that WriteJSON wrote.
func ReadJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
