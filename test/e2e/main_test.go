// Package e2e holds the end-to-end stories: Magos installed by its chart on a real Kubernetes of one node, real pods, a real
// OpenTofu and a real Git server, all as `make up` makes them, under a name of its own.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"magosproject.io/deploy/local/cluster"
)

// clusterName keeps the tests' cluster apart from the one of `make up`. MAGOS_E2E_KEEP=1 leaves it running for a look.
const clusterName = "e2e"

var (
	root  string
	local *cluster.Cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "these tests run pods, which -short leaves out")
		os.Exit(0)
	}
	// The client would complain at length about having nowhere to log to.
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, m)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int) {
	var err error
	if root, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv("MAGOS_E2E_KEEP") == "" {
		defer func() {
			if err := down(); err != nil {
				fmt.Fprintln(os.Stderr, "removing the cluster:", err)
				code = 1
			}
		}()
	}
	if err := magosLocal(ctx, "up", "--name", clusterName); err != nil {
		fmt.Fprintln(os.Stderr, "make up:", err)
		return 1
	}
	if local, err = cluster.Open(cluster.Config{Name: clusterName}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// m.Run knows no context: after Ctrl-C the tests are left where they are, and the cluster goes.
	ended := make(chan int, 1)
	go func() { ended <- m.Run() }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "interrupted")
		return 1
	}
}

// magosLocal runs the command behind make up and make down.
func magosLocal(ctx context.Context, arguments ...string) error {
	command := exec.CommandContext(ctx, "go", append([]string{"run", "./deploy/local/cmd/magos-local"}, arguments...)...)
	command.Dir, command.Stdout, command.Stderr = root, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 2 * time.Minute
	return command.Run()
}

// down removes the cluster and complains about whatever is left of it.
func down() error {
	// The tests' own context may be what ended them.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := magosLocal(ctx, "down", "--name", clusterName); err != nil {
		return err
	}
	left, err := cluster.Leftovers(ctx, cluster.Config{Name: clusterName})
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("make down left behind: %v", left)
	}
	return nil
}
