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
