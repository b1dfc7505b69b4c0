package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"magosproject.io/deploy/local/cluster/parts"
)

// Sources says where our own programs are built from and kept.
type Sources struct {
	// Root is the root of the repository.
	Root string
	// Cache is a folder for what was built, see parts.DefaultCache.
	Cache string
}

// build compiles the main package in a folder of the module, static and without traces of this machine, and returns the
// binary in a folder that is named after its content: nobody changes it there. Go itself knows whether anything has to be done.
func (s Sources) build(ctx context.Context, progress io.Writer, module, pkg, name string) (string, error) {
	folder := s.programs()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making the cache: %w", err)
	}
	unlock, err := lock(ctx, s.lockFile(name))
	if err != nil {
		return "", fmt.Errorf("building %s: %w", name, err)
	}
	defer unlock()
	started := time.Now()
	output := filepath.Join(folder, name)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w", "-o", output, pkg)
	command.Dir = filepath.Join(s.Root, module)
	command.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=")
	// A process group of its own, so that cancelling also ends the compilers.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("building %s: %w\n%s", name, err, strings.TrimSpace(said.String()))
	}
	if took := time.Since(started); took > 5*time.Second {
		_, _ = fmt.Fprintf(progress, "built %s in %s\n", name, took.Round(100*time.Millisecond))
	}
	return keep(output, folder, name)
}

func (s Sources) programs() string { return filepath.Join(s.Cache, "programs") }

// lockFile is held by who makes the thing of that name.
func (s Sources) lockFile(name string) string { return filepath.Join(s.programs(), name+".lock") }

// keep copies the binary into a folder named after its content.
func keep(binary, folder, name string) (string, error) {
	sum, err := fileSum(binary)
	if err != nil {
		return "", fmt.Errorf("reading what was built: %w", err)
	}
	kept := filepath.Join(folder, sum[:16], name)
	if _, err := os.Stat(kept); err == nil {
		parts.Used(filepath.Dir(kept))
		return kept, nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return "", fmt.Errorf("keeping %s: %w", name, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("keeping %s: %w", name, err)
	}
	if err := os.WriteFile(kept+".new", content, 0o755); err != nil {
		return "", fmt.Errorf("keeping %s: %w", name, errors.Join(err, os.Remove(kept+".new")))
	}
	if err := os.Rename(kept+".new", kept); err != nil {
		return "", fmt.Errorf("keeping %s: %w", name, err)
	}
	return kept, nil
}

// lock waits for the exclusive lock of a file. The kernel drops it when the process dies.
func lock(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for another build: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
