package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// InUse returns what says whether anything on this machine runs from a folder of binaries: a process, or a cluster in the state root
// that would start one again.
func InUse(config Config) (func(folder string) bool, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	specs, err := filepath.Glob(filepath.Join(config.StateRoot, "*", filepath.Base(config.paths().spec())))
	if err != nil {
		return nil, fmt.Errorf("looking for clusters: %w", err)
	}
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	var named []byte
	for _, spec := range specs {
		content, err := os.ReadFile(spec)
		if err != nil {
			return nil, fmt.Errorf("reading what a cluster runs: %w", err)
		}
		named = append(named, content...)
	}
	running := map[string]bool{}
	for _, program := range programs {
		// A process that has ended meanwhile runs from nowhere.
		if path, err := os.Readlink(program); err == nil {
			running[filepath.Dir(strings.TrimSuffix(path, " (deleted)"))] = true
		}
	}
	return func(folder string) bool { return running[folder] || bytes.Contains(named, []byte(folder)) }, nil
}
