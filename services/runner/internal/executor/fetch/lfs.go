package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Git LFS pointer begins so and is never larger.
const (
	pointerStart = "version https://git-lfs.github.com/spec/"
	pointerLimit = 1024
)

// Pointers returns the files of the checkout at dir that are Git LFS pointers in place of their content, sorted. They are
// looked for only where some .gitattributes speaks of LFS.
func Pointers(dir string) ([]string, error) {
	var small []string
	used := false
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if entry.Name() == ".gitattributes" && !used {
			used, err = holds(name, "filter=lfs")
			return err
		}
		if info, err := entry.Info(); err == nil && info.Size() > 0 && info.Size() < pointerLimit {
			small = append(small, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for Git LFS pointers: %w", err)
	}
	if !used {
		return nil, nil
	}
	var found []string
	for _, name := range small {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("looking for Git LFS pointers: %w", err)
		}
		if bytes.HasPrefix(data, []byte(pointerStart)) {
			found = append(found, strings.TrimPrefix(name, dir+"/"))
		}
	}
	slices.Sort(found)
	return found, nil
}

func holds(name, text string) (bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, 1<<20))
	return bytes.Contains(data, []byte(text)), err
}

// ErrPointer is wrapped when a file that the tool has to read is a Git LFS pointer.
var ErrPointer = errors.New("it is a Git LFS pointer, and runs do not fetch from LFS")

// CheckPointers refuses pointers in the place of what the tool reads: code in the folder module, and the file tfvars.
func CheckPointers(pointers []string, module, tfvars string) error {
	for _, name := range pointers {
		inModule := path.Dir(name) == path.Clean(module)
		if name == tfvars || inModule && isToolFile(name) {
			return fmt.Errorf("reading %s: %w; keep it in git itself", name, ErrPointer)
		}
	}
	return nil
}

func isToolFile(name string) bool {
	for _, suffix := range []string{".tf", ".tofu", ".tf.json", ".tofu.json", ".tfvars", ".tfvars.json"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return path.Base(name) == ".terraform.lock.hcl"
}
