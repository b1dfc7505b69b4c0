package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// lockFolder takes the exclusive lock of a folder, which it makes, and waits while another command holds it. The lock
// is on the folder itself, so it leaves no file behind, and the kernel drops it when its holder dies.
func lockFolder(ctx context.Context, progress io.Writer, folder string) (func(), error) {
	for waited := false; ; waited = true {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("making the state folder: %w", err)
		}
		unlock, err := tryLock(folder)
		if err != nil {
			return nil, err
		}
		if unlock != nil {
			return unlock, nil
		}
		if !waited {
			fmt.Fprintf(progress, "waiting for another command that works on %s\n", folder)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another command that works on %s: %w", folder, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLock returns nil for both when another command holds the lock, or has just deleted the folder.
func tryLock(folder string) (func(), error) {
	file, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", folder, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("locking %s: %w", folder, err)
	}
	held, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", folder, err)
	}
	if now, err := os.Stat(folder); err != nil || !os.SameFile(held, now) {
		file.Close()
		return nil, nil //nolint:nilerr // the folder was replaced or removed meanwhile: the caller tries again
	}
	return func() { file.Close() }, nil
}

// networksLock is a name in the kernel, which holds it for one process at a time and drops it when that dies.
const networksLock = "@magos-networks"

// lockNetworks keeps every other command on this machine, whatever its state root, from choosing addresses, and waits while one does.
func lockNetworks(ctx context.Context, progress io.Writer) (func(), error) {
	for waited := false; ; waited = true {
		listener, err := new(net.ListenConfig).Listen(ctx, "unix", networksLock)
		if err == nil {
			return func() { _ = listener.Close() }, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("locking the choice of addresses: %w", err)
		}
		if !waited {
			fmt.Fprintln(progress, "waiting for another cluster to take its addresses")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another cluster to take its addresses: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
