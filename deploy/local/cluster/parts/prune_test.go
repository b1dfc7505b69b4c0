package parts

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPruneTakesWhatIsNotUsedAndNothingElse(t *testing.T) {
	builder := testRepository(t)
	build := func(says string) string {
		write(t, filepath.Join(builder.Root, "tools", "cluster", "pause", "main.go"), "package main\n\nfunc main() { println(\""+says+"\") }\n")
		built, err := builder.Build(t.Context(), &bytes.Buffer{}, Pause)
		if err != nil {
			t.Fatal(err)
		}
		return built[Pause]
	}
	forgotten, running, linked, present := build("forgotten"), build("running"), build("linked"), build("present")
	program := filepath.Join(builder.Cache, "programs", "0123", "magos")
	assets := filepath.Join(builder.Cache, "test-assets")
	for _, folder := range []string{filepath.Dir(program), assets} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, program, "a program")
	if err := os.Symlink(linked, filepath.Join(assets, Pause)); err != nil {
		t.Fatal(err)
	}
	inUse := func(path string) bool { return path == filepath.Dir(running) }
	prune := func(unused time.Duration) {
		t.Helper()
		if err := builder.Prune(t.Context(), &bytes.Buffer{}, unused, inUse); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, there map[string]bool) {
		t.Helper()
		for path, want := range there {
			if _, err := os.Stat(path); (err == nil) != want {
				t.Errorf("%s: %s is there: %v, want %v", when, path, err == nil, want)
			}
		}
	}
	prune(time.Hour)
	expect("everything is fresh", map[string]bool{forgotten: true, running: true, linked: true, present: true, program: true})

	// All of it was last used two hours ago, but for the part that is asked for again.
	keys, err := filepath.Glob(filepath.Join(builder.Cache, "keys", "*"))
	if err != nil || len(keys) != 4 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	for _, path := range append(keys, filepath.Dir(program)) {
		age(t, path)
	}
	if _, err := builder.Build(t.Context(), &bytes.Buffer{}, Pause); err != nil {
		t.Fatal(err)
	}
	prune(time.Hour)
	expect("two hours later", map[string]bool{forgotten: false, filepath.Dir(forgotten): false, running: true, linked: true, present: true, program: false})
	if again := build("forgotten"); again != forgotten {
		t.Errorf("built again it is %s, want %s", again, forgotten)
	}
}

// age makes an entry, and not what it leads to, look two hours older.
func age(t *testing.T, path string) {
	t.Helper()
	at := unix.NsecToTimespec(time.Now().Add(-2 * time.Hour).UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		t.Fatal(err)
	}
}
