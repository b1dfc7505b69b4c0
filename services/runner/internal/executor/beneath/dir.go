// Package beneath opens what another container could have written: every step of a path is opened below its folder
// without following a link, so that a name swapped while it is read leads nowhere else.
package beneath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotRegular is wrapped when something other than a regular file was to be read.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge is wrapped when a file exceeds the caller's limit.
	ErrTooLarge = errors.New("larger than the limit")
)

// Dir is an open folder. Its methods take names relative to it, with slashes, and never leave it.
type Dir struct {
	file *os.File
}

// OpenDir opens the folder at name, which the caller trusts, and which must not be a link itself.
func OpenDir(name string) (*Dir, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Dir{file: os.NewFile(uintptr(fd), name)}, nil
}

// Close closes the folder.
func (d *Dir) Close() error { return d.file.Close() }

// Name is the path that the folder was opened with.
func (d *Dir) Name() string { return d.file.Name() }

// Sync makes the names in the folder durable.
func (d *Dir) Sync() error { return d.file.Sync() }

// Dir opens the folder called name, which may have several parts.
func (d *Dir) Dir(name string) (*Dir, error) {
	parts, err := split(name)
	if err != nil {
		return nil, err
	}
	current, owned := d, false
	for _, part := range parts {
		fd, err := openat(current, part, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		parent := current
		if err == nil {
			current = &Dir{file: os.NewFile(uintptr(fd), path.Join(parent.Name(), part))}
		}
		if owned {
			err = errors.Join(err, parent.Close())
		}
		if err != nil {
			return nil, err
		}
		owned = true
	}
	return current, nil
}

// Names lists what the folder holds, sorted.
func (d *Dir) Names() ([]string, error) {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("listing %s: %w", d.Name(), err)
	}
	names, err := d.file.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", d.Name(), err)
	}
	slices.Sort(names)
	return names, nil
}

// Lstat describes name, a single part, and not what it may point to.
func (d *Dir) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.file.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, d.failed("stat", name, err)
	}
	return st, nil
}

// Readlink returns the target of the link called name, a single part.
func (d *Dir) Readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.file.Fd()), name, buf)
	if err != nil {
		return "", d.failed("readlink", name, err)
	}
	return string(buf[:n]), nil
}

// OpenRegular opens the regular file called name, which may have several parts, for reading. It never blocks on a
// named pipe and never opens a device.
func (d *Dir) OpenRegular(name string) (*os.File, error) {
	parent, last, done, err := d.parentOf(name)
	if err != nil {
		return nil, err
	}
	defer done()
	fd, err := openat(parent, last, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path.Join(parent.Name(), last))
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("opening %s: %w", file.Name(), ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// ReadFile reads the regular file called name, and refuses one of more than limit bytes.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	file, err := d.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("reading %s: %w of %d bytes", file.Name(), ErrTooLarge, limit)
	}
	return data, nil
}

// Create makes the file called name, a single part that must not exist yet.
func (d *Dir) Create(name string, mode fs.FileMode) (*os.File, error) {
	fd, err := openat(d, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(mode.Perm()))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path.Join(d.Name(), name)), nil
}

// Mkdir makes the folder called name, a single part that must not exist yet, and opens it.
func (d *Dir) Mkdir(name string, mode fs.FileMode) (*Dir, error) {
	if err := unix.Mkdirat(int(d.file.Fd()), name, uint32(mode.Perm())); err != nil {
		return nil, d.failed("mkdir", name, err)
	}
	return d.Dir(name)
}

// Chmod sets the permission bits of the folder itself.
func (d *Dir) Chmod(mode fs.FileMode) error { return d.file.Chmod(mode.Perm()) }

// Symlink makes a link called name, a single part.
func (d *Dir) Symlink(target, name string) error {
	if err := unix.Symlinkat(target, int(d.file.Fd()), name); err != nil {
		return d.failed("symlink", name, err)
	}
	return nil
}

// parentOf opens the folder that holds name. done closes it when it is not d itself.
func (d *Dir) parentOf(name string) (parent *Dir, last string, done func(), err error) {
	parts, err := split(name)
	if err != nil {
		return nil, "", nil, err
	}
	last = parts[len(parts)-1]
	if len(parts) == 1 {
		return d, last, func() {}, nil
	}
	parent, err = d.Dir(path.Join(parts[:len(parts)-1]...))
	if err != nil {
		return nil, "", nil, err
	}
	return parent, last, func() { _ = parent.Close() }, nil
}

func (d *Dir) failed(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: path.Join(d.Name(), name), Err: err}
}

func openat(d *Dir, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(int(d.file.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, d.failed("open", name, err)
		}
		return fd, nil
	}
}

func split(name string) ([]string, error) {
	if name == "" || strings.HasPrefix(name, "/") {
		return nil, fmt.Errorf("opening %q: %w", name, fs.ErrInvalid)
	}
	parts := strings.Split(path.Clean(name), "/")
	if slices.Contains(parts, "..") || parts[0] == "." {
		return nil, fmt.Errorf("opening %q: %w", name, fs.ErrInvalid)
	}
	return parts, nil
}
