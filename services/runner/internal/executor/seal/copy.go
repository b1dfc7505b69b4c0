// Package seal copies a run's working copy where the module's code cannot reach it, and proves later that nothing in
// the copy has changed.
package seal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/beneath"
)

var (
	// ErrTooLarge is wrapped when a tree exceeds its Limits.
	ErrTooLarge = errors.New("working copy is larger than what is sealed")
	// ErrUnsealable is wrapped when a tree holds something other than files, folders and links.
	ErrUnsealable = errors.New("cannot be sealed")
)

// Limits bound a tree.
type Limits struct {
	// Bytes is the sum over all files.
	Bytes int64
	// Entries counts files, folders and links.
	Entries int
}

// Copy copies the tree at from into the folder to, which must be empty where names collide. It opens every name beneath
// its folder and follows no link, so it is safe while something else changes from. Paths for which skip answers true
// are left out.
func Copy(from, to *beneath.Dir, limits Limits, skip func(path string) bool) error {
	c := copier{left: limits, skip: skip}
	return c.tree(from, to, "")
}

type copier struct {
	left Limits
	skip func(string) bool
}

func (c *copier) tree(from, to *beneath.Dir, at string) error {
	names, err := from.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		full := path.Join(at, name)
		if c.skip != nil && c.skip(full) {
			continue
		}
		if c.left.Entries--; c.left.Entries < 0 {
			return fmt.Errorf("%w: too many files, at %s", ErrTooLarge, full)
		}
		if err := c.entry(from, to, name, full); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) entry(from, to *beneath.Dir, name, full string) error {
	st, err := from.Lstat(name)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return c.regular(from, to, name, full)
	case unix.S_IFDIR:
		return c.folder(from, to, name, full)
	case unix.S_IFLNK:
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return to.Symlink(target, name)
	default:
		return fmt.Errorf("%s %w: it is a socket, a pipe or a device", full, ErrUnsealable)
	}
}

func (c *copier) folder(from, to *beneath.Dir, name, full string) (err error) {
	source, err := from.Dir(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := to.Mkdir(name, 0o700)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := c.tree(source, target, full); err != nil {
		return err
	}
	st, err := from.Lstat(name)
	if err != nil {
		return err
	}
	// A folder that its owner cannot enter could not be verified later.
	return target.Chmod(fs.FileMode(st.Mode).Perm() | 0o500)
}

func (c *copier) regular(from, to *beneath.Dir, name, full string) (err error) {
	source, err := from.OpenRegular(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("copying %s: %w", full, err)
	}
	target, err := to.Create(name, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	n, err := io.Copy(target, io.LimitReader(source, c.left.Bytes+1))
	if err != nil {
		return fmt.Errorf("copying %s: %w", full, err)
	}
	if c.left.Bytes -= n; c.left.Bytes < 0 {
		return fmt.Errorf("%w, at %s", ErrTooLarge, full)
	}
	return target.Chmod(info.Mode().Perm() | 0o400)
}
