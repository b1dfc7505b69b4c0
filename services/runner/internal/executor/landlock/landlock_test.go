package landlock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// confined runs a shell from a thread that cannot read folder.
func confined(t *testing.T, folder, script string) (string, error) {
	t.Helper()
	type result struct {
		out []byte
		err error
	}
	ended := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := HideFrom(folder); err != nil {
			ended <- result{nil, err}
			return
		}
		out, err := exec.Command("sh", "-c", script).CombinedOutput()
		ended <- result{out, err}
	}()
	r := <-ended
	return string(r.out), r.err
}

func put(t *testing.T, name, content string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// secrets makes a folder with a Secret as the kubelet lays it out, and something beside it.
func secrets(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, filepath.Join(root, "hidden", "..2026", "password"), "planted")
	for link, target := range map[string]string{"hidden/..data": "..2026", "hidden/password": "..data/password", "link": "hidden"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(root, "beside", "file"), "beside")
	return root
}

func TestWhatIsStartedCannotReadTheFolderByAnyName(t *testing.T) {
	if !Available() {
		t.Skip("this kernel has no Landlock")
	}
	for name, script := range map[string]string{
		"its name":            "cat hidden/password",
		"where it lies":       "cat hidden/..2026/password",
		"a link":              "cat link/password",
		"the parent's root":   "cat /proc/$PPID/root$PWD/hidden/password",
		"its own root":        "cat /proc/self/root$PWD/hidden/password",
		"another program":     "sh -c 'cat hidden/password'",
		"a link of its own":   "ln -s hidden/password mine; cat mine",
		"a hard link":         "ln hidden/..2026/password hard && cat hard",
		"moved":               "mv hidden/..2026 moved && cat moved/password",
		"as a program's text": "sh hidden/password",
	} {
		root := secrets(t)
		out, err := confined(t, filepath.Join(root, "hidden"), "cd "+root+"; "+script)
		if err == nil || strings.Contains(out, "planted") {
			t.Errorf("by %s: %q, %v", name, out, err)
		}
	}
	root := secrets(t)
	out, err := confined(t, filepath.Join(root, "link"), "cd "+root+`; cat beside/file; echo new >beside/new; cat beside/new
mkdir beside/a beside/b; echo moved >beside/a/x; mv beside/a/x beside/b/x; cat beside/b/x; cat link/password 2>/dev/null; exit 0`)
	if err != nil || out != "besidenew\nmoved\n" {
		t.Errorf("what is beside: %q, %v", out, err)
	}
	// The threads of this process are as they were.
	if data, err := os.ReadFile(filepath.Join(root, "hidden", "password")); err != nil || string(data) != "planted" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	if _, err := confined(t, filepath.Join(t.TempDir(), "none"), "true"); err == nil {
		t.Error("hid nothing")
	}
}
