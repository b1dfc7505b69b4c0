// Package image makes container images from static binaries and files, without a daemon and without a base image.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Spec describes an image. The same Spec with the same file contents makes the same image, byte for byte.
type Spec struct {
	// Ref is the full reference, for instance magos.local/workspace:dev. Required.
	Ref string
	// Entrypoint, User ("65532:65532"), WorkingDir, Env ("NAME=value") and Labels are the image's configuration.
	Entrypoint []string
	User       string
	WorkingDir string
	Env        []string
	Labels     map[string]string
	// Files are the files and folders of the image. Folders above them are made, owned by root with mode 0755.
	Files []File
	// Symlinks maps the path of a link to its target.
	Symlinks map[string]string
}

// File is one file of an image, or with Dir a folder.
type File struct {
	// Path is absolute in the image.
	Path string
	// Source is a file of this machine. When it is empty, Bytes is the content.
	Source string
	Bytes  []byte
	// Dir makes a folder instead.
	Dir bool
	// Mode holds the permission bits. Default: 0755 for folders and sources, 0644 for Bytes.
	Mode os.FileMode
	// UID and GID are the owner. Default: root.
	UID, GID int
}

// Build writes the image to a tar file that `ctr images import` and `docker load` take. The file appears whole or not
// at all.
func Build(spec Spec, tarPath string) error {
	tag, err := name.NewTag(spec.Ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("reading the image reference %q: %w", spec.Ref, err)
	}
	built, err := Render(spec)
	if err != nil {
		return err
	}
	temporary := tarPath + ".new"
	if err := tarball.WriteToFile(temporary, tag, built); err != nil {
		return errors.Join(fmt.Errorf("writing image %s: %w", spec.Ref, err), os.Remove(temporary))
	}
	if err := os.Rename(temporary, tarPath); err != nil {
		return fmt.Errorf("writing image %s: %w", spec.Ref, err)
	}
	return nil
}

// Render makes the image in memory.
func Render(spec Spec) (v1.Image, error) {
	content, err := renderLayer(spec)
	if err != nil {
		return nil, fmt.Errorf("filling image %s: %w", spec.Ref, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("making the layer of image %s: %w", spec.Ref, err)
	}
	built, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("making image %s: %w", spec.Ref, err)
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("making image %s: %w", spec.Ref, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config.Entrypoint = spec.Entrypoint
	config.Config.User = spec.User
	config.Config.WorkingDir = spec.WorkingDir
	config.Config.Env = spec.Env
	config.Config.Labels = spec.Labels
	built, err = mutate.ConfigFile(built, config)
	if err != nil {
		return nil, fmt.Errorf("configuring image %s: %w", spec.Ref, err)
	}
	return built, nil
}

// ContentTag returns a tag that names the content: it changes when anything in the image changes, whatever tag Ref
// carries now.
func ContentTag(spec Spec) (string, error) {
	built, err := Render(spec)
	if err != nil {
		return "", err
	}
	digest, err := built.Digest()
	if err != nil {
		return "", fmt.Errorf("hashing image %s: %w", spec.Ref, err)
	}
	sum := sha256.Sum256([]byte(digest.String()))
	return hex.EncodeToString(sum[:])[:16], nil
}

func renderLayer(spec Spec) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	written := map[string]bool{"/": true}
	files := slices.Clone(spec.Files)
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, file := range files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path {
			return nil, fmt.Errorf("path %q is not absolute and clean", file.Path)
		}
		if err := writeParents(writer, file.Path, written); err != nil {
			return nil, err
		}
		if err := writeFile(writer, file); err != nil {
			return nil, err
		}
		written[file.Path] = true
	}
	links := make([]string, 0, len(spec.Symlinks))
	for link := range spec.Symlinks {
		links = append(links, link)
	}
	slices.Sort(links)
	for _, link := range links {
		if err := writeParents(writer, link, written); err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: link[1:], Linkname: spec.Symlinks[link], Mode: 0o777}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("adding link %s: %w", link, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("closing the layer: %w", err)
	}
	return buffer.Bytes(), nil
}

func writeParents(writer *tar.Writer, file string, written map[string]bool) error {
	parent := path.Dir(file)
	if written[parent] {
		return nil
	}
	if err := writeParents(writer, parent, written); err != nil {
		return err
	}
	written[parent] = true
	return writeFile(writer, File{Path: parent, Dir: true})
}

func writeFile(writer *tar.Writer, file File) error {
	// Names without a leading slash, as every image builder writes them. Times stay zero, so that a rebuild is equal.
	header := &tar.Header{Name: file.Path[1:], Uid: file.UID, Gid: file.GID, Mode: int64(file.Mode.Perm())}
	if file.Mode&os.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if file.Mode == 0 {
		header.Mode = 0o755
		if file.Source == "" && !file.Dir {
			header.Mode = 0o644
		}
	}
	if file.Dir {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return writer.WriteHeader(header)
	}
	content := file.Bytes
	if file.Source != "" {
		var err error
		if content, err = os.ReadFile(file.Source); err != nil {
			return fmt.Errorf("adding %s: %w", file.Path, err)
		}
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	if err := writer.WriteHeader(header); err != nil {
		return fmt.Errorf("adding %s: %w", file.Path, err)
	}
	if _, err := writer.Write(content); err != nil {
		return fmt.Errorf("adding %s: %w", file.Path, err)
	}
	return nil
}
