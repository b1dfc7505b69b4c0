// Package runlog reads the log of a container of a run as the kubelet serves it: piece by piece in bounded memory, taken up
// again where the stream broke, and with what was rotated away said to be missing.
package runlog

import (
	"bytes"
	"time"

	"magosproject.io/services/runner/internal/runspec"
)

// Piece is the next piece of a log, or that something is missing there.
type Piece struct {
	// Data is valid until the function that was given the Piece returns.
	Data []byte
	// Missing says that something is gone here, or up to a mark's distance before; Bytes is about how much, 0 where that is not known.
	Missing bool
	Bytes   int64
}

// tolerance is how many bytes a log may lack before they count as missing. What is rotated away is whole files; some container
// runtimes change a line's end.
const tolerance = 64 << 10

// maxStamp bounds the time that the kubelet writes before each line, in bytes.
const maxStamp = 40

// lines takes the kubelet's stream, takes off the time before each line, and passes the rest on.
type lines struct {
	send func(Piece) error
	// out is what is to be sent once all that was read is looked at.
	out []byte

	// stamp is what was read of the present line's time; stamped says that it is whole.
	stamp   []byte
	stamped bool
	// head is the beginning of the present line, for marks.
	head []byte
	// at says which line is the present one, or was the last.
	at place
	// behind is the place to skip to after a stream broke, nil when it was passed; found says that its line is there.
	behind *place
	found  bool

	// begun: the first line was judged, for which its beginning was held. position is how many bytes the log had before the next one, if known.
	begun, known bool
	held         []byte
	position     int64
}

// place is a place in the log: so many bytes into the nth line with this time.
type place struct {
	stamp string
	nth   int
	bytes int64
}

// resume makes ready for a new stream, which begins at or before the place that was reached.
func (l *lines) resume() {
	l.stamp, l.stamped, l.head = l.stamp[:0], false, l.head[:0]
	if l.at.stamp == "" && l.behind == nil {
		return
	}
	if l.behind == nil {
		reached := l.at
		l.behind = &reached
	}
	l.at, l.found = place{}, false
}

// since is the time from which on the log is needed; zero for all of it.
func (l *lines) since() time.Time {
	stamp := l.at.stamp
	if l.behind != nil {
		stamp = l.behind.stamp
	}
	at, _ := time.Parse(time.RFC3339Nano, stamp)
	return at
}

func (l *lines) write(data []byte) error {
	for len(data) > 0 {
		if !l.stamped {
			data = l.readStamp(data)
			continue
		}
		end := bytes.IndexByte(data, '\n') + 1
		chunk := data
		if end > 0 {
			chunk = data[:end]
		}
		data = data[len(chunk):]
		if err := l.content(chunk, end > 0); err != nil {
			return err
		}
	}
	return l.flush()
}

func (l *lines) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	out := l.out
	l.out = l.out[:0]
	return l.send(Piece{Data: out})
}

// lost says that something is missing behind what was passed on so far.
func (l *lines) lost(size int64) error {
	if err := l.flush(); err != nil {
		return err
	}
	return l.send(Piece{Missing: true, Bytes: size})
}

// readStamp takes the time of a line from data. What is no time belongs to the line: the kubelet itself may say something.
func (l *lines) readStamp(data []byte) []byte {
	n := bytes.IndexAny(data, " \n")
	taken := min(len(data), maxStamp-len(l.stamp))
	if n >= 0 && n < taken {
		taken = n
	}
	l.stamp = append(l.stamp, data[:taken]...)
	rest := data[taken:]
	if len(rest) == 0 && len(l.stamp) < maxStamp {
		return nil
	}
	l.stamped = true
	if _, err := time.Parse(time.RFC3339Nano, string(l.stamp)); err == nil && len(rest) > 0 && rest[0] == ' ' {
		l.begin(string(l.stamp))
		return rest[1:]
	}
	l.head = l.head[:0]
	return append(bytes.Clone(l.stamp), rest...)
}

func (l *lines) begin(stamp string) {
	if l.at.stamp == stamp {
		l.at.nth++
	} else {
		l.at.stamp, l.at.nth = stamp, 0
	}
	l.at.bytes = 0
	l.head = l.head[:0]
}

// content passes on a part of a line, but for what was passed on before the stream broke.
func (l *lines) content(chunk []byte, ends bool) error {
	fresh, err := l.skip(chunk)
	if err != nil {
		return err
	}
	l.at.bytes += int64(len(chunk))
	if room := runspec.MaxLogMark - len(l.head); room > 0 {
		l.head = append(l.head, chunk[:min(len(chunk), room)]...)
	}
	if ends {
		l.stamped, l.stamp = false, l.stamp[:0]
	}
	if !l.begun {
		l.held = append(l.held, fresh...)
		if !ends && len(l.held) < runspec.MaxLogMark {
			return nil
		}
		return l.first()
	}
	if ends && l.at.bytes <= runspec.MaxLogMark && len(fresh) > 0 {
		if mark, ok := runspec.ParseLogMark(bytes.TrimSuffix(l.head, []byte("\n"))); ok {
			if err := l.compare(mark); err != nil {
				return err
			}
		}
	}
	l.pass(fresh)
	return nil
}

func (l *lines) pass(data []byte) {
	l.position += int64(len(data))
	l.out = append(l.out, data...)
}

// first judges the beginning of the log: where it is no mark that says so, what came before is gone.
func (l *lines) first() error {
	l.begun = true
	if len(l.held) == 0 {
		return nil
	}
	line, _, _ := bytes.Cut(l.held, []byte("\n"))
	l.position, l.known = runspec.ParseLogMark(line)
	if !l.known || l.position > 0 {
		if err := l.lost(l.position); err != nil {
			return err
		}
	}
	l.pass(l.held)
	l.held = nil
	return nil
}

// end passes on what was held back when nothing more comes.
func (l *lines) end() error {
	if !l.stamped && len(l.stamp) > 0 {
		l.held, l.stamp = append(l.held, l.stamp...), nil
	}
	if !l.begun {
		if err := l.first(); err != nil {
			return err
		}
	}
	l.pass(l.held)
	l.held = nil
	return l.flush()
}

// skip returns the part of a chunk that lies behind the place that was reached before.
func (l *lines) skip(chunk []byte) ([]byte, error) {
	if l.behind == nil {
		return chunk, nil
	}
	reached := *l.behind
	if l.at.stamp == reached.stamp {
		if l.at.nth < reached.nth {
			return nil, nil
		}
		if l.found = true; l.at.nth == reached.nth {
			old := min(int64(len(chunk)), max(0, reached.bytes-l.at.bytes))
			if old == int64(len(chunk)) {
				return nil, nil
			}
			l.behind = nil
			return chunk[old:], nil
		}
		l.behind = nil
		return chunk, nil
	}
	present, _ := time.Parse(time.RFC3339Nano, l.at.stamp)
	if !present.After(l.since()) {
		return nil, nil
	}
	// The log goes on behind the place. Where its line is gone, so may others be.
	l.behind = nil
	if !l.found {
		l.known = false
		return chunk, l.lost(0)
	}
	return chunk, nil
}

// compare takes a mark for the truth.
func (l *lines) compare(mark int64) error {
	missing, known := mark-l.position, l.known
	l.known, l.position = true, mark
	if known && missing > tolerance {
		return l.lost(missing)
	}
	return nil
}
