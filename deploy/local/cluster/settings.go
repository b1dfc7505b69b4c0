package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"magosproject.io/deploy/local/cluster/supervise"
)

// hostSettings are the settings of the whole machine that a cluster changes: the first one we turn on ourselves, so that
// pods reach the world; the others the kubelet sets when it starts.
func hostSettings() []string {
	return []string{
		forwardingSwitch,
		"/proc/sys/kernel/keys/root_maxbytes",
		"/proc/sys/kernel/keys/root_maxkeys",
		"/proc/sys/kernel/panic",
		"/proc/sys/kernel/panic_on_oops",
		"/proc/sys/vm/overcommit_memory",
		"/proc/sys/vm/panic_on_oom",
	}
}

// readSettings reads the values of those files that this kernel has.
func readSettings(files []string) (map[string]string, error) {
	values := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading a setting of the machine: %w", err)
		}
		values[file] = strings.TrimSpace(string(content))
	}
	return values, nil
}

// restoreSettings puts back what the cluster's record says of the time before. Only settings that we know are
// written, whatever the record holds.
func restoreSettings(config Config) error {
	var decided record
	err := supervise.ReadJSON(config.paths().record(), &decided)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Interrupted before anything was changed.
	}
	if err != nil {
		return err
	}
	return writeSettings(hostSettings(), decided.HostSettings)
}

func writeSettings(files []string, values map[string]string) error {
	current, err := readSettings(files)
	if err != nil {
		return err
	}
	var faults []error
	for _, file := range files {
		value, recorded := values[file]
		if !recorded || current[file] == value {
			continue
		}
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			faults = append(faults, fmt.Errorf("putting a setting of the machine back: %w", err))
		}
	}
	return errors.Join(faults...)
}

// otherClusters says whether a cluster is connected to the host, of whatever state root.
func otherClusters() bool {
	links, err := filepath.Glob("/sys/class/net/" + linkPrefix + strings.Repeat("[0-9a-f]", 8))
	return err != nil || len(links) > 0
}
