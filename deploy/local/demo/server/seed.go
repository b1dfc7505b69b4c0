package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"magosproject.io/deploy/local/demo"
)

// seed makes the demo repository where it is missing. It appears whole or not at all, so that a pod which is killed
// meanwhile leaves nothing that would be taken for a repository.
func seed(ctx context.Context, git, data string) error {
	final := filepath.Join(data, "demo.git")
	if _, err := os.Stat(final); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for the repository: %w", err)
	}
	work, err := os.MkdirTemp(data, "seed-")
	if err != nil {
		return fmt.Errorf("making a folder for the repository: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	files, err := fs.Sub(demo.Repository, "repository")
	if err != nil {
		return fmt.Errorf("finding the repository's files: %w", err)
	}
	checkout, bare := filepath.Join(work, "checkout"), filepath.Join(work, "demo.git")
	if err := os.CopyFS(checkout, files); err != nil {
		return fmt.Errorf("writing the repository's files: %w", err)
	}
	for _, arguments := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		{"--git-dir=" + bare, "config", "http.receivepack", "true"},
		{"--git-dir=" + bare, "config", "core.bare", "true"},
		{"--git-dir=" + bare, "--work-tree=" + checkout, "add", "--all"},
		{"--git-dir=" + bare, "--work-tree=" + checkout, "commit", "--quiet", "--message=Greet every environment"},
	} {
		if err := runGit(ctx, git, checkout, arguments...); err != nil {
			return err
		}
	}
	if err := os.Rename(bare, final); err != nil {
		return fmt.Errorf("putting the repository into place: %w", err)
	}
	slog.Info("made the repository", "path", final)
	return nil
}

func runGit(ctx context.Context, git, dir string, arguments ...string) error {
	command := exec.CommandContext(ctx, git, arguments...)
	command.Dir = dir
	command.Env = environment(dir)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(said.String()))
	}
	return nil
}
