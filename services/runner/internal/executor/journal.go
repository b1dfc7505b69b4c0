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
