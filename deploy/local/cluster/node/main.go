// Command magos-node is the first process of a local cluster's node (run), and its volume provisioner (provision).
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"magosproject.io/deploy/local/cluster/provision"
	"magosproject.io/deploy/local/cluster/supervise"
)

// starterPipe is the file descriptor on which the starter says that the network is connected.
const starterPipe = 3

func main() {
	if err := run(os.Args[1:]); err != nil {
		slog.Error("magos-node ends", "error", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "run":
		spec, err := supervise.ReadSpec(arguments[1])
		if err != nil {
			return err
		}
		return supervise.Run(spec, os.NewFile(starterPipe, "starter"))
	case len(arguments) == 4 && arguments[0] == "provision":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return provision.Run(ctx, provision.Config{Kubeconfig: arguments[1], Node: arguments[2], Folder: arguments[3]})
	}
	return fmt.Errorf("usage: magos-node run SPEC | magos-node provision KUBECONFIG NODE FOLDER")
}
