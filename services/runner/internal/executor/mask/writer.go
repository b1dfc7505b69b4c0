package mask

import (
	"encoding/binary"
	"io"
)

// Mark stands for a masked value.
const Mark = "(masked)"

// Writer copies what is written to it, with every form of the secret values replaced by Mark, wherever the pieces of
// the stream are cut. It holds back no more than the longest form. It is not safe for concurrent use.
type Writer struct {
	out     io.Writer
	forms   Forms
	pending []byte
	// covered is how many bytes of pending, from its start, belong to a form that was seen; Mark was written for them.
	covered int
	ready   []byte
}

// NewWriter returns a Writer to out. Close must be called at the end of the stream.
func NewWriter(out io.Writer, forms Forms) *Writer { return &Writer{out: out, forms: forms} }

// Write takes all of data, or returns the error of the underlying writer.
func (w *Writer) Write(data []byte) (int, error) {
	w.pending = append(w.pending, data...)
	if err := w.flush(false); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Close writes what was held back. It does not close the underlying writer.
func (w *Writer) Close() error { return w.flush(true) }

func (w *Writer) flush(final bool) error {
	w.ready = w.ready[:0]
	i := 0
	for i < len(w.pending) {
		length, undecided := w.forms.at(w.pending[i:])
		if undecided && !final {
			break
		}
		switch {
		case length > 0:
			if w.covered == 0 {
				w.ready = append(w.ready, Mark...)
			}
			w.covered = max(w.covered, length)
		case w.covered == 0:
			w.ready = append(w.ready, w.pending[i])
		}
		if w.covered > 0 {
			w.covered--
		}
		i++
	}
	w.pending = append(w.pending[:0], w.pending[i:]...)
	if len(w.ready) == 0 {
		return nil
	}
	_, err := w.out.Write(w.ready)
	return err
}

// keyLength is how many bytes of a form are looked up at once. No form is shorter.
const keyLength = MinLength

func key(b []byte) uint64 {
	var k [8]byte
	copy(k[:], b[:keyLength])
	return binary.LittleEndian.Uint64(k[:])
}
