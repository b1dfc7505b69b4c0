// Package landlock keeps a folder from being read by programs that this process starts, by the kernel's Landlock, which
// needs no privileges: https://docs.kernel.org/userspace-api/landlock.html.
package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Available says whether the kernel can do it: since Linux 5.13, where it is not switched off.
func Available() bool { return version() > 0 }

// version of the kernel's Landlock, 0 for none.
func version() int {
	found, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(found)
}

// HideFrom keeps this thread, and whatever it starts from now on, from reading the files in folder, for ever: the caller
// must have locked its goroutine to the thread, and end without unlocking it. All else can be read that is there by now.
// What appears later can be read too, unless it lies directly in a folder that leads to the hidden one.
func HideFrom(folder string) error {
	if err := hide(folder); err != nil {
		return fmt.Errorf("hiding %s: %w", folder, err)
	}
	return nil
}

func hide(folder string) error {
	folder, err := filepath.EvalSymlinks(folder)
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err != nil {
		return err
	}
	ruleset, err := newRuleset()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(ruleset) }()
	if err := allowAllBut(ruleset, "/", folder); err != nil {
		return err
	}
	// Without it the kernel refuses. The containers of a run have it anyway.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// newRuleset is about reading files alone. The first version of Landlock forbids to move files between folders in any
// case; later ones do unless that is allowed too.
func newRuleset() (int, error) {
	handled := uint64(unix.LANDLOCK_ACCESS_FS_READ_FILE)
	moves := version() >= 2
	if moves {
		handled |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	// The kernel takes the first field alone, which is all that its first version knows.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return -1, errno
	}
	if moves {
		if err := allow(int(fd), "/", unix.LANDLOCK_ACCESS_FS_REFER); err != nil {
			return -1, errors.Join(err, unix.Close(int(fd)))
		}
	}
	return int(fd), nil
}

// allowAllBut walks down to hidden and allows everything beside the way. Links are left out: what counts is where they lead.
func allowAllBut(ruleset int, folder, hidden string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		switch {
		case name == hidden || entry.Type()&fs.ModeSymlink != 0:
		case strings.HasPrefix(hidden, name+"/"):
			err = allowAllBut(ruleset, name, hidden)
		default:
			err = allow(ruleset, name, unix.LANDLOCK_ACCESS_FS_READ_FILE)
		}
		// It may have gone meanwhile, and may be nothing that this user can look at anyway.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func allow(ruleset int, name string, access uint64) error {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return &fs.PathError{Op: "allow", Path: name, Err: errno}
	}
	return nil
}
