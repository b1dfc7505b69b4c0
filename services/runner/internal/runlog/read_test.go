package runlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"magosproject.io/services/runner/internal/runspec"
)

var (
	began   = time.Date(2026, 11, 30, 21, 0, 0, 0, time.UTC)
	errGone = errors.New("gone")
)

// kubelet keeps the lines of a log, the first of which may have been rotated away, and serves them as a kubelet does.
type kubelet struct {
	lines []string
	first int
	// cuts are after how many bytes the streams break, one after the other; then none breaks.
	cuts []int
	// opened are the times that were asked for.
	opened []time.Time
	// rotate is called before each stream is opened.
	rotate func(k *kubelet, stream int)
	gone   bool
}

// at is the time of the nth line: several lines share one.
func at(n int) time.Time { return began.Add(time.Duration(n/3) * 400 * time.Millisecond) }

func (k *kubelet) open(_ context.Context, since time.Time, _ bool) (io.ReadCloser, error) {
	if k.gone {
		return nil, errGone
	}
	if k.rotate != nil {
		k.rotate(k, len(k.opened))
	}
	k.opened = append(k.opened, since)
	var served bytes.Buffer
	for n := k.first; n < len(k.lines); n++ {
		if !at(n).Before(since.Truncate(time.Second)) {
			fmt.Fprintf(&served, "%s %s", at(n).Format(time.RFC3339Nano), k.lines[n])
		}
	}
	if len(k.opened) <= len(k.cuts) {
		cut := min(k.cuts[len(k.opened)-1], served.Len())
		return io.NopCloser(io.MultiReader(bytes.NewReader(served.Bytes()[:cut]), broken{})), nil
	}
	return io.NopCloser(&served), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (k *kubelet) log() Log {
	return Log{
		Open: k.open, Ended: func(context.Context) (bool, error) { return len(k.opened) > len(k.cuts), nil },
		Permanent: func(err error) bool { return errors.Is(err, errGone) }, Pause: time.Microsecond, Tries: 1000,
	}
}

// gap stands for what is said to be missing.
func gap(bytes int64) string { return fmt.Sprintf("<%d missing>", bytes) }

func (k *kubelet) read(t *testing.T, follow bool) string {
	t.Helper()
	var got strings.Builder
	err := k.log().Read(t.Context(), follow, func(p Piece) error {
		if p.Missing {
			got.WriteString(gap(p.Bytes))
		}
		got.Write(p.Data)
		if len(p.Data) > 64<<10 {
			t.Errorf("a piece of %d bytes", len(p.Data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got.String()
}

// journal is a log with marks as an executor writes it.
func journal(lines ...string) []string {
	written, next, out := int64(0), int64(0), []string{}
	for _, line := range lines {
		if written >= next {
			mark := string(runspec.LogMark("tool", written))
			out = append(out, mark)
			written += int64(len(mark))
			next = written + runspec.LogMarkEvery
		}
		out = append(out, line)
		written += int64(len(line))
	}
	return out
}

func anything(random *rand.Rand) []string {
	lines := []string{"\n", "\x00\xff\xfe binary \r\n", strings.Repeat("é", 1<<19) + "\n", "2026-11-30T21:00:00Z looks like a time\n"}
	for n := range 100 {
		lines = append(lines, fmt.Sprintf("line %d %s\n", n, strings.Repeat("z", random.IntN(200))))
	}
	random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return append(lines, "no end")
}

func TestALogComesByteForByteHoweverTheStreamBreaks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	lines := journal(anything(random)...)
	want := strings.Join(lines, "")
	for round := range 20 {
		k := &kubelet{lines: lines}
		for range random.IntN(12) {
			cut := random.IntN(20_000)
			if random.IntN(3) == 0 {
				cut = random.IntN(2 * len(want))
			}
			k.cuts = append(k.cuts, cut)
		}
		if got := k.read(t, true); got != want {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("round %d, cuts %v: %d bytes instead of %d; from byte %d: %.100q, want %.100q", round, k.cuts, len(got), len(want), at, got[at:], want[at:])
		}
		for _, since := range k.opened[1:] {
			if len(k.cuts) > 0 && k.cuts[0] > 100 && since.IsZero() {
				t.Fatal("a broken stream was read from its beginning again")
			}
		}
	}
	if got := (&kubelet{lines: lines}).read(t, false); got != want {
		t.Error("without follow")
	}
}

func TestWhatWasRotatedAwayIsSaidToBeMissing(t *testing.T) {
	var text []string
	for n := range 60_000 {
		text = append(text, fmt.Sprintf("line %07d %s\n", n, strings.Repeat("z", 60)))
	}
	lines := journal(text...)
	size := func(lines []string) (n int64) {
		for _, line := range lines {
			n += int64(len(line))
		}
		return n
	}
	t.Run("the beginning", func(t *testing.T) {
		got := (&kubelet{lines: lines, first: 40_000}).read(t, false)
		if !strings.HasPrefix(got, gap(0)+lines[40_000]) || strings.Count(got, "missing>") != 1 {
			t.Errorf("the log begins with %.120q and has %d gaps", got, strings.Count(got, "missing>"))
		}
	})
	t.Run("the middle, where the stream broke", func(t *testing.T) {
		k := &kubelet{lines: lines, cuts: []int{100_000}, rotate: func(k *kubelet, stream int) { k.first = stream * 50_000 }}
		got := k.read(t, true)
		if strings.Count(got, "missing>") == 0 || !strings.HasSuffix(got, gap(0)+strings.Join(lines[50_000:], "")) {
			t.Errorf("%d bytes, %d gaps", len(got), strings.Count(got, "missing>"))
		}
	})
	t.Run("the middle, of a stream that goes on", func(t *testing.T) {
		k := &kubelet{lines: append(append([]string{}, lines[:10_000]...), lines[40_000:]...)}
		got := k.read(t, true)
		var said int64
		_, rest, found := strings.Cut(got, "<")
		if _, err := fmt.Sscanf(rest, "%d missing>", &said); err != nil || !found {
			t.Fatal("nothing is said to be missing")
		}
		if want := size(lines[10_000:40_000]); said != want {
			t.Errorf("%d bytes are said to be missing, want %d", said, want)
		}
		if strings.Count(got, "missing>") != 1 {
			t.Errorf("%d gaps", strings.Count(got, "missing>"))
		}
	})
	t.Run("nothing", func(t *testing.T) {
		if got := (&kubelet{lines: lines}).read(t, false); strings.Contains(got, "missing>") {
			t.Error("nothing was rotated away")
		}
	})
	t.Run("an empty log", func(t *testing.T) {
		if got := (&kubelet{}).read(t, true); got != "" {
			t.Errorf("%q", got)
		}
	})
	t.Run("words of the kubelet's own", func(t *testing.T) {
		k := kubelet{}
		l := k.log()
		l.Open = func(context.Context, time.Time, bool) (io.ReadCloser, error) {
			k.opened = append(k.opened, time.Time{})
			return io.NopCloser(strings.NewReader("unable to retrieve container logs for containerd://x")), nil
		}
		var got string
		if err := l.Read(t.Context(), false, func(p Piece) error { got += string(p.Data); return nil }); err != nil || got != "unable to retrieve container logs for containerd://x" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestALogEndsWithItsReaderItsPodOrItsTries(t *testing.T) {
	refused := errors.New("the reader is gone")
	k := &kubelet{lines: journal("a\n")}
	if err := k.log().Read(t.Context(), true, func(Piece) error { return refused }); !errors.Is(err, refused) || len(k.opened) != 1 {
		t.Errorf("%v after %d streams", err, len(k.opened))
	}
	if err := (&kubelet{gone: true}).log().Read(t.Context(), true, func(Piece) error { return nil }); !errors.Is(err, errGone) {
		t.Errorf("a pod that is gone: %v", err)
	}
	// The container ends, and its pod goes before anybody looks again: what came is all.
	k = &kubelet{lines: journal("a\n")}
	l := k.log()
	l.Ended = func(context.Context) (bool, error) { k.gone = len(k.opened) > 0; return k.gone, nil }
	if err := l.Read(t.Context(), true, func(Piece) error { return nil }); err != nil {
		t.Errorf("a pod that went after its log had ended: %v", err)
	}
	l = (&kubelet{}).log()
	l.Open = func(context.Context, time.Time, bool) (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF }
	if err := l.Read(t.Context(), true, func(Piece) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a kubelet that never answers: %v", err)
	}
}

// huge is a log of 300 MB that takes no memory, in lines of many lengths.
type huge struct {
	left, line int
	buffer     []byte
}

func (h *huge) Read(p []byte) (int, error) {
	for len(h.buffer) == 0 {
		if h.left <= 0 {
			return 0, io.EOF
		}
		h.line++
		length := 300
		switch {
		case h.line%20_000 == 7:
			length = 1 << 20
		case h.line%10 == 0:
			length = 3000
		}
		h.buffer = append(append(h.buffer[:0], "2026-11-30T21:00:00.123456789Z "...), bytes.Repeat([]byte{byte('a' + h.line%26)}, length)...)
		h.buffer = append(h.buffer, '\n')
		h.left -= len(h.buffer)
	}
	n := copy(p, h.buffer)
	h.buffer = h.buffer[n:]
	return n, nil
}

func TestALogOf300MBTakesNoMemory(t *testing.T) {
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	log := Log{
		Open: func(context.Context, time.Time, bool) (io.ReadCloser, error) {
			return io.NopCloser(&huge{left: 300 << 20}), nil
		},
		Ended: func(context.Context) (bool, error) { return true, nil }, Permanent: func(error) bool { return true }, Tries: 1,
	}
	before, peak, total, pieces := used(), uint64(0), 0, 0
	err := log.Read(t.Context(), true, func(p Piece) error {
		total += len(p.Data)
		if pieces++; pieces%1000 == 0 {
			peak = max(peak, used())
		}
		return nil
	})
	if err != nil || total < 280<<20 {
		t.Fatalf("%d bytes, %v", total, err)
	}
	if peak > before+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, peak)
	}
}
