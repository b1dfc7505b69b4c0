package images

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"magosproject.io/deploy/local/cluster/image"
)

func testImage(t *testing.T, name, content string) Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	made, err := newImage(name, image.Spec{Entrypoint: []string{"/program"}, User: nonroot, Files: []image.File{{Path: "/program", Source: file}}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestATagNamesTheContentAndNotThePlace(t *testing.T) {
	first, same, other := testImage(t, "x", "one"), testImage(t, "x", "one"), testImage(t, "x", "two")
	if first.Ref() != same.Ref() {
		t.Errorf("the same content has two names: %s and %s", first.Ref(), same.Ref())
	}
	if first.Ref() == other.Ref() {
		t.Errorf("two contents have the name %s", first.Ref())
	}
	asRoot := first.Spec
	asRoot.User = "0:0"
	if changed, err := newImage("x", asRoot); err != nil || changed.Ref() == first.Ref() {
		t.Errorf("another user has the same name %s (%v)", changed.Ref(), err)
	}
}

// target records what it is given.
type target struct {
	has    []string
	loaded int
	fault  error
}

func (g *target) HasImage(_ context.Context, ref string) (bool, error) {
	return slices.Contains(g.has, ref), g.fault
}

func (g *target) LoadImage(_ context.Context, path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	g.loaded++
	return nil
}

func TestOnlyMissingImagesAreLoaded(t *testing.T) {
	there, missing := testImage(t, "there", "one"), testImage(t, "missing", "two")
	g := &target{has: []string{there.Ref()}}
	var progress bytes.Buffer
	if err := Load(t.Context(), g, map[string]Image{"there": there, "missing": missing}, &progress); err != nil {
		t.Fatal(err)
	}
	if g.loaded != 1 || !strings.Contains(progress.String(), missing.Ref()) || strings.Contains(progress.String(), there.Ref()) {
		t.Errorf("%d images were loaded, want the missing one alone; it says %q", g.loaded, progress.String())
	}
	g.fault = errors.New("no answer")
	if err := Load(t.Context(), g, map[string]Image{"missing": missing}, &progress); !errors.Is(err, g.fault) {
		t.Errorf("a cluster that does not answer gives %v", err)
	}
}

func TestARegistryGetsWhatItDoesNotHave(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://") + "/team/"
	images := map[string]Image{"a": testImage(t, "a", "one"), "b": testImage(t, "b", "two")}
	var first, second bytes.Buffer
	pushed, err := Push(t.Context(), address, images, &first)
	if err != nil {
		t.Fatal(err)
	}
	if ref := pushed["a"].Ref(); !strings.HasPrefix(ref, address+"a:") {
		t.Errorf("the image is called %s", ref)
	}
	if strings.Count(first.String(), "pushed image") != 2 {
		t.Errorf("the first time says %q", first.String())
	}
	if _, err := Push(t.Context(), address, images, &second); err != nil || second.Len() > 0 {
		t.Errorf("the second time says %q (%v), want nothing", second.String(), err)
	}
}

func TestAnArchiveIsTheSameEachTime(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := writeZip(out, program, "tofu"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one program differ")
	}
}
