// Package parts builds the binaries that the local cluster, its tests and the images need from the Go modules that
// pin them, once, into a cache outside the checkout.
package parts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const heartbeat = 10 * time.Second

// Builder builds parts. The zero value finds the repository from the working directory and uses the default cache.
type Builder struct {
	// Root is the root of the repository. Default: the closest parent of the working directory that holds
	// tools/cluster.
	Root string
	// Cache is the folder for what was built. Default: $MAGOS_CACHE, $XDG_CACHE_HOME/magos or ~/.cache/magos.
	Cache string
}

// Build is Builder.Build with the defaults.
func Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	return Builder{}.Build(ctx, progress, names...)
}

// Build makes sure that every named part is in the cache and returns the path of each. Parts that are there already
// cost milliseconds. What is built, and how long it took, is written to progress. A cancelled build leaves nothing
// half-written, and the next one continues from Go's own build cache.
func (b Builder) Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	b, err := b.withDefaults()
	if err != nil {
		return nil, err
	}
	paths, missing, err := b.locate(names)
	if err != nil || len(missing) == 0 {
		return paths, err
	}
	unlock, err := lock(ctx, progress, filepath.Join(b.Cache, "parts.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another builder may have made them while this one waited.
	if paths, missing, err = b.locate(names); err != nil {
		return nil, err
	}
	for len(missing) > 0 {
		module := missing[0].Module
		var group, rest []Part
		for _, part := range missing {
			if part.Module == module && slices.Equal(part.LinkFlags, missing[0].LinkFlags) {
				group = append(group, part)
			} else {
				rest = append(rest, part)
			}
		}
		if err := b.buildGroup(ctx, progress, group, paths); err != nil {
			return nil, err
		}
		missing = rest
	}
	return paths, nil
}

// Present says whether all the named parts are in the cache already.
func (b Builder) Present(names ...string) (bool, error) {
	b, err := b.withDefaults()
	if err != nil {
		return false, err
	}
	_, missing, err := b.locate(names)
	return len(missing) == 0, err
}

// locate returns where each named part is, and those that are not there yet.
func (b Builder) locate(names []string) (map[string]string, []Part, error) {
	paths := make(map[string]string, len(names))
	var missing []Part
	for _, name := range names {
		if _, seen := paths[name]; seen {
			continue
		}
		index := slices.IndexFunc(catalog(), func(part Part) bool { return part.Name == name })
		if index < 0 {
			return nil, nil, fmt.Errorf("no part is called %q", name)
		}
		part := catalog()[index]
		key, err := part.key(b.Root)
		if err != nil {
			return nil, nil, err
		}
		link := filepath.Join(b.Cache, "keys", key)
		if target, err := filepath.EvalSymlinks(link); err == nil {
			paths[name] = target
			Used(link)
			continue
		}
		part.link = link
		missing = append(missing, part)
	}
	return paths, missing, nil
}

// buildGroup builds parts of one module with one `go build`, which shares the work between them better than several.
func (b Builder) buildGroup(ctx context.Context, progress io.Writer, group []Part, paths map[string]string) error {
	names := make([]string, 0, len(group))
	for _, part := range group {
		names = append(names, part.Name)
	}
	label := strings.Join(names, ", ")
	staging, err := os.MkdirTemp(b.Cache, "building-")
	if err != nil {
		return fmt.Errorf("making a folder to build in: %w", err)
	}
	defer os.RemoveAll(staging)

	started := time.Now()
	fmt.Fprintf(progress, "building %s\n", label)
	stop := beat(progress, "still building "+label, started)
	err = b.goBuild(ctx, group, staging)
	stop()
	if err != nil {
		return fmt.Errorf("building %s: %w", label, err)
	}
	for _, part := range group {
		path, err := publish(builtFile(staging, part), filepath.Join(b.Cache, "parts"), part)
		if err != nil {
			return fmt.Errorf("putting %s into the cache: %w", part.Name, err)
		}
		paths[part.Name] = path
	}
	fmt.Fprintf(progress, "built %s in %s\n", label, time.Since(started).Round(100*time.Millisecond))
	return nil
}

func (b Builder) goBuild(ctx context.Context, group []Part, staging string) error {
	flags := append([]string{"-s", "-w"}, group[0].LinkFlags...)
	arguments := []string{
		"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", strings.Join(flags, " "), "-o", staging + "/",
	}
	for _, part := range group {
		arguments = append(arguments, part.Package)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = filepath.Join(b.Root, group[0].Module)
	command.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	// A process group of its own, so that cancelling also ends the compilers.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("go is not installed: %w", err)
		}
		return fmt.Errorf("%w\n%s", err, lastLines(output.String(), 30))
	}
	return nil
}

// builtFile is where `go build -o folder/` puts the binary: it is named after the package, or after the module when
// the package is its root.
func builtFile(staging string, part Part) string {
	switch part.Package {
	case ".":
		return filepath.Join(staging, filepath.Base(part.Module))
	case "go.etcd.io/etcd/server/v3":
		return filepath.Join(staging, "server")
	}
	return filepath.Join(staging, filepath.Base(part.Package))
}

// publish moves a finished binary to a folder named after its content, in one step, and makes the part's key lead
// there. Sources that change without effect on the binary thus keep its path, and clusters that run it keep running.
func publish(built, store string, part Part) (string, error) {
	content, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	path := filepath.Join(store, hex.EncodeToString(sum[:])[:16], part.Name)
	for _, folder := range []string{filepath.Dir(path), filepath.Dir(part.link)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", err
		}
	}
	if err := os.Rename(built, path); err != nil {
		return "", err
	}
	if err := os.Remove(part.link + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.Symlink(path, part.link+".new"); err != nil {
		return "", err
	}
	return path, os.Rename(part.link+".new", part.link)
}

// beat writes a line every ten seconds until the returned function is called, so that a long build is seen to live.
func beat(progress io.Writer, text string, started time.Time) func() {
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(progress, "%s (%s)\n", text, time.Since(started).Round(time.Second))
			}
		}
	}()
	return func() { close(done); <-finished }
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
