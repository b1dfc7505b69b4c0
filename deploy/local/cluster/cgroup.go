package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// nodeGroup holds the node's own processes; pods are in its siblings, which the kubelet makes.
const nodeGroup = "node"

// cgroupRoots lists where control groups are mounted: one folder with version 2, one per controller with version 1.
func cgroupRoots() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	return parseCgroupRoots(string(mounts)), nil
}

func parseCgroupRoots(mountinfo string) []string {
	var first, second []string
	for _, line := range strings.Split(mountinfo, "\n") {
		left, right, found := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		if !found || len(fields) < 5 {
			continue
		}
		switch strings.Fields(right)[0] {
		case "cgroup":
			first = append(first, fields[4])
		case "cgroup2":
			second = append(second, fields[4])
		}
	}
	if len(first) > 0 {
		return first // With both, the controllers are in version 1, where the kubelet looks for them.
	}
	return second
}

// createCgroups makes the cluster's control groups and puts the node into them. There it also survives the end of the
// login session that started it.
func createCgroups(config Config, pid int) error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		cluster := filepath.Join(root, config.cgroupName())
		for _, group := range []string{cluster, filepath.Join(cluster, nodeGroup)} {
			if err := os.MkdirAll(group, 0o755); err != nil {
				return fmt.Errorf("making a control group: %w", err)
			}
			if err := inheritSettings(group); err != nil {
				return err
			}
		}
		processes := filepath.Join(cluster, nodeGroup, "cgroup.procs")
		if err := os.WriteFile(processes, []byte(fmt.Sprint(pid)), 0o644); err != nil {
			return fmt.Errorf("putting the node into its control group: %w", err)
		}
	}
	return nil
}

// inheritSettings does what a new group needs before it can hold processes: version 1's cpuset starts out empty, and
// version 2 hands controllers down only when told.
func inheritSettings(group string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own := filepath.Join(group, name)
		present, err := os.ReadFile(own)
		if errors.Is(err, fs.ErrNotExist) || strings.TrimSpace(string(present)) != "" {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading a control group: %w", err)
		}
		if _, err := os.Stat(filepath.Join(group, "cgroup.controllers")); err == nil {
			continue // Empty means "as the parent" in version 2.
		}
		settings, err := os.ReadFile(filepath.Join(filepath.Dir(group), name))
		if err != nil {
			return fmt.Errorf("reading a control group: %w", err)
		}
		if err := os.WriteFile(own, settings, 0o644); err != nil {
			return fmt.Errorf("setting up a control group: %w", err)
		}
	}
	parent := filepath.Dir(group)
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return nil //nolint:nilerr // without this file it is version 1, which has nothing to hand down
	}
	for _, controller := range strings.Fields(string(controllers)) {
		// A controller that cannot be handed down is one that the kubelet does without or names itself.
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}
	return nil
}

// cgroupFolders lists the cluster's control groups that exist.
func cgroupFolders(config Config) []string {
	roots, err := cgroupRoots()
	if err != nil {
		return nil
	}
	var found []string
	for _, root := range roots {
		folder := filepath.Join(root, config.cgroupName())
		if _, err := os.Stat(folder); err == nil {
			found = append(found, folder)
		}
	}
	return found
}

// removeCgroups deletes the cluster's control groups. The kernel frees a group a moment after its last process.
func removeCgroups(config Config) error {
	deadline := time.Now().Add(time.Minute)
	for {
		var fault error
		for _, folder := range cgroupFolders(config) {
			fault = errors.Join(fault, removeGroup(folder))
		}
		if fault == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("removing control groups: %w", fault)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func removeGroup(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var fault error
	for _, entry := range entries {
		if entry.IsDir() {
			fault = errors.Join(fault, removeGroup(filepath.Join(folder, entry.Name())))
		}
	}
	if fault != nil {
		return fault
	}
	// The files of a control group are no obstacle to removing its folder, and cannot be removed themselves.
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// cgroupProcesses counts the processes in the cluster's control groups.
func cgroupProcesses(config Config) int {
	seen := map[string]bool{}
	for _, root := range cgroupFolders(config) {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "cgroup.procs" {
				content, _ := os.ReadFile(path)
				for _, pid := range strings.Fields(string(content)) {
					seen[pid] = true
				}
			}
			return nil
		})
	}
	return len(seen)
}
