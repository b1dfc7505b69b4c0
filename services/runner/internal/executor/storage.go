package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"magosproject.io/services/runner/internal/runspec"
)

// prepareStorage empties the folders of this run, and proves that every folder keeper needs can be written.
func (c *container) prepareStorage() error {
	p, id := c.cfg.Paths, c.in.RunID
	if err := c.clearRun(); err != nil {
		return fail(runspec.ExitStorageNotWritable, reasonStorageNotWritable, err)
	}
	for _, folder := range []string{p.tools(), p.pluginCache(), p.runs(), p.work(id), p.sealed(id), p.claim(id), p.Signals, p.Shown, p.Scratch} {
		if err := probe(folder); err != nil {
			return failf(runspec.ExitStorageNotWritable, reasonStorageNotWritable,
				"folder %s cannot be written by uid %d, gid %d: %w; look at the StorageClass and its support of fsGroup", folder, os.Getuid(), os.Getgid(), err)
		}
	}
	return nil
}

// clearRun empties the folders of this run that keeper fills. They are mounts of other containers, and stay.
func (c *container) clearRun() error {
	for _, folder := range []string{c.cfg.Paths.work(c.in.RunID), c.cfg.Paths.sealed(c.in.RunID)} {
		if err := empty(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func probe(folder string) error {
	if err := os.MkdirAll(folder, 0o770); err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".probe-")
	if err != nil {
		return err
	}
	_, err = file.WriteString("probe")
	return errors.Join(err, file.Close(), os.Remove(file.Name()))
}

// empty removes what a folder holds, but not the folder, which may be a mount.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("emptying %s: %w", folder, err)
	}
	for _, entry := range entries {
		if err := removeTree(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes also what a module left with folders that cannot be entered.
func removeTree(name string) error {
	_ = filepath.WalkDir(name, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(name); err != nil {
		return fmt.Errorf("removing what a run left: %w", err)
	}
	return nil
}

// pruneRuns removes what earlier runs left on the volume: at most one run of a Workspace lives at a time. The state that
// an apply could not save is kept for a person to fetch. A run that cannot be removed costs room, not correctness.
func (c *container) pruneRuns() {
	entries, err := os.ReadDir(c.cfg.Paths.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		c.log.Warn("looking for earlier runs", "error", err)
		return
	}
	for _, entry := range entries {
		if entry.Name() == c.in.RunID {
			continue
		}
		if err := c.pruneRun(entry.Name()); err != nil {
			c.log.Warn("removing an earlier run", "run", entry.Name(), "error", err)
		}
	}
}

func (c *container) pruneRun(id string) error {
	state := filepath.Join(c.cfg.Paths.claim(id), erroredState)
	if info, err := os.Lstat(state); err != nil || !info.Mode().IsRegular() {
		return removeTree(filepath.Join(c.cfg.Paths.runs(), id))
	}
	c.log.Warn("an earlier apply could not save its state; its file is kept until somebody removes it",
		"file", filepath.Join(runspec.SubPathClaim(id), erroredState))
	return errors.Join(removeTree(c.cfg.Paths.work(id)), removeTree(c.cfg.Paths.sealed(id)))
}
