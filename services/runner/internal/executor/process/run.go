// Package process starts the programs that an executor needs, reaps what they leave behind when the executor is PID 1,
// and passes on interrupts.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is a program to run. Its input is empty.
type Command struct {
	// Path of the program, then its arguments.
	Path string
	Args []string
	// Dir to run in.
	Dir string
	// Env is the whole environment.
	Env []string
	// Output takes what it prints on both streams, in order; required. Stdout, if set, takes standard output instead.
	Output io.Writer
	Stdout io.Writer
	// Files are inherited as descriptors 3 and on.
	Files []*os.File
	// Confine, if set, is called on the thread that starts the program and is not used for anything else afterwards: what
	// it gives up for that thread, the program has not got. An error keeps the program from starting.
	Confine func() error
}

// drainTime is how long output is still read after the program has ended: what it started may hold the pipe for ever.
const drainTime = 2 * time.Second

// ErrInterrupted is wrapped when a program was interrupted because ctx ended, and did not succeed.
var ErrInterrupted = errors.New("interrupted")

// ExitError says how a program ended by itself.
type ExitError struct {
	// Program that ended.
	Program string
	// Code is its exit code, -1 for a signal.
	Code int
	// State describes the end for people.
	State string
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s: %s", e.Program, e.State) }

// Run runs c to its end. When ctx ends the program alone, not its children, gets one SIGINT; after grace its process
// group is killed. The error is nil if the program exited with code 0, even after an interrupt, which then came too late
// to matter. Otherwise it matches ErrInterrupted after an interrupt, and *ExitError when the program failed by itself.
func (g *Group) Run(ctx context.Context, c Command, grace time.Duration) error {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = c.Dir, c.Env, c.Files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipes, err := connect(cmd, c)
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.Path, err)
	}
	err = g.startConfined(cmd, c.Confine)
	pipes.started()
	if err != nil {
		pipes.finish(0)
		return fmt.Errorf("starting %s: %w", c.Path, explain(err))
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()

	interrupted := false
	select {
	case err = <-done:
	case <-ctx.Done():
		interrupted = true
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err = <-done:
		case <-time.After(grace):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			err = <-done
		}
	}
	g.forget(cmd)
	pipes.finish(drainTime)
	return outcome(c.Path, cmd, err, interrupted)
}

func (g *Group) startConfined(cmd *exec.Cmd, confine func() error) error {
	if confine == nil {
		return g.start(cmd)
	}
	started := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		err := confine()
		if err == nil {
			err = g.start(cmd)
		}
		started <- err
	}()
	return <-started
}

func outcome(program string, cmd *exec.Cmd, err error, interrupted bool) error {
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return fmt.Errorf("waiting for %s: %w", program, err)
	case interrupted && err != nil:
		return fmt.Errorf("%s: %w (%s)", program, ErrInterrupted, cmd.ProcessState)
	case err != nil:
		return &ExitError{Program: program, Code: cmd.ProcessState.ExitCode(), State: cmd.ProcessState.String()}
	}
	return nil
}

func explain(err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("%w: the input variables together are larger than an environment can be", err)
	}
	return err
}

// pipes are the reading ends of a program's output.
type pipes struct {
	readers, writers []*os.File
	copies           sync.WaitGroup
}

func connect(cmd *exec.Cmd, c Command) (*pipes, error) {
	p := &pipes{}
	output, err := p.open(c.Output)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = output, output
	if c.Stdout != nil {
		stdout, err := p.open(c.Stdout)
		if err != nil {
			p.started()
			p.finish(0)
			return nil, err
		}
		cmd.Stdout = stdout
	}
	return p, nil
}

func (p *pipes) open(to io.Writer) (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.readers, p.writers = append(p.readers, reader), append(p.writers, writer)
	p.copies.Go(func() { drain(reader, to) })
	return writer, nil
}

// drain reads to the end even when the copy can no longer be written: a program must not block on its output.
func drain(from io.Reader, to io.Writer) {
	if _, err := io.Copy(to, from); err != nil {
		_, _ = io.Copy(io.Discard, from)
	}
}

// started drops the writing ends, which the program has by now.
func (p *pipes) started() {
	for _, w := range p.writers {
		_ = w.Close()
	}
}

// finish waits until everything was copied, but no longer than limit.
func (p *pipes) finish(limit time.Duration) {
	deadline := time.Now().Add(limit)
	for _, r := range p.readers {
		_ = r.SetReadDeadline(deadline)
	}
	p.copies.Wait()
	for _, r := range p.readers {
		_ = r.Close()
	}
}

// Tail keeps the last bytes of what is written to it.
type Tail struct {
	// Limit is how many bytes are kept.
	Limit int
	kept  []byte
	cut   bool
}

// Write never fails.
func (t *Tail) Write(data []byte) (int, error) {
	if excess := len(t.kept) + len(data) - t.Limit; excess > 0 {
		t.cut = true
		t.kept = append(t.kept[:0], t.kept[min(excess, len(t.kept)):]...)
		t.kept = append(t.kept, data[max(0, len(data)-t.Limit):]...)
	} else {
		t.kept = append(t.kept, data...)
	}
	return len(data), nil
}

// String is valid UTF-8 and begins with a whole line where there are several.
func (t *Tail) String() string {
	kept := t.kept
	if t.cut {
		if end := bytes.IndexByte(kept, '\n'); end >= 0 && end < len(kept)-1 {
			kept = kept[end+1:]
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(kept), "?"))
}
