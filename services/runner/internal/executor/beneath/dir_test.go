package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlyRegularFilesBeneathTheFolderAreRead(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "outside")
	root := t.TempDir()
	write(t, filepath.Join(root, "plain"), "inside")
	write(t, filepath.Join(root, "sub", "deep"), "deep")
	symlink(t, outside, filepath.Join(root, "absolute"))
	symlink(t, "plain", filepath.Join(root, "inner"))
	symlink(t, filepath.Dir(outside), filepath.Join(root, "folder"))
	symlink(t, "sub", filepath.Join(root, "sublink"))
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}

	dir, err := OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()

	for name, want := range map[string]string{
		"plain": "inside", "sub/deep": "deep", "./sub//deep": "deep",
		"absolute": "", "inner": "", "folder/secret": "", "sublink/deep": "", "pipe": "", "sub": "",
		"../x": "", "sub/../../x": "", "/etc/passwd": "", "": "", ".": "", "missing": "",
	} {
		got, err := dir.ReadFile(name, 100)
		if (want == "") != (err != nil) || string(got) != want {
			t.Errorf("ReadFile(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := dir.ReadFile("plain", 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a file above the limit: %v", err)
	}
	if _, err := dir.ReadFile("pipe", 3); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a named pipe: %v", err)
	}
}

func TestALinkIsNoFolderToOpen(t *testing.T) {
	target, root := t.TempDir(), t.TempDir()
	link := filepath.Join(root, "link")
	symlink(t, target, link)
	if _, err := OpenDir(link); err == nil {
		t.Error("a link was opened as a folder")
	}
}

func TestCreateNeverWritesThroughWhatExists(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "victim")
	write(t, outside, "before")
	root := t.TempDir()
	symlink(t, outside, filepath.Join(root, "out"))
	dir, err := OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := dir.Create("out", 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("Create over a link: %v", err)
	}
	if got, _ := os.ReadFile(outside); string(got) != "before" {
		t.Errorf("the file outside now holds %q", got)
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
