//go:build runpod

package runimage

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// The test needs apt, and root for chroot. MAGOS_TEST_CACHE, if set, keeps the packages between runs.
func TestTheTreeRunsWhatARunNeedsAsItsUser(t *testing.T) {
	cache := os.Getenv("MAGOS_TEST_CACHE")
	if cache == "" {
		cache = t.TempDir()
	}
	executor := filepath.Join(t.TempDir(), "magos-exec")
	build := exec.Command("go", "build", "-o", executor, "../cmd/magos-exec")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o := Options{Cache: cache, Executor: executor, Progress: func(what string) { t.Log(what) }}
	tree, err := Assemble(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Assemble(t.Context(), o)
	if err != nil || !reflect.DeepEqual(tree, again) {
		t.Errorf("the second time: %v", err)
	}
	t.Logf("%d files, %d bytes, %d packages", len(tree.Files), tree.Bytes, len(tree.Packages))

	root := materialize(t, tree)
	for script, want := range map[string]string{
		"id -u; id -un":                        "65532\nmagos",
		"git init -q /tmp/r && ls -A /tmp/r":   ".git",
		"git --exec-path":                      "/usr/lib/git-core",
		"ls /usr/lib/git-core/git-remote-http": "/usr/lib/git-core/git-remote-http",
		"ssh -V 2>&1 | cut -c1-7":              "OpenSSH",
		"grep -c BEGIN.CERT $SSL_CERT_FILE | sed 's/^[0-9][0-9][0-9]$/many/'": "many",
		// It refuses to play an unknown part with the code that says so.
		"/usr/local/bin/magos-exec nothing >/dev/null 2>&1; echo $?": "70",
	} {
		cmd := exec.Command("chroot", "--userspec=65532:65532", root, "/bin/sh", "-c", script)
		cmd.Env = append(tree.Env, "HOME=/tmp")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v; want %q", script, out, err, want)
		}
	}
	if tree.Files[runspec.ExecutablePath].Source != executor || tree.Entrypoint[0] != runspec.ExecutablePath || tree.User != "65532:65532" {
		data, _ := json.Marshal(tree.Entrypoint)
		t.Errorf("entrypoint %s, user %s", data, tree.User)
	}
}

// materialize copies the tree into a folder, with the null device that every container has.
func materialize(t *testing.T, tree Tree) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range tree.Folders {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range tree.Files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file.Source)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), data, file.Mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range tree.Symlinks {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mknod", "-m", "666", filepath.Join(root, "dev/null"), "c", "1", "3").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// A user must reach the folder from outside.
	for dir := root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755)
	}
	return root
}
