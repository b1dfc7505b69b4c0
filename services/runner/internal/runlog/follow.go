package runlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Log is the log of one container.
type Log struct {
	// Open opens what the kubelet has of it from the time on, to its present end or, with follow, until the container ends. Each line comes with
	// its time. The zero time asks for all.
	Open func(ctx context.Context, since time.Time, follow bool) (io.ReadCloser, error)
	// Ended reports whether the container has ended.
	Ended func(ctx context.Context) (bool, error)
	// Permanent reports whether an error of Open will not pass.
	Permanent func(error) bool
	// Pause is how long to wait before a stream that broke is taken up again.
	Pause time.Duration
	// Tries is how often that may fail in a row.
	Tries int
}

const bufferSize = 32 << 10

// Read passes the log on to send, piece by piece; the next piece is read when send has returned. With follow it goes on until
// the container has ended. It holds one buffer, whatever the log's size.
func (l Log) Read(ctx context.Context, follow bool, send func(Piece) error) error {
	text := &lines{send: send}
	buffer := make([]byte, bufferSize)
	came := false
	for left := l.Tries; ; {
		ended, err := l.ended(ctx, follow)
		if err != nil {
			return err
		}
		s := l.once(ctx, text, buffer, follow && !ended)
		switch {
		case s.whole && ended, s.gone && came:
			// In the second case the stream came to its end, and the container has gone with its pod since.
			return text.end()
		case s.gone, s.refused:
			return s.err
		}
		came = s.whole
		if left--; s.whole || s.progressed {
			left = l.Tries
		}
		if left <= 0 {
			return s.err
		}
		text.resume()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(l.Pause):
		}
	}
}

// ended is known before a stream is opened, so that the stream has what the container wrote last.
func (l Log) ended(ctx context.Context, follow bool) (bool, error) {
	if !follow {
		return true, nil
	}
	return l.Ended(ctx)
}

// stream is how the reading of one stream went.
type stream struct {
	// whole: it came to its end. progressed: something came.
	whole, progressed bool
	// gone: there is no such log any more. refused: the receiver takes no more. Otherwise err may pass.
	gone, refused bool
	err           error
}

// once reads one stream.
func (l Log) once(ctx context.Context, text *lines, buffer []byte, follow bool) (s stream) {
	from, err := l.Open(ctx, text.since(), follow)
	if err != nil {
		return stream{err: err, gone: l.Permanent(err)}
	}
	defer func() { _ = from.Close() }()
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			s.progressed = true
			if s.err = text.write(buffer[:n]); s.err != nil {
				s.refused = true
				return s
			}
		}
		if errors.Is(err, io.EOF) {
			s.whole = true
			return s
		}
		if err != nil {
			s.err = fmt.Errorf("reading the log: %w", err)
			return s
		}
	}
}
