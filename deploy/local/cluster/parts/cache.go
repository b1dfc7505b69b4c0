package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func (b Builder) withDefaults() (Builder, error) {
	var err error
	if b.Root == "" {
		if b.Root, err = findRoot(); err != nil {
			return b, err
		}
	}
	if b.Root, err = filepath.Abs(b.Root); err != nil {
		return b, fmt.Errorf("finding the repository: %w", err)
	}
	if b.Cache == "" {
		if b.Cache, err = DefaultCache(); err != nil {
			return b, err
		}
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return b, fmt.Errorf("making the cache: %w", err)
	}
	return b, nil
}

// DefaultCache is the folder that parts are cached in: $MAGOS_CACHE, else magos in the user's cache folder.
func DefaultCache() (string, error) {
	if folder := os.Getenv("MAGOS_CACHE"); folder != "" {
		return filepath.Abs(folder)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (set MAGOS_CACHE): %w", err)
	}
	return filepath.Join(user, "magos"), nil
}

// GoCache is the folder of Go's own build cache, which builds fill too.
func GoCache() string {
	if folder := os.Getenv("GOCACHE"); folder != "" {
		return folder
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return os.TempDir()
	}
	return filepath.Join(user, "go-build")
}

// findRoot walks up from the working directory to the repository, which alone holds tools/cluster.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		if info, err := os.Stat(filepath.Join(folder, "tools", "cluster", "kubernetes", "go.mod")); err == nil && !info.IsDir() {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no parent of %s is a checkout of Magos (none holds tools/cluster)", start)
		}
	}
}

// Assets builds etcd, kube-apiserver and kubectl and returns a folder that holds the three under these names: what
// controller-runtime's envtest takes as KUBEBUILDER_ASSETS.
func (b Builder) Assets(ctx context.Context, progress io.Writer) (string, error) {
	paths, err := b.Build(ctx, progress, Etcd, KubeAPIServer, Kubectl)
	if err != nil {
		return "", err
	}
	if b, err = b.withDefaults(); err != nil {
		return "", err
	}
	// Named after the content: another version gets another folder, and a test that runs keeps its own.
	folder := filepath.Join(b.Cache, "assets", filepath.Base(filepath.Dir(paths[KubeAPIServer]))+
		filepath.Base(filepath.Dir(paths[Etcd])))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of envtest binaries: %w", err)
	}
	for name, path := range paths {
		link := filepath.Join(folder, name)
		if target, err := os.Readlink(link); err == nil && target == path {
			continue
		}
		if err := os.Symlink(path, link); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("linking %s for envtest: %w", name, err)
		}
	}
	return folder, nil
}

// Assets is Builder.Assets with the defaults.
func Assets(ctx context.Context, progress io.Writer) (string, error) {
	return Builder{}.Assets(ctx, progress)
}

// lock takes the exclusive lock of a file and waits while another builder holds it. The kernel drops it when the
// process dies, so a killed builder never blocks the next.
func lock(ctx context.Context, progress io.Writer, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the cache: %w", err)
	}
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !waited {
			fmt.Fprintf(progress, "waiting for another build to finish (%s)\n", path)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("waiting for another build: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Root is the root of the repository that the working directory is in.
func Root() (string, error) { return findRoot() }
