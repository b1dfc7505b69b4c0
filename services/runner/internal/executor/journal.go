package executor

import (
	"bytes"
	"io"
	"sync"

	"magosproject.io/services/runner/internal/runspec"
)

// journal is the log of a container. All that magos-exec and the programs it starts print goes through it into one stream,
// which keeps its order, and marks in it say how far it has come: a reader tells by them what the kubelet rotated away.
type journal struct {
	mu   sync.Mutex
	to   io.Writer
	role string
	// written is the log's length in bytes, next the length from which on a mark is due.
	written, next int64
	// midLine says that the last line has no end yet.
	midLine bool
}

func newJournal(to io.Writer, role string) *journal { return &journal{to: to, role: role} }

// Write takes data as a whole, so that marks stand between lines.
func (j *journal) Write(data []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.written == 0 {
		if err := j.mark(); err != nil {
			return 0, err
		}
	}
	n, err := j.write(j.withoutMarks(data))
	return min(n, len(data)), err
}

func (j *journal) write(data []byte) (int, error) {
	before := 0
	if end := bytes.LastIndexByte(data, '\n'); end >= 0 && j.written+int64(end) >= j.next {
		before = end + 1
		n, err := j.put(data[:before])
		if err == nil {
			err = j.mark()
		}
		if err != nil {
			return n, err
		}
	}
	n, err := j.put(data[before:])
	return before + n, err
}

// withoutMarks puts a blank before what would be taken for a mark: a program may print one, to hide what is missing from a log
// or have whole ones look cut. It may print it in pieces, too, and have a line of ours come between: the beginning of one is enough.
func (j *journal) withoutMarks(data []byte) []byte {
	out := data
	for at := 0; at < len(data); {
		rest := data[at:]
		end := bytes.IndexByte(rest, '\n') + 1
		isWhole := bytes.HasPrefix(rest, []byte(runspec.LogMarkPrefix))
		if !j.midLine && (isWhole || end == 0 && bytes.HasPrefix([]byte(runspec.LogMarkPrefix), rest)) {
			out = append(append(bytes.Clone(out[:len(out)-len(rest)]), ' '), rest...)
		}
		j.midLine = end == 0
		if end == 0 {
			break
		}
		at += end
	}
	return out
}

func (j *journal) mark() error {
	_, err := j.put(runspec.LogMark(j.role, j.written))
	j.next = j.written + runspec.LogMarkEvery
	return err
}

func (j *journal) put(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := j.to.Write(data)
	j.written += int64(n)
	return n, err
}
