// Command magos-runimage assembles the content of the image magos-run and prints it as JSON, for whatever turns trees
// into images: files with their sources on this machine, links, and the image's configuration.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"magosproject.io/services/runner/runimage"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var o runimage.Options
	flag.StringVar(&o.Cache, "cache", "", "folder for packages and trees; it is kept (required)")
	flag.StringVar(&o.Executor, "executor", "", "static binary of cmd/magos-exec (required)")
	flag.Parse()
	if o.Cache == "" || o.Executor == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	o.Progress = func(what string) { log.Info(what) }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tree, err := runimage.Assemble(ctx, o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(tree)
	}
	if err != nil {
		log.Error("assembling the run image", "error", err)
		os.Exit(1)
	}
}
