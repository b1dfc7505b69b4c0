package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/beneath"
)

// holdLock takes the lock that tells the other containers that this one lives. The kernel releases it when the process
// ends, however it ends. The file gets its name only when it is locked: who sees it unlocked knows that the end has come.
// It returns the bare descriptor, which no garbage collector closes.
func holdLock(folder, name string) (fd int, err error) {
	temporary := filepath.Join(folder, "."+name+".starting")
	fd, err = unix.Open(temporary, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return -1, fmt.Errorf("taking the lock of %s: %w", name, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return -1, errors.Join(fmt.Errorf("taking the lock of %s: %w", name, err), unix.Close(fd))
	}
	if err := os.Rename(temporary, filepath.Join(folder, name)); err != nil {
		return -1, errors.Join(fmt.Errorf("taking the lock of %s: %w", name, err), unix.Close(fd))
	}
	return fd, nil
}

// peer watches the lock of another container. Once seen, the lock is watched by its descriptor: what happens to the
// file's name later does not matter.
type peer struct {
	folder, name string
	file         *os.File
}

type peerState int

const (
	peerAbsent peerState = iota
	peerAlive
	peerEnded
)

func (p *peer) state() (peerState, error) {
	if p.file == nil {
		dir, err := beneath.OpenDir(p.folder)
		if err != nil {
			return peerAbsent, fmt.Errorf("watching %s: %w", p.name, err)
		}
		defer func() { _ = dir.Close() }()
		file, err := dir.OpenRegular(p.name)
		if errors.Is(err, fs.ErrNotExist) {
			return peerAbsent, nil
		}
		if err != nil {
			return peerAbsent, fmt.Errorf("watching %s: %w", p.name, err)
		}
		p.file = file
	}
	// A shared lock, so that two watchers do not take each other for the one they watch.
	err := unix.Flock(int(p.file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return peerAlive, nil
	case err != nil:
		return peerAbsent, fmt.Errorf("watching %s: %w", p.name, err)
	}
	return peerEnded, nil
}
