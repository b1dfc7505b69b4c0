package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// ErrNoModule is wrapped when a path in the repository leads to no folder, or no file.
var ErrNoModule = errors.New("not in the repository")

// Folder resolves the folder called name in the checkout at root, whose links all stay inside, and returns its real
// path from the root. The error names the commit and the nearest folder that exists.
func Folder(root, name, commit string) (string, error) {
	info, real, err := resolve(root, name, commit)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("path %q at commit %s is a file, want the folder of the module: %w", name, commit, ErrNoModule)
	}
	return real, nil
}

// File resolves the file called name in the checkout like Folder.
func File(root, name, commit string) (string, error) {
	info, real, err := resolve(root, name, commit)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("path %q at commit %s is no file: %w", name, commit, ErrNoModule)
	}
	return real, nil
}

func resolve(root, name, commit string) (fs.FileInfo, string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return nil, "", fmt.Errorf("path %q leaves the repository: %w", name, ErrNoModule)
	}
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, "", fmt.Errorf("opening the checkout: %w", err)
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat(clean)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", missing(opened, name, clean, commit)
	}
	if err != nil {
		return nil, "", fmt.Errorf("path %q at commit %s: %w", name, commit, err)
	}
	resolved, err := filepath.EvalSymlinks(filepath.Join(root, clean))
	if err != nil {
		return nil, "", fmt.Errorf("path %q at commit %s: %w", name, commit, err)
	}
	home, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, "", fmt.Errorf("opening the checkout: %w", err)
	}
	real, err := filepath.Rel(home, resolved)
	if err != nil || real == ".." || strings.HasPrefix(real, "../") {
		return nil, "", fmt.Errorf("path %q at commit %s leads out of the repository: %w", name, commit, ErrNoModule)
	}
	return info, real, nil
}

const listed = 10

func missing(root *os.Root, name, clean, commit string) error {
	nearest := path.Dir(clean)
	for nearest != "." {
		if info, err := root.Stat(nearest); err == nil && info.IsDir() {
			break
		}
		nearest = path.Dir(nearest)
	}
	where := nearest
	if nearest == "." {
		where = "the repository's root"
	}
	return fmt.Errorf("path %q does not exist at commit %s: %w; the nearest folder that exists is %s%s%s",
		name, commit, ErrNoModule, where, contents(root, nearest), lookAlike(root, nearest, clean))
}

// lookAlike names what differs from the missing part in upper and lower case, or in how Unicode writes it, alone: people
// cannot see the latter, and file systems on which they work may not tell either apart.
func lookAlike(root *os.Root, nearest, clean string) string {
	wanted, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(clean, nearest), "/"), "/")
	if nearest == "." {
		wanted, _, _ = strings.Cut(clean, "/")
	}
	entries, err := fs.ReadDir(root.FS(), nearest)
	if err != nil {
		return ""
	}
	for _, entry := range entries {
		composed, found := norm.NFC.String(wanted), norm.NFC.String(entry.Name())
		switch {
		case composed == found:
			return fmt.Sprintf("; the repository writes it %+q, in another Unicode form: copy its name from git", entry.Name())
		case strings.EqualFold(composed, found):
			return fmt.Sprintf("; did you mean %q?", entry.Name())
		}
	}
	return ""
}

func contents(root *os.Root, folder string) string {
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil {
		return ""
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name()+"/")
		}
	}
	if len(names) == 0 {
		return ", which has no folders"
	}
	slices.Sort(names)
	if len(names) > listed {
		names = append(names[:listed], "…")
	}
	return ", which has " + strings.Join(names, ", ")
}
