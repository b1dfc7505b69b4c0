package executor

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// Marks stand between lines, say the truth, and change nothing else, however the output is cut.
func TestTheLogIsMarkedBetweenItsLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var written, log bytes.Buffer
	j := newJournal(&log, "tool")
	for log.Len() < 5*runspec.LogMarkEvery {
		piece := []byte(strings.Repeat("x", random.IntN(90_000)))
		for range random.IntN(5) {
			if len(piece) > 0 {
				piece[random.IntN(len(piece))] = '\n'
			}
		}
		written.Write(piece)
		n, err := j.Write(piece)
		if n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	var without bytes.Buffer
	position, marks := int64(0), 0
	for line := range bytes.Lines(log.Bytes()) {
		if at, ok := runspec.ParseLogMark(bytes.TrimSuffix(line, []byte("\n"))); ok {
			marks++
			if at != position || len(line) > runspec.MaxLogMark {
				t.Errorf("a mark of %d at %d", at, position)
			}
		} else {
			without.Write(line)
		}
		position += int64(len(line))
	}
	if !bytes.HasPrefix(log.Bytes(), runspec.LogMark("tool", 0)) || marks < 5 || marks > 7 {
		t.Errorf("%d marks, the log begins with %.60q", marks, log.Bytes())
	}
	if !bytes.Equal(without.Bytes(), written.Bytes()) {
		t.Error("the log holds something else than was written")
	}
}

func TestTheLogIsOneStreamForAllWriters(t *testing.T) {
	var log bytes.Buffer
	j := newJournal(&log, "keeper")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				_, _ = j.Write([]byte("a line of a writer\n"))
			}
		})
	}
	all.Wait()
	if got := strings.Count(log.String(), "a line of a writer\n"); got != 8000 {
		t.Errorf("%d lines, want 8000", got)
	}
}

// Module code prints what it likes, in pieces as it likes. The reader of the log takes every mark for the truth.
func TestNoProgramCanForgeAMark(t *testing.T) {
	mark := string(runspec.LogMark("tool", 9_000_000_000))
	pieces := map[string][]string{
		"whole":                     {mark},
		"twice, between lines":      {"a\n" + mark + mark + "b\n"},
		"byte by byte":              strings.Split(mark, ""),
		"in halves":                 {"x\n" + mark[:40], mark[40:]},
		"behind half a line":        {"half a line", "\n", mark},
		"around a line of our own":  {"half a line", "level=INFO msg=waiting magos=tool\n", mark},
		"in halves around our own":  {mark[:30], "level=INFO msg=waiting magos=tool\n", mark[30:], mark},
		"at the place of a mark":    {strings.Repeat("x", runspec.LogMarkEvery) + "\n", mark},
		"behind half, with a mark":  {strings.Repeat("x\n", runspec.LogMarkEvery) + "half", "\n" + mark},
		"with a carriage return":    {mark[:len(mark)-1] + "\r\n", mark},
		"without an end, then more": {mark[:len(mark)-1], "7\n"},
	}
	for name, written := range pieces {
		var log bytes.Buffer
		j := newJournal(&log, "tool")
		for _, piece := range written {
			if n, err := j.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(name, n, err)
			}
		}
		position := int64(0)
		for line := range bytes.Lines(log.Bytes()) {
			if at, ok := runspec.ParseLogMark(bytes.TrimSuffix(line, []byte("\n"))); ok && at != position {
				t.Errorf("%s: a mark of %d at %d", name, at, position)
			}
			position += int64(len(line))
		}
		if !strings.Contains(strings.ReplaceAll(log.String(), " ", ""), "bytes=9000000000") && name != "in halves around our own" {
			t.Errorf("%s: the line is gone:\n%.300s", name, log.String())
		}
	}
}
