package images

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"magosproject.io/deploy/local/cluster/image"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/services/runner/runimage"
)

// Run builds the image that run pods use.
func (s Sources) Run(ctx context.Context, progress io.Writer) (Image, error) {
	spec, err := s.runTree(ctx, progress)
	if err != nil {
		return Image{}, err
	}
	return newImage("magos-run", spec)
}

// runTree is what is in the run image. Its entrypoint is magos-exec.
func (s Sources) runTree(ctx context.Context, progress io.Writer) (image.Spec, error) {
	executor, err := s.build(ctx, progress, "services/runner", "./cmd/magos-exec", "magos-exec")
	if err != nil {
		return image.Spec{}, err
	}
	unlock, err := lock(ctx, s.lockFile("run-image"))
	if err != nil {
		return image.Spec{}, fmt.Errorf("assembling the run image: %w", err)
	}
	defer unlock()
	tree, err := runimage.Assemble(ctx, runimage.Options{
		Cache: s.Cache, Executor: executor, Progress: func(what string) { _, _ = fmt.Fprintln(progress, what) },
	})
	if err != nil {
		return image.Spec{}, err
	}
	trees := map[string]bool{}
	spec := image.Spec{
		Entrypoint: tree.Entrypoint, User: tree.User, WorkingDir: tree.WorkingDir, Env: tree.Env, Symlinks: tree.Symlinks,
	}
	for path, mode := range tree.Folders {
		spec.Files = append(spec.Files, image.File{Path: path, Dir: true, Mode: mode})
	}
	for path, file := range tree.Files {
		if below, found := strings.CutPrefix(file.Source, s.Cache+"/"); found {
			entry, _, _ := strings.Cut(below, "/")
			trees[entry] = true
		}
		spec.Files = append(spec.Files, image.File{Path: path, Source: file.Source, Mode: file.Mode})
	}
	for entry := range trees {
		parts.Used(filepath.Join(s.Cache, entry))
	}
	// Maps have no order, and the name of the image follows from the spec.
	slices.SortFunc(spec.Files, func(a, b image.File) int { return strings.Compare(a.Path, b.Path) })
	return spec, nil
}
