package executor

import (
	"bytes"
	"io"

	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/process"
)

// lastWordsLimit bounds what a termination message repeats of the tool's output, in bytes.
const lastWordsLimit = 1024

// toolOutput masks what a tool prints, passes it on, and remembers the end of it.
type toolOutput struct {
	masked *mask.Writer
	tail   *process.Tail
	lock   *detector
}

func newToolOutput(to io.Writer, forms mask.Forms) *toolOutput {
	o := &toolOutput{
		tail: &process.Tail{Limit: lastWordsLimit},
		lock: &detector{needle: []byte("Error acquiring the state lock")},
	}
	o.masked = mask.NewWriter(tee{to, o.tail, o.lock}, forms)
	return o
}

func (o *toolOutput) Write(data []byte) (int, error) { return o.masked.Write(data) }

// end passes on what the masking held back. Output cannot be written any more is no reason for a run to fail.
func (o *toolOutput) end() { _ = o.masked.Close() }

func (o *toolOutput) stateLocked() bool { return o.lock.found }

func (o *toolOutput) lastWords() string {
	if words := o.tail.String(); words != "" {
		return "; its last lines:\n" + words
	}
	return ""
}

// tee writes to all, and goes on where one cannot take more: the container's log may be gone while the tool works.
type tee []io.Writer

func (t tee) Write(data []byte) (int, error) {
	for _, w := range t {
		_, _ = w.Write(data)
	}
	return len(data), nil
}

// detector looks for a text in a stream.
type detector struct {
	needle, before []byte
	found          bool
}

func (d *detector) Write(data []byte) (int, error) {
	if !d.found {
		window := append(d.before, data...)
		d.found = bytes.Contains(window, d.needle)
		d.before = append(d.before[:0], window[max(0, len(window)-len(d.needle)+1):]...)
	}
	return len(data), nil
}
