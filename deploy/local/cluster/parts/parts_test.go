package parts

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testRepository is a checkout with one part that needs nothing from the network: pause.
func testRepository(t *testing.T) Builder {
	t.Helper()
	root := t.TempDir()
	module := filepath.Join(root, "tools", "cluster", "pause")
	if err := os.MkdirAll(module, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(module, "go.mod"), "module example.org/pause\n\ngo 1.26\n")
	write(t, filepath.Join(module, "main.go"), "package main\n\nfunc main() { println(\"one\") }\n")
	return Builder{Root: root, Cache: filepath.Join(root, "cache")}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAPartIsBuiltOnceAndAgainWhenItsSourceChanges(t *testing.T) {
	builder := testRepository(t)
	var progress bytes.Buffer
	first, err := builder.Build(t.Context(), &progress, Pause)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(first[Pause]).CombinedOutput(); err != nil || string(said) != "one\n" {
		t.Fatalf("the built program said %q, %v", said, err)
	}
	if !strings.Contains(progress.String(), "building pause") || !strings.Contains(progress.String(), "built pause in") {
		t.Errorf("progress was %q", progress.String())
	}

	progress.Reset()
	again, err := builder.Build(t.Context(), &progress, Pause)
	if err != nil || again[Pause] != first[Pause] || progress.Len() > 0 {
		t.Fatalf("second build: %v, %v, it said %q", again, err, progress.String())
	}

	write(t, filepath.Join(builder.Root, "tools", "cluster", "pause", "main.go"), "package main\n\nfunc main() { println(\"two\") }\n")
	changed, err := builder.Build(t.Context(), &progress, Pause)
	if err != nil || changed[Pause] == first[Pause] {
		t.Fatalf("after a change: %v, %v", changed, err)
	}
	if said, err := exec.Command(changed[Pause]).CombinedOutput(); err != nil || string(said) != "two\n" {
		t.Fatalf("the changed program said %q, %v", said, err)
	}
}

func TestAFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	builder := testRepository(t)
	write(t, filepath.Join(builder.Root, "tools", "cluster", "pause", "main.go"), "package main\n\nfunc main() { undefinedThing() }\n")
	_, err := builder.Build(t.Context(), &bytes.Buffer{}, Pause)
	if err == nil || !strings.Contains(err.Error(), "undefinedThing") || !strings.Contains(err.Error(), "building pause") {
		t.Fatalf("got %v", err)
	}
	assertNoHalfBuild(t, builder)
}

func TestACancelledBuildLeavesNothing(t *testing.T) {
	builder := testRepository(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := builder.Build(ctx, &bytes.Buffer{}, Pause); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	assertNoHalfBuild(t, builder)
}

func assertNoHalfBuild(t *testing.T, builder Builder) {
	t.Helper()
	for _, pattern := range []string{"building-*", "parts/*/*"} {
		left, err := filepath.Glob(filepath.Join(builder.Cache, pattern))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestASecondBuilderWaitsForTheFirst(t *testing.T) {
	builder := testRepository(t)
	if err := os.MkdirAll(builder.Cache, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), &bytes.Buffer{}, filepath.Join(builder.Cache, "parts.lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var progress bytes.Buffer
	if _, err := builder.Build(ctx, &progress, Pause); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("built beside another builder: %v", err)
	}
	if !strings.Contains(progress.String(), "waiting for another build") {
		t.Errorf("progress was %q", progress.String())
	}
	unlock()
	if _, err := builder.Build(t.Context(), &progress, Pause); err != nil {
		t.Fatalf("after the first is done: %v", err)
	}
}

func TestAnUnknownPartIsAnError(t *testing.T) {
	if _, err := testRepository(t).Build(t.Context(), &bytes.Buffer{}, "nothing"); err == nil {
		t.Fatal("an unknown part was built")
	}
}

func TestEveryPartHasItsPins(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range catalog() {
		if _, err := part.key(root); err != nil {
			t.Errorf("%s: %v", part.Name, err)
		}
	}
}

func TestTheStampedKubernetesVersionIsThePinnedOne(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	pins, err := os.ReadFile(filepath.Join(root, "tools", "cluster", "kubernetes", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(pins), "k8s.io/kubernetes "+kubernetesVersion) {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s", kubernetesVersion)
	}
}
