// Command parts builds binaries that tests need, once, into the cache, and links them into a folder under their plain names:
// KUBEBUILDER_ASSETS of the API server tests, and the tools that the executor's tests run.
//
//	go run ./test/cmd/parts FOLDER NAME...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"magosproject.io/deploy/local/cluster/parts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("missing arguments: a folder, then the names of parts")
	}
	folder := arguments[0]
	paths, err := parts.Build(ctx, os.Stderr, arguments[1:]...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", folder, err)
	}
	for name, path := range paths {
		// A link is replaced by rename, so that a test that runs beside this one always finds one.
		link := filepath.Join(folder, name)
		fresh := fmt.Sprintf("%s.%d", link, os.Getpid())
		if err := os.Symlink(path, fresh); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
		if err := os.Rename(fresh, link); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}
