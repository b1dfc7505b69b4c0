// Command magos-local runs Magos with a demo on this machine, on a one-node Kubernetes cluster that it makes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"magosproject.io/deploy/local/cluster"
)

const usage = `usage:
  magos-local up        [flags]   bring up Magos and a demo, and show the demo's Rollout at work
  magos-local demo-push [flags]   commit to the demo repository and show the commit go from dev to staging to prod
  magos-local down      [flags]   remove all of it
  magos-local clean-cache [flags] remove from the cache what nobody has used for a day
  magos-local cluster up      [--name NAME]   make and start a one-node Kubernetes cluster
  magos-local cluster down    [--name NAME]   remove it with everything in it
  magos-local cluster status  [--name NAME]   say how its processes fare
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, output io.Writer) error {
	if len(arguments) > 0 {
		if command, known := commands[arguments[0]]; known {
			return command(ctx, arguments[1:], output)
		}
	}
	if len(arguments) < 2 || arguments[0] != "cluster" {
		return fmt.Errorf("unknown command\n%s", usage)
	}
	flags := flag.NewFlagSet("magos-local cluster "+arguments[1], flag.ContinueOnError)
	var config cluster.Config
	flags.StringVar(&config.Name, "name", "magos", "name of the cluster")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk; for clusters of tests")
	if err := flags.Parse(arguments[2:]); err != nil {
		return err
	}
	switch arguments[1] {
	case "up":
		_, err := cluster.Up(ctx, config, output)
		return err
	case "down":
		return cluster.Down(ctx, config, output)
	case "status":
		return status(config, output)
	}
	return fmt.Errorf("unknown command\n%s", usage)
}

func status(config cluster.Config, output io.Writer) error {
	found, err := cluster.Open(config)
	if err != nil {
		return err
	}
	processes, running, err := found.Status()
	if err != nil {
		return err
	}
	if !running {
		return fmt.Errorf("cluster %s does not run; `magos-local cluster up` starts it", found.Name())
	}
	_, _ = fmt.Fprintf(output, "cluster %s at %s, kubeconfig %s\n", found.Name(), found.NodeAddress(), found.Kubeconfig())
	for _, process := range processes {
		state := "starting"
		switch {
		case process.Ready:
			state = "ready"
		case process.PID == 0:
			state = "not running"
		}
		_, _ = fmt.Fprintf(output, "%-26s %-12s ended %d times %s\n", process.Name, state, process.Exits, process.LastExit)
	}
	return nil
}
