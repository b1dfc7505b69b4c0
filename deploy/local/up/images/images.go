// Package images builds the images that Magos and its demo run from, without a daemon, and gives them to a cluster. An
// image's tag names its content: what a cluster has already is not built and not loaded again.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"magosproject.io/deploy/local/cluster/image"
)

// Registry is the host in the names of images that no registry has.
const Registry = "magos.local"

// nonroot is the user of every image.
const nonroot = "65532:65532"

// Image is one that can be built.
type Image struct {
	// Name without registry and tag.
	Name string
	// Spec of the image; its Ref is complete.
	Spec image.Spec
}

// Ref is the complete reference.
func (i Image) Ref() string { return i.Spec.Ref }

// newImage completes the reference with a tag that names the content of everything in the spec.
func newImage(name string, spec image.Spec) (Image, error) {
	digest := sha256.New()
	described := spec
	described.Files = slices.Clone(spec.Files)
	for i, file := range spec.Files {
		if file.Source == "" {
			continue
		}
		sum, err := fileSum(file.Source)
		if err != nil {
			return Image{}, fmt.Errorf("reading a file of image %s: %w", name, err)
		}
		described.Files[i].Source = sum
	}
	if err := json.NewEncoder(digest).Encode(described); err != nil {
		return Image{}, fmt.Errorf("naming image %s: %w", name, err)
	}
	spec.Ref = Registry + "/" + name + ":" + hex.EncodeToString(digest.Sum(nil))[:16]
	return Image{Name: name, Spec: spec}, nil
}

func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// Target takes images: a cluster without a registry.
type Target interface {
	// HasImage says whether pods can use the image.
	HasImage(ctx context.Context, ref string) (bool, error)
	// LoadImage takes the image of a tar file.
	LoadImage(ctx context.Context, tarPath string) error
}

// Load gives the target every image that it does not have, and says which.
func Load(ctx context.Context, target Target, images map[string]Image, progress io.Writer) error {
	folder, err := os.MkdirTemp("", "magos-images-")
	if err != nil {
		return fmt.Errorf("making a folder for images: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for _, name := range slices.Sorted(maps.Keys(images)) {
		built := images[name]
		has, err := target.HasImage(ctx, built.Ref())
		if err != nil {
			return err
		}
		if has {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		started := time.Now()
		file := filepath.Join(folder, name+".tar")
		if err := image.Build(built.Spec, file); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("measuring image %s: %w", name, err)
		}
		if err := target.LoadImage(ctx, file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing an image file: %w", err)
		}
		_, _ = fmt.Fprintf(progress, "loaded image %s (%d MB compressed, %s)\n", built.Ref(), info.Size()>>20, time.Since(started).Round(100*time.Millisecond))
	}
	return nil
}
