package runimage

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPackagesAreLaidOutWithoutRightsAndBelowUsr(t *testing.T) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./bin/dash", Typeflag: tar.TypeReg, Mode: 0o755, Size: 4},
		{Name: "./bin/sh", Typeflag: tar.TypeSymlink, Linkname: "dash"},
		{Name: "./usr/bin/su", Typeflag: tar.TypeReg, Mode: 0o4755, Size: 4},
		{Name: "./usr/bin/git", Typeflag: tar.TypeReg, Mode: 0o755, Size: 4},
		{Name: "./usr/lib/git-core/git", Typeflag: tar.TypeLink, Linkname: "./usr/bin/git"},
		{Name: "./lib/x/l.so", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4},
		{Name: "./usr/share/doc/git/copyright", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4},
		{Name: "./usr/share/doc/git/README", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4},
		{Name: "./usr/share/man/man1/git.1.gz", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4},
		{Name: "./etc/cron.daily/x", Typeflag: tar.TypeReg, Mode: 0o755, Size: 4},
		{Name: "./etc/ssh/ssh_config", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("text")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := layOut(tar.NewReader(&packed), root); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err := filepath.Walk(root, func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		what := info.Mode().String()
		if info.Mode()&os.ModeSymlink != 0 {
			what, err = os.Readlink(name)
		}
		got[strings.TrimPrefix(name, root+"/")] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"usr/bin/dash": "-rwxr-xr-x", "usr/bin/sh": "dash", "usr/bin/su": "-rwxr-xr-x", "usr/bin/git": "-rwxr-xr-x",
		"usr/lib/git-core/git": "../../bin/git", "usr/lib/x/l.so": "-rw-r--r--", "usr/share/doc/git/copyright": "-rw-r--r--",
		"etc/ssh/ssh_config": "-rw-r--r--",
	}
	for name, mode := range want {
		if got[name] != mode {
			t.Errorf("%s is %q, want %q", name, got[name], mode)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more was laid out: %v", got)
	}
}
