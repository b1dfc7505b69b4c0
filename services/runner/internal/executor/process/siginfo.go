package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// childOf reads si_pid, which the package unix leaves in the opaque part: after three ints, aligned to a pointer.
func childOf(info *unix.Siginfo) int {
	const header = 3 * unsafe.Sizeof(int32(0))
	const align = unsafe.Alignof(uintptr(0))
	offset := (header + align - 1) / align * align
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}
