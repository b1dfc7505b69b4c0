package seal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/beneath"
)

var roomy = Limits{Bytes: 1 << 20, Entries: 100}

func TestASealIsTheSameEveryTimeAndCoversEverything(t *testing.T) {
	sealed, digest := sealTree(t)
	if _, again := sealTree(t); again != digest {
		t.Fatalf("two seals of the same tree: %s and %s", digest, again)
	}
	if err := verify(t, sealed, digest); err != nil {
		t.Fatalf("an untouched seal: %v", err)
	}
	in := func(name string) string { return filepath.Join(sealed, TreeName, name) }
	for name, tamper := range map[string]func(){
		"content of the plan":  func() { put(t, in("plan.tfplan"), "PLAN", 0o640) },
		"same size, same time": func() { put(t, in("main.tf"), "resourcf", 0o640) },
		"mode":                 func() { must(t, os.Chmod(in("run.sh"), 0o640)) },
		"mode of a folder":     func() { must(t, os.Chmod(in("sub"), 0o700)) },
		"target of a link":     func() { must(t, os.Remove(in("link"))); must(t, os.Symlink("run.sh", in("link"))) },
		"link for a file": func() {
			must(t, os.Rename(in("main.tf"), in("sub/main.tf")))
			must(t, os.Symlink("sub/main.tf", in("main.tf")))
		},
		"additional file":   func() { put(t, in("zz.tf"), "", 0o640) },
		"additional folder": func() { must(t, os.Mkdir(in("zz"), 0o750)) },
		"missing file":      func() { must(t, os.Remove(in("sub/deep"))) },
		"manifest": func() {
			data, err := os.ReadFile(filepath.Join(sealed, ManifestName))
			must(t, err)
			must(t, os.Remove(filepath.Join(sealed, ManifestName)))
			put(t, filepath.Join(sealed, ManifestName), string(data)+" ", 0o440)
		},
		"missing manifest": func() { must(t, os.Remove(filepath.Join(sealed, ManifestName))) },
	} {
		t.Run(name, func(t *testing.T) {
			sealed, digest = sealTree(t)
			tamper()
			if err := verify(t, sealed, digest); !errors.Is(err, ErrBroken) {
				t.Errorf("after tampering: %v", err)
			}
		})
	}
}

func TestCopyFollowsNoLinkAndRefusesWhatIsNoFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, "outside", 0o600)
	from, to := t.TempDir(), t.TempDir()
	must(t, os.Symlink(secret, filepath.Join(from, "out")))
	must(t, Copy(open(t, from), open(t, to), roomy, nil))
	if target, err := os.Readlink(filepath.Join(to, "out")); err != nil || target != secret {
		t.Errorf("the link became %q, %v", target, err)
	}
	must(t, unix.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	if err := Copy(open(t, from), open(t, t.TempDir()), roomy, nil); !errors.Is(err, ErrUnsealable) {
		t.Errorf("a named pipe: %v", err)
	}
}

func TestCopyStopsAtItsLimits(t *testing.T) {
	from := t.TempDir()
	put(t, filepath.Join(from, "a"), "12345", 0o600)
	put(t, filepath.Join(from, "b"), "12345", 0o600)
	if err := os.Truncate(filepath.Join(from, "b"), 1<<40); err != nil {
		t.Fatal(err)
	}
	for name, limits := range map[string]Limits{"bytes": {Bytes: 1 << 16, Entries: 9}, "entries": {Bytes: 1 << 50, Entries: 1}} {
		if err := Copy(open(t, from), open(t, t.TempDir()), limits, nil); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCopyLeavesOutWhatIsSkipped(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	put(t, filepath.Join(from, "keep"), "", 0o600)
	must(t, os.MkdirAll(filepath.Join(from, "m", "skip"), 0o755))
	must(t, Copy(open(t, from), open(t, to), roomy, func(p string) bool { return p == "m/skip" }))
	if _, err := os.Stat(filepath.Join(to, "m", "skip")); !os.IsNotExist(err) {
		t.Errorf("m/skip: %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "keep")); err != nil {
		t.Error(err)
	}
}

func sealTree(t *testing.T) (sealed, digest string) {
	t.Helper()
	from, sealed := t.TempDir(), t.TempDir()
	put(t, filepath.Join(from, "plan.tfplan"), "plan", 0o640)
	put(t, filepath.Join(from, "main.tf"), "resource", 0o640)
	put(t, filepath.Join(from, "run.sh"), "#!/bin/sh", 0o750)
	must(t, os.Mkdir(filepath.Join(from, "sub"), 0o750))
	put(t, filepath.Join(from, "sub", "deep"), "x", 0o640)
	must(t, os.Symlink("main.tf", filepath.Join(from, "link")))
	dir := open(t, sealed)
	tree, err := dir.Mkdir(TreeName, 0o750)
	must(t, err)
	defer tree.Close()
	must(t, Copy(open(t, from), tree, roomy, nil))
	entries, err := Describe(tree)
	must(t, err)
	digest, err = Write(dir, Manifest{RunID: "r", ToolSHA256: "t", Entries: entries})
	must(t, err)
	return sealed, digest
}

func verify(t *testing.T, sealed, digest string) error {
	t.Helper()
	m, err := Read(open(t, sealed), digest)
	if err != nil {
		return err
	}
	return m.Verify(open(t, filepath.Join(sealed, TreeName)))
}

func open(t *testing.T, name string) *beneath.Dir {
	t.Helper()
	dir, err := beneath.OpenDir(name)
	must(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func put(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(content), mode))
	must(t, os.Chmod(name, mode))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
