package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"magosproject.io/deploy/local/cluster/image"
	"magosproject.io/deploy/local/cluster/parts"
)

// kubernetesImages is the namespace of containerd in which the kubelet looks for images.
const kubernetesImages = "k8s.io"

// LoadImage gives the cluster the images of a tar file, as image.Build or `docker save` write it. There is no registry:
// a pod uses them with imagePullPolicy IfNotPresent or Never. It returns once the kubelet knows them.
func (c *Cluster) LoadImage(ctx context.Context, tarPath string) error {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(tarPath) })
	if err != nil {
		return fmt.Errorf("reading image file %s: %w", tarPath, err)
	}
	if _, err := c.ctr(ctx, "images", "import", tarPath); err != nil {
		return fmt.Errorf("importing image file %s: %w", tarPath, err)
	}
	for _, entry := range manifest {
		for _, tag := range entry.RepoTags {
			if err := c.awaitImage(ctx, tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// HasImage says whether the kubelet knows the image. ref must be complete: registry, name and tag.
func (c *Cluster) HasImage(ctx context.Context, ref string) (bool, error) {
	// containerd's Kubernetes plugin marks the images that it has taken notice of.
	known, err := c.ctr(ctx, "images", "list", "--quiet", `labels."io.cri-containerd.image"==managed`)
	if err != nil {
		return false, fmt.Errorf("listing images: %w", err)
	}
	return slices.Contains(strings.Fields(string(known)), ref), nil
}

func (c *Cluster) awaitImage(ctx context.Context, ref string) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		known, err := c.HasImage(ctx, ref)
		if err != nil {
			return err
		}
		if known {
			return nil
		}
		if time.Now().After(deadline) {
			return c.fault(processContainerd, "has image "+ref+" but does not offer it to the kubelet")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for image %s: %w", ref, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func (c *Cluster) ctr(ctx context.Context, arguments ...string) ([]byte, error) {
	flags := []string{"--address", c.config.paths().containerdSocket(), "--namespace", kubernetesImages}
	return output(ctx, "ctr", append(flags, arguments...)...)
}

// pauseRef names the image of every pod's first container. Its tag is the hash of the binary, after which the binary's
// folder is named.
func pauseRef(binaries map[string]string) string {
	return "magos.local/pause:" + filepath.Base(filepath.Dir(binaries[parts.Pause]))
}

func (c *Cluster) ensurePause(ctx context.Context, binaries map[string]string) error {
	ref := pauseRef(binaries)
	known, err := c.HasImage(ctx, ref)
	if err != nil || known {
		return err
	}
	file := c.config.paths().in("pause.tar")
	err = image.Build(image.Spec{
		Ref:        ref,
		Entrypoint: []string{"/pause"},
		User:       "65535:65535",
		Files:      []image.File{{Path: "/pause", Source: binaries[parts.Pause]}},
	}, file)
	if err != nil {
		return err
	}
	defer os.Remove(file)
	return c.LoadImage(ctx, file)
}
