package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/executor/process"
)

// A volume that is full of what earlier runs left must not keep that from being removed.
func TestEarlierRunsAreRemovedBeforeTheVolumeIsWritten(t *testing.T) {
	c := newContainer(t)
	put(t, c.cfg.Paths.pluginCache(), "a file where a folder should be")
	put(t, filepath.Join(c.cfg.Paths.work("old"), "x"), "")
	put(t, filepath.Join(c.cfg.Paths.work("run-1"), "x"), "")
	if _, err := c.prepare(t.Context()); err == nil {
		t.Fatal("the volume can be written")
	}
	for _, gone := range []string{filepath.Join(c.cfg.Paths.runs(), "old"), filepath.Join(c.cfg.Paths.work("run-1"), "x")} {
		if _, err := os.Lstat(gone); !os.IsNotExist(err) {
			t.Errorf("%s: %v", gone, err)
		}
	}
}

func TestWhatCannotBeSealedDoesNotStayOnTheVolume(t *testing.T) {
	for name, left := range map[string]string{"no plan": "source/main.tf", "no plan that can be read": planName} {
		c := newContainer(t)
		c.cfg.SealLimits = NewDefaultConfig().SealLimits
		put(t, filepath.Join(c.cfg.Paths.work("run-1"), left), "x")
		must(t, os.MkdirAll(filepath.Join(c.cfg.Paths.work("run-1"), "source"), 0o755))
		put(t, filepath.Join(c.cfg.Paths.sealed("run-1"), keptName, "x"), "x")
		if _, err := c.sealOrClear(prepared{}); err == nil {
			t.Fatalf("%s: sealed", name)
		}
		for _, folder := range []string{c.cfg.Paths.work("run-1"), c.cfg.Paths.sealed("run-1")} {
			if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
				t.Errorf("%s: %s holds %v, %v", name, folder, entries, err)
			}
		}
	}
}

func TestTheCacheOfProvidersStaysMarkedWhenItMayBeTorn(t *testing.T) {
	ended := func(code int) error {
		return fmt.Errorf("init: %w", &process.ExitError{Program: "tofu", Code: code, State: "x"})
	}
	for name, c := range map[string]struct {
		outcome error
		marked  bool
	}{
		"well":        {nil, false},
		"a failure":   {ended(1), false},
		"killed":      {ended(-1), true},
		"full":        {fmt.Errorf("%w; it says:\nno space left on device", ended(1)), true},
		"interrupted": {fmt.Errorf("init: %w", process.ErrInterrupted), true},
	} {
		container := newContainer(t)
		must(t, os.MkdirAll(container.cfg.Paths.pluginCache(), 0o755))
		must(t, container.openCache())
		if err := container.closeCache(c.outcome); (err == nil) != (c.outcome == nil) {
			t.Errorf("%s: %v", name, err)
		}
		put(t, filepath.Join(container.cfg.Paths.pluginCache(), "host", "torn"), "")
		must(t, container.openCache())
		if _, err := os.Lstat(filepath.Join(container.cfg.Paths.pluginCache(), "host", "torn")); os.IsNotExist(err) != c.marked {
			t.Errorf("%s: afterwards the next keeper finds %v", name, err)
		}
	}
}

// What is in the cache needs no place to come from.
func TestTheCacheHasNothingFromElsewhereThanTheMirrorThatProvidersAreLimitedTo(t *testing.T) {
	c := newContainer(t)
	cached := filepath.Join(c.cfg.Paths.pluginCache(), "host", "provider")
	use := func(mirror string, only bool) (kept bool) {
		t.Helper()
		c.in.ProviderMirror, c.in.ProviderMirrorOnly = mirror, only
		put(t, cached, "")
		must(t, c.openCache())
		must(t, c.closeCache(nil))
		_, err := os.Lstat(cached)
		return err == nil
	}
	for i, step := range []struct {
		mirror     string
		only, kept bool
	}{
		{"/m", false, true}, {"/m", true, false}, {"/m", true, true}, {"/other", true, false}, {"/other", false, true}, {"/other", true, false},
	} {
		if kept := use(step.mirror, step.only); kept != step.kept {
			t.Errorf("step %d, %+v: kept %v", i, step, kept)
		}
	}
}

func TestWhichToolsEvaluateSources(t *testing.T) {
	for version, want := range map[string]bool{
		"OpenTofu 1.7.9": false, "OpenTofu 1.8.0": true, "OpenTofu 1.12.6": true, "OpenTofu 2.0.0": true,
		"Terraform 1.14.3": false, "Terraform 1.15.0-beta1": true, "Terraform 1.5.7": false, "OpenTofu x": true,
	} {
		engine, number, _ := strings.Cut(version, " ")
		if got := evaluatesSources(engine, number); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}
