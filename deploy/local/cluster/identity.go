package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"magosproject.io/deploy/local/cluster/supervise"
)

// identity tells a process from a later one that got the same ID: by when it started, in which boot of the machine.
type identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
	Boot  string `json:"boot"`
}

func identify(pid int) (identity, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, fmt.Errorf("reading the boot ID: %w", err)
	}
	start, _, err := processStart(pid)
	if err != nil {
		return identity{}, err
	}
	return identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// alive says whether exactly this process still runs.
func (i identity) alive() bool {
	now, err := identify(i.PID)
	if err != nil || now != i {
		return false
	}
	_, state, err := processStart(i.PID)
	return err == nil && state != "Z" && state != "X"
}

// end kills the process and waits until it is gone, and with it every process of its namespace.
func (i identity) end() error {
	process, err := os.FindProcess(i.PID)
	if err != nil {
		return nil //nolint:nilerr // there is no such process any more
	}
	// FindProcess holds on to the process, so checking now and signalling later mean the same one.
	if !i.alive() {
		return nil
	}
	if err := process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the node, process %d: %w", i.PID, err)
	}
	for deadline := time.Now().Add(90 * time.Second); i.alive(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("ending the node: process %d is still there 30 s after SIGKILL", i.PID)
		}
	}
	return nil
}

// processStart returns when the process started, in clock ticks since the boot, and its state letter.
func processStart(pid int) (start, state string, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", fmt.Errorf("reading process %d: %w", pid, err)
	}
	// The second field is the program's name in brackets and may hold anything; the rest follows the last bracket.
	text := string(content)
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 20 {
		return "", "", fmt.Errorf("reading process %d: its status has too few fields", pid)
	}
	return fields[19], fields[0], nil
}

// runningNode returns the cluster's node if it runs.
func runningNode(p paths) (identity, bool, error) {
	var recorded identity
	err := supervise.ReadJSON(p.identity(), &recorded)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, err
	}
	return recorded, recorded.alive(), nil
}
