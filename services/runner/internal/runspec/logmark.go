package runspec

import (
	"bytes"
	"fmt"
	"strconv"
)

// LogMarkEvery is about how many bytes of a container's log lie between two marks.
const LogMarkEvery = 1 << 20

// LogMarkPrefix begins every mark, and no other line of a log.
const LogMarkPrefix = `level=INFO msg="log position" magos=`

// MaxLogMark bounds a mark's line in bytes, its end included.
const MaxLogMark = 128

// LogMark is the line that says how far a container's log has come: position bytes were written before it. The first line
// of every log is a mark, so that a reader notices what was rotated away.
func LogMark(role string, position int64) []byte {
	return fmt.Appendf(nil, "%s%s bytes=%d\n", LogMarkPrefix, role, position)
}

// ParseLogMark reads a line without its end.
func ParseLogMark(line []byte) (position int64, ok bool) {
	rest, found := bytes.CutPrefix(line, []byte(LogMarkPrefix))
	if !found {
		return 0, false
	}
	_, number, found := bytes.Cut(rest, []byte(" bytes="))
	position, err := strconv.ParseInt(string(number), 10, 64)
	return position, found && err == nil && position >= 0
}
