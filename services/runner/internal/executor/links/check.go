// Package links finds symbolic links that lead out of a tree. Links that stay inside are harmless and kept; one that
// leaves could show a later step a file of another tree, and is refused by name.
package links

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/beneath"
)

// ErrLeaves is wrapped by the error that names a link which leaves its tree.
var ErrLeaves = errors.New("the link leaves the checkout")

// maxSteps bounds the links of one resolution, as the kernel does. A loop never leaves, so reaching it is no error.
const maxSteps = 40

// Check walks the tree at root and returns an error for the first link that leaves it, seen as the kernel would
// follow it. An absolute target counts as inside when it lies below home, which is where the tree is used. Folders for
// which skip answers true, by their path in the tree, are not looked at.
func Check(root *beneath.Dir, home string, skip func(folder string) bool) error {
	return walk(root, root, home, "", skip)
}

func walk(root, dir *beneath.Dir, home, at string, skip func(string) bool) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		full := path.Join(at, name)
		st, err := dir.Lstat(name)
		if err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if err := follow(root, home, full); err != nil {
				return err
			}
		case unix.S_IFDIR:
			if skip != nil && skip(full) {
				continue
			}
			if err := walkInto(root, dir, home, full, name, skip); err != nil {
				return err
			}
		}
	}
	return nil
}

func walkInto(root, dir *beneath.Dir, home, full, name string, skip func(string) bool) error {
	sub, err := dir.Dir(name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	return walk(root, sub, home, full, skip)
}

// follow resolves link step by step. here is always a path without links, so that ".." means what it says.
func follow(root *beneath.Dir, home, link string) error {
	here, rest, steps := []string(nil), strings.Split(link, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(here) == 0 {
				return leaves(root, link)
			}
			here = here[:len(here)-1]
			continue
		}
		target, isLink, err := readlink(root, here, part)
		switch {
		case err != nil:
			return err
		case !isLink:
			here = append(here, part)
			continue
		}
		if steps++; steps > maxSteps {
			return nil
		}
		if path.IsAbs(target) {
			inside, ok := strings.CutPrefix(path.Clean(target)+"/", home+"/")
			if !ok || strings.Contains(target, "..") {
				return leaves(root, link)
			}
			here, target = nil, inside
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// readlink returns the target of the link called name in the folder here. What does not exist is no link.
func readlink(root *beneath.Dir, here []string, name string) (target string, isLink bool, err error) {
	dir := root
	if len(here) > 0 {
		dir, err = root.Dir(path.Join(here...))
		if missing(err) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		defer func() { _ = dir.Close() }()
	}
	st, err := dir.Lstat(name)
	if missing(err) {
		return "", false, nil
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false, err
	}
	target, err = dir.Readlink(name)
	return target, true, err
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

func leaves(root *beneath.Dir, link string) error {
	target, err := readTarget(root, link)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s -> %s", ErrLeaves, link, target)
}

func readTarget(root *beneath.Dir, link string) (string, error) {
	target, _, err := readlink(root, parts(path.Dir(link)), path.Base(link))
	return target, err
}

func parts(dir string) []string {
	if dir == "." {
		return nil
	}
	return strings.Split(dir, "/")
}
