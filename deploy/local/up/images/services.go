package images

import (
	"context"
	"io"

	"magosproject.io/deploy/local/cluster/image"
)

// ServiceNames are the services that have an image of one binary each.
func ServiceNames() []string { return []string{"refwatcher", "rollout", "runner", "workspace"} }

// Service builds the image magos-<service>: its binary and nothing else.
func (s Sources) Service(ctx context.Context, progress io.Writer, service string) (Image, error) {
	name := "magos-" + service
	binary, err := s.build(ctx, progress, "services/"+service, ".", name)
	if err != nil {
		return Image{}, err
	}
	return newImage(name, image.Spec{
		Entrypoint: []string{"/" + name},
		User:       nonroot,
		Files:      []image.File{{Path: "/" + name, Source: binary}},
	})
}
