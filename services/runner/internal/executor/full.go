package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/toolerror"
	"magosproject.io/services/runner/internal/runspec"
)

// vague are the exit codes of failures that a full disk may be the cause of.
var vague = []int{
	runspec.ExitToolFailed, runspec.ExitInternal, runspec.ExitFetchFailed, runspec.ExitToolUnavailable, runspec.ExitStorageNotWritable,
}

// orStorageFull gives a failure that a full disk led to its name, and says how much is left where.
func (c *container) orStorageFull(err error) error {
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || toolerror.DiskFull(err.Error())
	if !full || !slices.Contains(vague, codeOf(err)) {
		return err
	}
	return failf(runspec.ExitStorageFull, reasonStorageFull, "no space left on a disk of the run (%s): %w", c.room(), err)
}

// room says how much is free on the disks that a run writes to.
func (c *container) room() string {
	var said []string
	for _, disk := range []struct{ name, folder string }{
		{"volume " + c.in.Workspace + "-data", c.cfg.Paths.Data}, {"the pod's own storage", c.cfg.Paths.Scratch},
	} {
		var st unix.Statfs_t
		if err := unix.Statfs(disk.folder, &st); err != nil || st.Blocks == 0 {
			continue
		}
		const mib = 1 << 20
		said = append(said, fmt.Sprintf("%s: %d of %d MiB free", disk.name, st.Bavail*uint64(st.Bsize)/mib, st.Blocks*uint64(st.Bsize)/mib))
	}
	if len(said) == 0 {
		return "how much is free is not known"
	}
	return strings.Join(said, ", ")
}
