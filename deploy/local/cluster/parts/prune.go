package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Used marks an entry of the cache as used now; Prune goes by that. The mark is the entry's own time of change, so an entry that is
// a link is marked and not what it leads to. An entry that cannot be marked only looks older than it is.
func Used(path string) {
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW)
}

// pruned are the folders of the cache whose entries are each made anew when they are missing, and marked when they are used.
// Entries of keys are links to parts, which go when no link leads to them any more.
func pruned() []string {
	return []string{"keys/*", "programs/*/", "mirror/*/", "run-image-*/", "building-*/"}
}

// Prune removes from the cache what nobody has used for the time given, and says what it freed. What a process on this machine runs
// from, or has linked into the cache's folder of test binaries, stays: inUse reports whether a path is such. It waits for builds to
// end, and holds new ones off.
func (b Builder) Prune(ctx context.Context, progress io.Writer, unused time.Duration, inUse func(path string) bool) error {
	b, err := b.withDefaults()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, progress, filepath.Join(b.Cache, "parts.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	linked, err := b.linked()
	if err != nil {
		return err
	}
	p := pruner{before: time.Now().Add(-unused), spare: func(path string) bool { return linked[path] || inUse(path) }}
	for _, pattern := range pruned() {
		p.removeOld(b.Cache + "/" + pattern)
	}
	p.removeUnled(b.Cache)
	fmt.Fprintf(progress, "removed %d entries of %s, %.1f GiB\n", p.entries, b.Cache, float64(p.bytes)/(1<<30))
	return errors.Join(p.faults...)
}

// linked are the folders of parts that a link below the cache leads to, other than by their keys.
func (b Builder) linked() (map[string]bool, error) {
	links, err := filepath.Glob(filepath.Join(b.Cache, "*assets", "*"))
	if err != nil {
		return nil, fmt.Errorf("looking for test binaries: %w", err)
	}
	folders := map[string]bool{}
	for _, link := range links {
		if target, err := filepath.EvalSymlinks(link); err == nil {
			folders[filepath.Dir(target)] = true
		}
	}
	return folders, nil
}

type pruner struct {
	before  time.Time
	spare   func(path string) bool
	entries int
	bytes   int64
	faults  []error
}

// removeOld removes what the pattern matches and was used last before the time. A pattern that ends with a slash matches folders.
func (p *pruner) removeOld(pattern string) {
	found, err := filepath.Glob(strings.TrimSuffix(pattern, "/"))
	if err != nil {
		p.faults = append(p.faults, err)
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || info.IsDir() != strings.HasSuffix(pattern, "/") || !info.ModTime().Before(p.before) {
			continue
		}
		target, err := filepath.EvalSymlinks(path)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			target = filepath.Dir(target)
		}
		if err == nil && p.spare(target) {
			continue
		}
		p.remove(path)
	}
}

// removeUnled removes the parts that no key leads to.
func (p *pruner) removeUnled(cache string) {
	led := map[string]bool{}
	keys, keysErr := filepath.Glob(filepath.Join(cache, "keys", "*"))
	folders, foldersErr := filepath.Glob(filepath.Join(cache, "parts", "*"))
	if err := errors.Join(keysErr, foldersErr); err != nil {
		p.faults = append(p.faults, err)
		return
	}
	for _, key := range keys {
		if target, err := filepath.EvalSymlinks(key); err == nil {
			led[filepath.Dir(target)] = true
		}
	}
	for _, folder := range folders {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil || led[real] || p.spare(real) {
			continue
		}
		p.remove(folder)
	}
}

func (p *pruner) remove(path string) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				p.bytes += info.Size()
			}
		}
		return nil
	})
	if err := os.RemoveAll(path); err != nil {
		p.faults = append(p.faults, fmt.Errorf("removing an entry of the cache: %w", err))
		return
	}
	p.entries++
}
