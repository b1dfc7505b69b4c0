// Package executor is magos-exec, the first process of every container of a run. It fetches, seals and reports as
// keeper, plans as tool, renders the sealed plan as show, and applies what was sealed. Which container may write what
// is in package runspec; this package assumes that everything a container of the module's code could write is hostile.
package executor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/gitauth"
	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/runspec"
)

// container is one container while it runs.
type container struct {
	role  string
	cfg   Config
	in    runspec.Instructions
	group *process.Group
	log   *slog.Logger
	// git has the credentials while keeper fetches; nil otherwise.
	git *gitauth.Agent
}

type part struct {
	phase string
	run   func(*container, context.Context) ([]byte, error)
}

// parts by the argument that magos-exec is started with. Each returns the termination message of a success.
var parts = map[string]part{
	runspec.ContainerKeeper: {runspec.PhasePlan, (*container).keep},
	runspec.ContainerTool:   {runspec.PhasePlan, (*container).plan},
	runspec.ContainerShow:   {runspec.PhasePlan, (*container).show},
	runspec.ArgApply:        {runspec.PhaseApply, (*container).apply},
}

// Run plays the part called role and returns the exit code. It returns when its work is done or the process was asked
// to end by SIGTERM or SIGINT; the first of these interrupts the work, later ones do nothing.
func Run(role string, cfg Config) int {
	log := newJournal(cfg.Stdout, role)
	cfg.Stdout, cfg.Stderr = log, log
	return play(role, cfg, newLog(cfg, role))
}

func play(role string, cfg Config, log *slog.Logger) int {
	harden(log)
	process.Own().ReapOrphans()
	ctx, stop := untilAskedToEnd()
	defer stop()
	code, message := run(ctx, role, cfg, log)
	if err := writeTermination(cfg.Paths.TerminationLog, message); err != nil {
		log.Error("ending", "error", err)
		if code == runspec.ExitOK {
			code = runspec.ExitInternal
		}
	}
	return code
}

func run(ctx context.Context, role string, cfg Config, log *slog.Logger) (code int, message []byte) {
	c := &container{role: role, cfg: cfg, log: log, group: process.Own()}
	p, known := parts[role]
	if !known {
		log.Error("starting", "error", "want one argument: keeper, tool, show or apply")
		return runspec.ExitInternal, []byte("magos-exec was started with an unknown argument")
	}
	message, err := c.play(ctx, p)
	if err == nil {
		return runspec.ExitOK, message
	}
	err = c.orStorageFull(err)
	code = codeOf(err)
	// The tool's last words, which follow in the message, stand above in the log already.
	what, _, _ := strings.Cut(err.Error(), "\n")
	log.Error("ending", "code", code, "error", what)
	if role != runspec.ContainerKeeper {
		return code, []byte(shorten(err.Error(), messageLimit))
	}
	message, err = renderRecord(failedRecord(c.in, err))
	if err != nil {
		log.Error("ending", "error", err)
		return runspec.ExitInternal, nil
	}
	return code, message
}

func (c *container) play(ctx context.Context, p part) ([]byte, error) {
	if p.phase == runspec.PhasePlan {
		// Never closed: only the kernel may release the lock, at the very end.
		if _, err := holdLock(c.cfg.Paths.Locks, c.role); err != nil {
			return nil, err
		}
	}
	data, err := os.ReadFile(c.cfg.Paths.Instructions)
	if err != nil {
		return nil, fmt.Errorf("reading the run's instructions: %w", err)
	}
	c.in, err = runspec.ParseInstructions(data)
	if err != nil {
		return nil, err
	}
	if c.in.Phase != p.phase {
		return nil, fmt.Errorf("%s is no part of the phase %q", c.role, c.in.Phase)
	}
	if c.in.RunID == "" || filepath.Base(c.in.RunID) != c.in.RunID || c.in.RunID == ".." || c.in.RunID == "." {
		return nil, fmt.Errorf("run ID %q is none", c.in.RunID)
	}
	c.log.Info("starting", "run", c.in.RunID, "phase", c.in.Phase, "workspace", c.in.Namespace+"/"+c.in.Workspace)
	return p.run(c, ctx)
}

// withTimeout ends with errTimedOut after the run's timeout.
func (c *container) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.in.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Duration(c.in.Timeout), errTimedOut)
}

// overtime is how long after its start a tool has surely ended. Without a timeout there is a bound all the same: a wait
// has a deadline.
func (c *container) overtime() time.Duration {
	timeout := time.Duration(c.in.Timeout)
	if timeout <= 0 {
		timeout = 7 * 24 * time.Hour
	}
	return timeout + time.Duration(c.in.Grace) + 2*time.Minute
}

func untilAskedToEnd() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		if _, open := <-asked; open {
			cancel(errAskedToEnd)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// harden keeps this process's memory and environment from the code of the same user that it starts, lets it reap what
// that code leaves, and makes its files readable by its own group only.
func harden(log *slog.Logger) {
	unix.Umask(0o027)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("protecting the process", "error", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Warn("becoming the reaper of orphans", "error", err)
	}
}

func newLog(cfg Config, role string) *slog.Logger {
	handler := slog.NewTextHandler(cfg.Stderr, &slog.HandlerOptions{
		// Every line of a container's log has its time already.
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	return slog.New(handler).With("magos", role)
}
