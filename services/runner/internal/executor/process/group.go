package process

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group knows the programs that this process started and waits for. Everything else that ends below it is an orphan,
// which PID 1 has to reap.
type Group struct {
	mu    sync.Mutex
	known map[int]struct{}
}

// Own returns the Group of this process. There is one only: two would reap each other's programs.
var Own = sync.OnceValue(func() *Group { return &Group{known: map[int]struct{}{}} })

// ReapOrphans reaps for the rest of the life of the process whatever ends below it and was not started by Run. A process
// that starts programs otherwise must not ask for it.
func (g *Group) ReapOrphans() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			g.reap()
		}
	}()
}

// start holds the lock so that a program which ends at once is known before the reaper sees it.
func (g *Group) start(cmd *exec.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	g.known[cmd.Process.Pid] = struct{}{}
	return nil
}

func (g *Group) forget(cmd *exec.Cmd) {
	g.mu.Lock()
	delete(g.known, cmd.Process.Pid)
	g.mu.Unlock()
}

func (g *Group) reap() {
	for {
		pid := ended()
		if pid == 0 {
			return
		}
		g.mu.Lock()
		_, ours := g.known[pid]
		if !ours {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		g.mu.Unlock()
		if ours {
			// Whoever started it is about to wait for it; until then it hides the others.
			time.Sleep(time.Millisecond)
		}
	}
}

// ended returns a child that has ended, without waiting for it, or 0.
func ended() int {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Signo == 0 {
			return 0
		}
		return childOf(&info)
	}
}
