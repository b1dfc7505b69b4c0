// Package runimage assembles the image magos-run, in which the containers of a run live: a shell, git, ssh and the
// authorities of TLS from Debian's packages, a user without rights, and magos-exec. It needs apt and dpkg-deb, no
// daemon and no root. The same packages and the same magos-exec make the same tree.
package runimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"magosproject.io/services/runner/internal/runspec"
)

// layout changes whenever this package makes another tree of the same packages.
const layout = "1"

// UID and GID of the image's user.
const (
	UID = 65532
	GID = 65532
)

// Options say where things come from and go.
type Options struct {
	// Cache is a folder that outlives calls: packages and trees are kept there. Required.
	Cache string
	// Executor is the static binary of cmd/magos-exec. Required.
	Executor string
	// Progress is told what takes time; may be nil.
	Progress func(string)
}

// Tree is the content of the image and its configuration.
type Tree struct {
	// Folders are absolute paths with their permission bits, including the sticky one of /tmp.
	Folders map[string]fs.FileMode `json:"folders"`
	// Files by their absolute paths in the image.
	Files map[string]File `json:"files"`
	// Symlinks map absolute paths to targets.
	Symlinks map[string]string `json:"symlinks"`
	// User, Entrypoint, Env (NAME=value) and WorkingDir are the image's configuration.
	User       string   `json:"user"`
	Entrypoint []string `json:"entrypoint"`
	Env        []string `json:"env"`
	WorkingDir string   `json:"workingDir"`
	// Packages are the archives that were unpacked, with their versions in the names.
	Packages []string `json:"packages"`
	// Bytes is the sum of the sizes of all files.
	Bytes int64 `json:"bytes"`
}

// File is a file of the image. Its owner is root.
type File struct {
	// Source is the file on this machine.
	Source string `json:"source"`
	// Mode holds the permission bits.
	Mode fs.FileMode `json:"mode"`
}

// Assemble makes the tree, or finds it in the cache.
func Assemble(ctx context.Context, o Options) (Tree, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var names []string
	var archives []archive
	err := withFreshLists(ctx, o.Progress, func() (err error) {
		if names, err = closure(ctx); err != nil {
			return err
		}
		archives, err = resolve(ctx, names)
		return err
	})
	if err != nil {
		return Tree{}, fmt.Errorf("choosing the run image's packages: %w", err)
	}
	root := filepath.Join(o.Cache, "run-image-"+key(archives))
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		err = build(ctx, o, names, archives, root)
		if err != nil {
			return Tree{}, fmt.Errorf("assembling the run image: %w", err)
		}
	}
	tree, err := describe(root)
	if err != nil {
		return Tree{}, fmt.Errorf("describing the run image: %w", err)
	}
	for _, a := range archives {
		tree.Packages = append(tree.Packages, a.file)
	}
	return tree, tree.add(runspec.ExecutablePath, o.Executor, 0o755)
}

func key(archives []archive) string {
	parts := append([]string{layout, runtime.GOARCH}, dropped...)
	for _, a := range archives {
		parts = append(parts, a.file, a.checksum)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])[:16]
}

// build fills a folder beside root and renames it when it is whole and proven.
func build(ctx context.Context, o Options, names []string, archives []archive, root string) error {
	packages := filepath.Join(o.Cache, "run-image-packages")
	o.Progress(fmt.Sprintf("downloading %d Debian packages for the run image", len(archives)))
	err := withFreshLists(ctx, o.Progress, func() error { return download(ctx, packages, names, archives) })
	if err != nil {
		return err
	}
	staging, err := os.MkdirTemp(o.Cache, ".run-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }()
	if err := os.Chmod(staging, 0o755); err != nil {
		return err
	}
	for _, a := range archives {
		if err := unpack(ctx, filepath.Join(packages, a.file), staging); err != nil {
			return err
		}
	}
	if err := finish(staging, archives); err != nil {
		return err
	}
	if err := checkLibraries(staging); err != nil {
		return err
	}
	return os.Rename(staging, root)
}

func describe(root string) (Tree, error) {
	tree := Tree{
		Folders: map[string]fs.FileMode{"/tmp": 0o777 | fs.ModeSticky}, Files: map[string]File{}, Symlinks: map[string]string{},
		User: fmt.Sprintf("%d:%d", UID, GID), Entrypoint: []string{runspec.ExecutablePath}, WorkingDir: "/",
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"SSL_CERT_FILE=" + "/" + bundle,
		},
	}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		inImage := strings.TrimPrefix(name, root)
		switch {
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			tree.Symlinks[inImage] = target
			return err
		case entry.IsDir():
			tree.Folders[inImage] = 0o755
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return tree.add(inImage, name, info.Mode().Perm())
	})
	return tree, err
}

func (t *Tree) add(inImage, source string, mode fs.FileMode) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	t.Files[inImage] = File{Source: source, Mode: mode}
	t.Bytes += info.Size()
	return nil
}
