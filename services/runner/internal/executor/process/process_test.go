package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var group = Own()

func sh(script string, out *bytes.Buffer) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Output: out}
}

func TestOutcomes(t *testing.T) {
	var out bytes.Buffer
	if err := group.Run(t.Context(), sh("echo out; echo err >&2", &out), 0); err != nil || out.String() != "out\nerr\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	var exit *ExitError
	if err := group.Run(t.Context(), sh("exit 3", &out), 0); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("exit 3: %v", err)
	}
	if err := group.Run(t.Context(), sh("kill -9 $$", &out), 0); !errors.As(err, &exit) || exit.Code != -1 {
		t.Errorf("killed by itself: %v", err)
	}
	if err := group.Run(t.Context(), Command{Path: "/nowhere", Output: &out}, 0); err == nil || errors.As(err, &exit) {
		t.Errorf("no such program: %v", err)
	}
}

// interruptedWhenReady runs the script and interrupts it once it has printed something.
func interruptedWhenReady(t *testing.T, script string, grace time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &canceller{cancel: cancel}
	err := group.Run(ctx, Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Output: out}, grace)
	return out.text.String(), err
}

type canceller struct {
	text   bytes.Buffer
	cancel func()
}

func (c *canceller) Write(data []byte) (int, error) {
	c.cancel()
	return c.text.Write(data)
}

func TestOneInterruptReachesTheProgramOnly(t *testing.T) {
	// The child lives until the interrupt has come: if it got that too, "child done" would be missing.
	mark := filepath.Join(t.TempDir(), "interrupted")
	script := `trap 'echo interrupted; : >` + mark + `' INT; (while [ ! -e ` + mark + ` ]; do sleep 0.05; done; sleep 0.2; echo child done) & echo ready; wait; wait; echo end; exit 1`
	got, err := interruptedWhenReady(t, script, time.Minute)
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("%v", err)
	}
	if strings.Count(got, "interrupted") != 1 || !strings.Contains(got, "child done") || !strings.Contains(got, "end") {
		t.Errorf("output %q", got)
	}
}

func TestAnInterruptThatComesTooLateIsNone(t *testing.T) {
	if _, err := interruptedWhenReady(t, `trap '' INT; echo ready; sleep 0.3`, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestKilledAfterTheGrace(t *testing.T) {
	begin := time.Now()
	_, err := interruptedWhenReady(t, `trap '' INT; echo ready; sleep 300`, 200*time.Millisecond)
	if !errors.Is(err, ErrInterrupted) || time.Since(begin) > 2*time.Minute {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

func TestOutputHeldOpenByAnOrphanDoesNotHoldTheRun(t *testing.T) {
	var out bytes.Buffer
	begin := time.Now()
	if err := group.Run(t.Context(), sh("sleep 300 & echo $!", &out), 0); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %s", took)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(out.String())); err == nil {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	group.ReapOrphans()
	var out bytes.Buffer
	if err := group.Run(t.Context(), sh("(sleep 0.2 & echo $!)", &out), 0); err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(out.String())
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join("/proc", pid)); os.IsNotExist(err) {
			return
		}
	}
	t.Errorf("orphan %s is still there", pid)
}

func TestTailKeepsTheLastWholeLines(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   string
	}{
		"short":      {[]string{"a\n", "b\n"}, "a\nb"},
		"cut":        {[]string{"first line\n", "second\n"}, "second"},
		"one line":   {[]string{"0123456789abcdef"}, "6789abcdef"},
		"pieces":     {[]string{"012345", "6789", "ab", "cdef"}, "6789abcdef"},
		"binary":     {[]string{"a\xffb"}, "a?b"},
		"just fits":  {[]string{"0123456789"}, "0123456789"},
		"big, twice": {[]string{strings.Repeat("x", 50), strings.Repeat("y", 50)}, "yyyyyyyyyy"},
	} {
		tail := Tail{Limit: 10}
		for _, w := range c.writes {
			if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := tail.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
