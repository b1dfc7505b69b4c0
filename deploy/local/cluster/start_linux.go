package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"magosproject.io/deploy/local/cluster/supervise"
)

// startNode starts the node's first process in namespaces of its own, connects it, and records who it is. It outlives
// the caller.
func startNode(ctx context.Context, config Config, network network, binary string) (err error) {
	files := config.paths()
	log, err := os.OpenFile(files.log("node"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the node's log: %w", err)
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe to the node: %w", err)
	}
	// The node ends when this end closes before the word is given, so a failure below leaves nothing running.
	defer writer.Close()

	// Not exec.CommandContext: the node must not die with the context of the command that started it.
	command := exec.Command(binary, "run", files.spec())
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{reader}
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
	}
	err = command.Start()
	reader.Close()
	if err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	// Collects the node when it ends while this process lives, so that it does not stay as a zombie.
	go func() { _ = command.Wait() }()

	self, err := identify(command.Process.Pid)
	if err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	if err := supervise.WriteJSON(files.identity(), self); err != nil {
		return errors.Join(err, self.end())
	}
	if err := createCgroups(config, self.PID); err != nil {
		return errors.Join(err, self.end())
	}
	if err := connect(ctx, config, network, self.PID); err != nil {
		return errors.Join(err, self.end())
	}
	if _, err := writer.WriteString("go"); err != nil {
		return errors.Join(fmt.Errorf("starting the node: %w", err), self.end())
	}
	return nil
}
