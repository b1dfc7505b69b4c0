package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"magosproject.io/internal/refs"
)

const (
	peeledSuffix = "^{}"
	noRefs       = "capabilities^{}"
	// serverWords bounds what is repeated of a server's message.
	serverWords = 300
)

var errTooLarge = errors.New("the list of refs is larger than allowed (--git-max-list-bytes)")

// readAdvertisement reads the ref advertisement of git-upload-pack (protocol version 0 or 1) and keeps the wanted refs alone, so that memory does not
// grow with the repository. packp.AdvRefs of go-git would keep all of them.
func readAdvertisement(r io.Reader, maxBytes int64, wanted map[string]bool) (refs.Advertised, error) {
	lines := pktline.NewScanner(bufio.NewReader(&limitedReader{r: r, left: maxBytes}))
	found := refs.Advertised{}
	afterService := false
	for lines.Scan() {
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\n"))
		switch {
		case len(line) == 0 && !afterService:
			return found, nil
		case bytes.HasPrefix(line, []byte("# service=")):
			// Smart HTTP sends this line and a flush ahead of what all transports send.
			afterService = true
			continue
		case len(line) == 0, bytes.HasPrefix(line, []byte("version ")), bytes.HasPrefix(line, []byte("shallow ")):
		default:
			if err := keep(found, line, wanted); err != nil {
				return nil, err
			}
		}
		afterService = false
	}
	return nil, endError(lines.Err())
}

// keep adds what one line says, when it was asked for.
func keep(found refs.Advertised, line []byte, wanted map[string]bool) error {
	// Capabilities follow the first ref behind a NUL.
	line, _, _ = bytes.Cut(line, []byte{0})
	sha, name, ok := bytes.Cut(line, []byte(" "))
	if !ok || !isObjectName(sha) {
		return fmt.Errorf("the answer is no list of refs: %q", excerpt(string(line)))
	}
	full, peeled := strings.CutSuffix(string(name), peeledSuffix)
	if string(name) == noRefs || !wanted[full] {
		return nil
	}
	ref := found[full]
	if peeled {
		ref.Peeled = string(sha)
	} else {
		ref.Object = string(sha)
	}
	found[full] = ref
	return nil
}

func endError(err error) error {
	var fromServer *pktline.ErrorLine
	switch {
	case errors.As(err, &fromServer):
		return fmt.Errorf("the server says: %s", excerpt(fromServer.Text))
	case err == nil:
		return fmt.Errorf("the answer ends before the list of refs does: %w", io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("reading the list of refs: %w", err)
}

func isObjectName(sha []byte) bool {
	if len(sha) != 40 && len(sha) != 64 {
		return false
	}
	for _, c := range sha {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// excerpt makes what a server said fit for a log line, an Event and a terminal.
func excerpt(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	if len(text) > serverWords {
		text = strings.ToValidUTF8(text[:serverWords], "") + "…"
	}
	return text
}

// limitedReader fails with errTooLarge after a number of bytes: io.LimitReader would make what was cut short look like an end.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}
