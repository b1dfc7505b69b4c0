package supervise

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	tick = 100 * time.Millisecond
	// calm is how long a process must run before the delay of its next restart starts from the beginning.
	calm       = time.Minute
	maxBackoff = 20 * time.Second
	// maxLog is the size above which a log is put aside when its process starts: one old log is kept.
	maxLog = 32 << 20
)

// Run is the life of a node: it prepares its namespaces, then starts the processes and keeps them running until it
// is killed. starter is the pipe on which the starter says that the network is connected.
func Run(spec Spec, starter *os.File) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("a node must be the first process of its own namespaces, not process %d", os.Getpid())
	}
	if err := awaitStarter(starter); err != nil {
		return err
	}
	starter.Close()
	if err := enter(spec); err != nil {
		return err
	}
	node := &node{spec: spec, byName: map[string]*process{}, results: make(chan probeResult)}
	for _, wanted := range spec.Processes {
		process := &process{Process: wanted, status: ProcessStatus{Name: wanted.Name}}
		node.processes = append(node.processes, process)
		node.byName[wanted.Name] = process
	}
	return node.loop()
}

// node is only touched by the goroutine of loop: one goroutine both starts processes and collects ended ones, so an
// exit can never be seen before the start was recorded.
type node struct {
	spec      Spec
	processes []*process
	byName    map[string]*process
	results   chan probeResult
	reported  bool
}

type process struct {
	Process
	status    ProcessStatus
	wasReady  bool
	probing   bool
	backoff   time.Duration
	notBefore time.Time
}

type probeResult struct {
	process *process
	pid     int
	ready   bool
}

func (n *node) loop() error {
	children := make(chan os.Signal, 16)
	signal.Notify(children, syscall.SIGCHLD)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-children:
			n.reap()
		case result := <-n.results:
			n.take(result)
		case <-ticker.C:
			n.reap()
			for _, process := range n.processes {
				n.advance(process, time.Now())
			}
		}
		if err := n.report(); err != nil {
			return err
		}
	}
}

// reap collects every ended process: ours, and those of pods that lost their parent.
func (n *node) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		for _, process := range n.processes {
			if process.status.PID == pid {
				n.ended(process, status, time.Now())
			}
		}
	}
}

func (n *node) ended(process *process, status syscall.WaitStatus, now time.Time) {
	how := fmt.Sprintf("exit code %d", status.ExitStatus())
	if status.Signaled() {
		how = fmt.Sprintf("signal %s", status.Signal())
	}
	if now.Sub(process.status.Started) > calm {
		process.backoff, process.status.Failures = 0, 0
	}
	process.status.Failures++
	process.backoff = min(max(2*process.backoff, 500*time.Millisecond), maxBackoff)
	process.notBefore = now.Add(process.backoff)
	process.status.PID, process.status.Ready = 0, false
	process.status.Exits++
	process.status.LastExit = how
	n.reported = false
	slog.Warn("process ended", "process", process.Name, "how", how, "again", process.backoff)
}

// advance starts a process whose turn it is, and asks a running one whether it is ready.
func (n *node) advance(process *process, now time.Time) {
	switch {
	case process.status.PID == 0:
		if now.Before(process.notBefore) || !n.mayStart(process) {
			return
		}
		pid, err := n.start(process)
		if err != nil {
			slog.Error("process does not start", "process", process.Name, "error", err)
			process.status.LastExit = err.Error()
			process.status.Exits++
			process.status.Failures++
			process.notBefore = now.Add(maxBackoff)
			n.reported = false
			return
		}
		process.status.PID, process.status.Started = pid, now
		n.reported = false
	case !process.probing && !process.status.Ready:
		process.probing = true
		go probe(process, process.Process, process.status.PID, n.results)
	}
}

// mayStart holds a process back only the first time: whoever was up once copes with the others' restarts.
func (n *node) mayStart(process *process) bool {
	for _, name := range process.After {
		if before := n.byName[name]; before == nil || !before.wasReady {
			return false
		}
	}
	return true
}

func (n *node) start(process *process) (int, error) {
	path := filepath.Join(n.spec.StateDir, "logs", process.Name+".log")
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return 0, fmt.Errorf("putting the old log aside: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	defer null.Close()
	return syscall.ForkExec(process.Path, append([]string{process.Path}, process.Args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func (n *node) take(result probeResult) {
	process := result.process
	process.probing = false
	if process.status.PID != result.pid || !result.ready {
		return
	}
	process.status.Ready, process.wasReady = true, true
	n.reported = false
	slog.Info("process is ready", "process", process.Name, "after", time.Since(process.status.Started).Round(time.Millisecond))
}

// report writes the status when it changed since the last report.
func (n *node) report() error {
	if n.reported {
		return nil
	}
	var status Status
	for _, process := range n.processes {
		status.Processes = append(status.Processes, process.status)
	}
	if err := WriteJSON(filepath.Join(n.spec.StateDir, "status.json"), status); err != nil {
		return err
	}
	n.reported = true
	return nil
}

// loopback asks our own processes on the node's loopback interface. Some serve a certificate that they made up
// themselves, and only the code of the answer matters.
var loopback = &http.Client{
	Timeout:   2 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
}

func probe(target *process, wanted Process, pid int, results chan<- probeResult) {
	ready := true
	switch {
	case wanted.ReadyURL != "":
		response, err := loopback.Get(wanted.ReadyURL)
		ready = err == nil && response.StatusCode == http.StatusOK
		if err == nil {
			response.Body.Close()
		}
	case wanted.ReadySocket != "":
		ready = accepts(wanted.ReadySocket)
	}
	results <- probeResult{process: target, pid: pid, ready: ready}
}
