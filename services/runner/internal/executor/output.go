package executor

import (
	"io"

	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/toolerror"
)

// toolOutput masks what a tool prints, passes it on, and remembers what it says of a failure.
type toolOutput struct {
	masked *mask.Writer
	said   *toolerror.Reader
}

func newToolOutput(to io.Writer, forms mask.Forms) *toolOutput {
	o := &toolOutput{said: &toolerror.Reader{}}
	o.masked = mask.NewWriter(tee{to, o.said}, forms)
	return o
}

func (o *toolOutput) Write(data []byte) (int, error) { return o.masked.Write(data) }

// end passes on what the masking held back. Output cannot be written any more is no reason for a run to fail.
func (o *toolOutput) end() { _ = o.masked.Close() }

// words are what the tool said of its failure, as the end of a message.
func (o *toolOutput) words() string {
	if words := o.said.Words(); words != "" {
		return "; it says:\n" + words
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
