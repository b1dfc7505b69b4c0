package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// key identifies what a build of the part would make: the pins, our own sources, the flags and the platform.
func (p Part) key(root string) (string, error) {
	digest := sha256.New()
	fmt.Fprintln(digest, p.Name, p.Package, runtime.Version(), runtime.GOOS, runtime.GOARCH, p.LinkFlags)

	module := filepath.Join(root, p.Module)
	files := []string{filepath.Join(module, "go.mod"), filepath.Join(module, "go.sum")}
	for _, folder := range p.Sources {
		sources, err := goFiles(filepath.Join(module, folder))
		if err != nil {
			return "", fmt.Errorf("listing the sources of %s: %w", p.Name, err)
		}
		files = append(files, sources...)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && filepath.Base(file) == "go.sum" {
			continue // A module without dependencies has none.
		}
		if err != nil {
			return "", fmt.Errorf("reading the pins of %s: %w", p.Name, err)
		}
		relative, err := filepath.Rel(module, file)
		if err != nil {
			return "", fmt.Errorf("naming a source of %s: %w", p.Name, err)
		}
		fmt.Fprintf(digest, "%s %d\n", relative, len(content))
		digest.Write(content)
	}
	return p.Name + "-" + hex.EncodeToString(digest.Sum(nil))[:16], nil
}

// goFiles lists the Go files under folder that end up in a binary, and what they may embed, in a stable order.
func goFiles(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
