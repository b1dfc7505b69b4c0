// Package toolerror reads what terraform and tofu say when they fail: it finds the error in what they print, and recognises
// the few failures that people, or Magos itself, must meet otherwise than the rest. What it finds is text for people: a
// program that prints the same words is believed, so nothing but the name and the message of a failure may hang on it.
package toolerror

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

const (
	// maxLine bounds what is kept of one line, in bytes.
	maxLine = 1024
	// maxErrors bounds what is kept of the tool's errors, maxTail what is kept of the end where it printed none.
	maxErrors, maxTail = 6 << 10, 700
	// maxWords bounds what Words returns.
	maxWords = 800
)

// Reader is given all that a tool prints, and keeps what it says of a failure, in bounded memory. The zero value is ready.
// It is not safe for concurrent use.
type Reader struct {
	line   []byte
	errors []string
	// kept is the size of errors in bytes, count how many errors were printed.
	kept, count int
	tail        []string
	tailSize    int
}

// logged is how a line of the tools' own log begins, which TF_LOG sends among the output.
var logged = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* \[[A-Z]+\]`)

// Write never fails.
func (r *Reader) Write(data []byte) (int, error) {
	rest := data
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			r.add(rest)
			return len(data), nil
		}
		r.add(rest[:end])
		r.endLine()
		rest = rest[end+1:]
	}
}

func (r *Reader) add(part []byte) {
	r.line = append(r.line, part[:min(len(part), maxLine-len(r.line))]...)
}

func (r *Reader) endLine() {
	line := strings.TrimRight(strings.ToValidUTF8(string(r.line), "?"), " \t\r")
	r.line = r.line[:0]
	if logged.MatchString(line) {
		return
	}
	// Where a terminal is assumed, diagnostics stand in a box.
	if line == "╷" || line == "╵" {
		return
	}
	if boxed, found := strings.CutPrefix(line, "│"); found {
		line = strings.TrimPrefix(boxed, " ")
	}
	if strings.HasPrefix(line, "Error: ") {
		r.count++
	}
	switch {
	case r.count > 0 && r.kept+len(line) <= maxErrors:
		r.errors = append(r.errors, line)
		r.kept += len(line) + 1
	case r.count == 0 && line != "":
		r.tail = append(r.tail, line)
		for r.tailSize += len(line) + 1; r.tailSize > maxTail && len(r.tail) > 1; r.tail = r.tail[1:] {
			r.tailSize -= len(r.tail[0]) + 1
		}
	}
}

// text is what is kept, and the line that has not ended yet.
func (r *Reader) text() []string {
	if len(r.line) > 0 {
		r.endLine()
	}
	if r.count > 0 {
		return r.errors
	}
	return r.tail
}

// Words are the tool's errors, or its last lines where it printed none; at most 800 bytes of valid UTF-8. Of several
// errors the first stands, for it is most often the cause, and how many others there are.
func (r *Reader) Words() string {
	lines := r.text()
	var out strings.Builder
	said := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "Error: ") {
			said++
		}
		if out.Len()+len(line) > maxWords {
			break
		}
		// Empty lines only part what belongs together in a message.
		if line != "" {
			out.WriteString(line)
			out.WriteByte('\n')
		}
	}
	words := strings.TrimSpace(out.String())
	if words == "" && len(lines) > 0 {
		words = strings.ToValidUTF8(lines[0][:min(len(lines[0]), maxWords)], "")
	}
	if more := r.count - max(said, 1); more > 0 {
		words += fmt.Sprintf("\n(and %d more errors)", more)
	}
	return words
}

// Contains reports whether the tool's errors, or its last lines, hold the words, however the lines were broken.
func (r *Reader) Contains(words string) bool { return strings.Contains(r.flat(), words) }

func (r *Reader) flat() string { return strings.Join(strings.Fields(strings.Join(r.text(), " ")), " ") }
