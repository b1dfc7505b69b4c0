// Command server serves the demo's Git repository over smart HTTP, to anybody and for pushing too, and what run pods
// download: OpenTofu and providers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "address to listen on")
	data := flag.String("data", "/data", "folder of the repositories, which outlives the process")
	mirror := flag.String("mirror", "/mirror", "folder with tools and providers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *data, *mirror); err != nil {
		slog.Error("the demo server ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, data, mirror string) error {
	git, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("looking for git: %w", err)
	}
	if err := seed(ctx, git, data); err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: handler(git, data, mirror), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			slog.Warn("requests were cut off", "error", err)
		}
	})
	slog.Info("serving", "address", listen, "repositories", data)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func handler(git, data, mirror string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	for _, folder := range []string{"tools", "providers"} {
		mux.Handle("GET /"+folder+"/", http.StripPrefix("/"+folder, http.FileServer(http.Dir(filepath.Join(mirror, folder)))))
	}
	mux.Handle("/", gitHandler{git: git, data: data}.routes())
	return mux
}
