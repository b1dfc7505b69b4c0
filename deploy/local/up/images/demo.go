package images

import (
	"context"
	"io"
	"slices"

	"magosproject.io/deploy/local/cluster/image"
)

// DemoServer builds the image of the demo's Git server: what is in the run image, for its git, without magos-exec, with the
// server and what it mirrors.
func (s Sources) DemoServer(ctx context.Context, progress io.Writer) (Image, error) {
	server, err := s.build(ctx, progress, "deploy/local", "./demo/server", "magos-demo-git")
	if err != nil {
		return Image{}, err
	}
	spec, err := s.runTree(ctx, progress)
	if err != nil {
		return Image{}, err
	}
	mirror, err := s.mirrorFiles(ctx, progress)
	if err != nil {
		return Image{}, err
	}
	// The server must not restart whenever magos-exec changes.
	spec.Files = slices.DeleteFunc(spec.Files, func(file image.File) bool { return file.Path == spec.Entrypoint[0] })
	spec.Entrypoint = []string{"/usr/local/bin/magos-demo-git"}
	spec.Files = append(spec.Files, image.File{Path: "/usr/local/bin/magos-demo-git", Source: server})
	spec.Files = append(spec.Files, mirror...)
	return newImage("magos-demo-git", spec)
}
