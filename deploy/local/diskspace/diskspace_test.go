package diskspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestANearlyFullDiskIsNamedWithTheNeed(t *testing.T) {
	need := Need{Folder: filepath.Join(t.TempDir(), "not", "yet"), Bytes: 1, Purpose: "a cluster", Variable: "MAGOS_STATE"}
	if err := need.Check(); err != nil {
		t.Fatalf("one byte should be free: %v", err)
	}
	need.Bytes = 1 << 60
	err := need.Check()
	for _, part := range []string{"disk nearly full", "MAGOS_STATE", "a cluster needs", "GiB free"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
}

func TestAFullDiskIsRecognizedHoweverItIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":               {nil, false},
		"another":            {os.ErrPermission, false},
		"a system call":      {fmt.Errorf("writing: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), true},
		"a quota":            {fmt.Errorf("writing: %w", syscall.EDQUOT), true},
		"a program's output": {errors.New("exit status 1\nlink: writing x: no space left on device"), true},
	} {
		if got := IsFull(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheDiskThatIsFullIsNamed(t *testing.T) {
	folder := t.TempDir()
	cause := fmt.Errorf("writing: %w", syscall.ENOSPC)
	full := Need{Folder: folder, Bytes: 1 << 60, Purpose: "building", Variable: "MAGOS_CACHE"}
	roomy := Need{Folder: os.TempDir(), Bytes: 1, Purpose: "a cluster", Variable: "MAGOS_STATE"}
	err, isFull := Explain(cause, roomy, full)
	if !isFull || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "disk full: "+folder) || !strings.Contains(err.Error(), "MAGOS_CACHE") ||
		strings.Contains(err.Error(), "MAGOS_STATE") {
		t.Errorf("got %v", err)
	}
	// What filled the disk is gone again.
	if err, isFull := Explain(cause, roomy); !isFull || !strings.Contains(err.Error(), "MAGOS_STATE") {
		t.Errorf("got %v", err)
	}
	if err, isFull := Explain(os.ErrPermission, full); isFull || !errors.Is(err, os.ErrPermission) || err.Error() != os.ErrPermission.Error() {
		t.Errorf("another error became %v", err)
	}
	if err, isFull := Explain(nil, full); isFull || err != nil {
		t.Errorf("no error became %v", err)
	}
}

// What a program says that has lost its disk may be anything; the disk itself is asked too.
func TestADiskThatIsFullIsBehindWhateverFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this test mounts a small file system, which needs root")
	}
	folder := t.TempDir()
	if err := syscall.Mount("none", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small file system: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	}()
	need := Need{Folder: folder, Bytes: 2 << 30, Purpose: "a cluster", Variable: "MAGOS_STATE"}
	err, full := Explain(errors.New("connection refused"), need)
	if !full || !strings.Contains(err.Error(), "disk full: "+folder+" has 0.0 GiB free and a cluster needs 2.0 GiB there") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, %v", err, full)
	}
}
