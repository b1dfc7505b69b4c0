package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/beneath"
)

const (
	// ManifestName is the manifest in the folder of a seal.
	ManifestName = "manifest.json"
	// TreeName is the sealed working copy beside it.
	TreeName = "work"

	manifestVersion = 1
	maxManifest     = 256 << 20
)

// ErrBroken is wrapped when a seal is not what its digest says.
var ErrBroken = errors.New("the seal is broken")

// Kinds of Entry.
const (
	KindFile   = "file"
	KindFolder = "folder"
	KindLink   = "link"
)

// Entry is one name of the sealed tree.
type Entry struct {
	// Path in the tree.
	Path string `json:"path"`
	// Kind is KindFile, KindFolder or KindLink.
	Kind string `json:"kind"`
	// Mode holds the permission bits of files and folders.
	Mode uint32 `json:"mode,omitempty"`
	// Size and SHA256 describe a file.
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Target of a link.
	Target string `json:"target,omitempty"`
}

// Manifest says what was sealed. Its digest stands for all of it.
type Manifest struct {
	Version int `json:"version"`
	// RunID and Revision of the run.
	RunID    string `json:"runID"`
	Revision string `json:"revision"`
	// Module is the folder of the module in the tree, without links.
	Module string `json:"module"`
	// TfvarsFile is the file of variables in the tree that the plan was given; empty for none.
	TfvarsFile string `json:"tfvarsFile,omitempty"`
	// Plan is the plan file in the tree.
	Plan string `json:"plan"`
	// Engine, ToolVersion, Tool (absolute path) and ToolSHA256 name the binary that made the plan and alone may apply it.
	Engine      string `json:"engine"`
	ToolVersion string `json:"toolVersion"`
	Tool        string `json:"tool"`
	ToolSHA256  string `json:"toolSHA256"`
	// Entries of the tree, sorted as a walk meets them.
	Entries []Entry `json:"entries"`
}

// Describe lists the tree at root with the hashes of its files.
func Describe(root *beneath.Dir) ([]Entry, error) { return describe(root, "", nil) }

func describe(dir *beneath.Dir, at string, entries []Entry) ([]Entry, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		entry, err := describeOne(dir, name, path.Join(at, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
		if entry.Kind != KindFolder {
			continue
		}
		sub, err := dir.Dir(name)
		if err != nil {
			return nil, err
		}
		entries, err = describe(sub, entry.Path, entries)
		if err = errors.Join(err, sub.Close()); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func describeOne(dir *beneath.Dir, name, full string) (Entry, error) {
	st, err := dir.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	entry := Entry{Path: full, Mode: st.Mode & 0o777}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		entry.Kind = KindFolder
	case unix.S_IFLNK:
		entry.Kind, entry.Mode = KindLink, 0
		entry.Target, err = dir.Readlink(name)
	case unix.S_IFREG:
		entry.Kind = KindFile
		entry.Size, entry.SHA256, err = hashFile(dir, name)
	default:
		err = fmt.Errorf("%s %w", full, ErrUnsealable)
	}
	return entry, err
}

func hashFile(dir *beneath.Dir, name string) (int64, string, error) {
	file, err := dir.OpenRegular(name)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return 0, "", fmt.Errorf("hashing %s: %w", file.Name(), err)
	}
	return size, hex.EncodeToString(hash.Sum(nil)), nil
}

// Write stores the manifest in the folder of a seal, durably, and returns its digest.
func Write(dir *beneath.Dir, m Manifest) (digest string, err error) {
	m.Version = manifestVersion
	data, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("writing the manifest of the seal: %w", err)
	}
	file, err := dir.Create(ManifestName, 0o440)
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close(), dir.Sync()); err != nil {
		return "", fmt.Errorf("writing the manifest of the seal: %w", err)
	}
	return digestOf(data), nil
}

// Read returns the manifest in the folder of a seal, if its digest is the one that is wanted.
func Read(dir *beneath.Dir, digest string) (Manifest, error) {
	data, err := dir.ReadFile(ManifestName, maxManifest)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if got := digestOf(data); got != digest {
		return Manifest{}, fmt.Errorf("%w: its digest is %s, want %s", ErrBroken, got, digest)
	}
	var m Manifest
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: reading its manifest: %w", ErrBroken, err)
	}
	if m.Version != manifestVersion {
		return Manifest{}, fmt.Errorf("%w: its manifest has version %d, this magos-exec knows %d", ErrBroken, m.Version, manifestVersion)
	}
	return m, nil
}

// Verify compares the tree at root with the manifest and names the first difference.
func (m Manifest) Verify(root *beneath.Dir) error {
	found, err := Describe(root)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	for i, want := range m.Entries {
		switch {
		case i >= len(found):
			return fmt.Errorf("%w: %s is missing", ErrBroken, want.Path)
		case found[i] != want:
			return fmt.Errorf("%w: it has %s where %s was sealed", ErrBroken, describeEntry(found[i]), describeEntry(want))
		}
	}
	if len(found) > len(m.Entries) {
		return fmt.Errorf("%w: %s was not sealed", ErrBroken, found[len(m.Entries)].Path)
	}
	return nil
}

func describeEntry(e Entry) string {
	switch e.Kind {
	case KindLink:
		return fmt.Sprintf("link %s -> %s", e.Path, e.Target)
	case KindFile:
		return fmt.Sprintf("file %s (mode %o, %d bytes, sha256 %.12s)", e.Path, e.Mode, e.Size, e.SHA256)
	default:
		return fmt.Sprintf("folder %s (mode %o)", e.Path, e.Mode)
	}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
