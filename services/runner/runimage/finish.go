package runimage

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const bundle = "etc/ssl/certs/ca-certificates.crt"

// finish adds what the packages' own scripts would have made, and the user.
func finish(root string, archives []archive) error {
	certificates, err := authorities(root)
	if err != nil {
		return err
	}
	var packages strings.Builder
	for _, a := range archives {
		fmt.Fprintln(&packages, a.file)
	}
	files := map[string]string{
		bundle:                               certificates,
		"etc/passwd":                         fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nmagos:x:%d:%d:magos:/magos/scratch:/bin/sh\n", UID, GID),
		"etc/group":                          fmt.Sprintf("root:x:0:\nmagos:x:%d:\n", GID),
		"etc/nsswitch.conf":                  "passwd: files\ngroup: files\nhosts: files dns\n",
		"usr/share/magos/run-image/packages": packages.String(),
	}
	for name, content := range files {
		target := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, folder := range merged {
		if err := os.MkdirAll(filepath.Join(root, "usr", folder), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+folder, filepath.Join(root, folder)); err != nil {
			return err
		}
	}
	if err := os.Symlink("dash", filepath.Join(root, "usr/bin/sh")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Every folder that is made on this machine gets the mode of the image's, whatever the umask.
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(name, 0o755)
		}
		return err
	})
}

// authorities joins the certificates that the package trusts by default.
func authorities(root string) (string, error) {
	names, err := filepath.Glob(filepath.Join(root, "usr/share/ca-certificates/mozilla/*.crt"))
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", errors.New("package ca-certificates brought no certificates")
	}
	slices.Sort(names)
	var all bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		all.Write(bytes.TrimSpace(data))
		all.WriteByte('\n')
	}
	return all.String(), os.RemoveAll(filepath.Join(root, "usr/share/ca-certificates"))
}

// checkLibraries proves that every program finds its libraries and its loader in the tree.
func checkLibraries(root string) error {
	present := map[string]bool{}
	var programs []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		present[entry.Name()] = true
		if entry.Type().IsRegular() {
			programs = append(programs, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range programs {
		for _, library := range neededBy(name) {
			if !present[library] {
				problems = append(problems, fmt.Errorf("%s needs %s, which no package brought", strings.TrimPrefix(name, root), library))
			}
		}
	}
	return errors.Join(problems...)
}

// neededBy returns the libraries of a program; a file of another kind needs none.
func neededBy(name string) []string {
	file, err := elf.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	needed, err := file.ImportedLibraries()
	if err != nil {
		return nil
	}
	if section := file.Section(".interp"); section != nil {
		if loader, err := section.Data(); err == nil {
			needed = append(needed, filepath.Base(string(bytes.TrimRight(loader, "\x00"))))
		}
	}
	return needed
}
