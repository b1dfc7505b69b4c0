package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func testSpec(t *testing.T) Spec {
	t.Helper()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Ref: "magos.local/thing:dev", Entrypoint: []string{"/bin/thing"}, User: "65532:65532",
		Env: []string{"HOME=/home"}, Labels: map[string]string{"who": "us"}, WorkingDir: "/home",
		Files: []File{
			{Path: "/home", Dir: true, Mode: 0o700, UID: 65532, GID: 65532},
			{Path: "/bin/thing", Source: source},
			{Path: "/etc/passwd", Bytes: []byte("magos:x:65532:65532::/home:\n")},
			{Path: "/tmp", Dir: true, Mode: 0o777 | os.ModeSticky},
		},
		Symlinks: map[string]string{"/bin/sh": "thing"},
	}
}

func TestAnImageHoldsWhatItsSpecSays(t *testing.T) {
	spec := testSpec(t)
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := Build(spec, path); err != nil {
		t.Fatal(err)
	}
	built, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != spec.User || config.Config.Entrypoint[0] != "/bin/thing" || config.Config.Env[0] != "HOME=/home" ||
		config.Config.Labels["who"] != "us" || config.Config.WorkingDir != "/home" {
		t.Errorf("configuration is %+v", config.Config)
	}
	layers, err := built.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		kind     byte
		mode     int64
		uid      int
		linkname string
		content  string
	}
	got := map[string]entry{}
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.After(time.Unix(0, 0)) {
			t.Errorf("%s carries a time", header.Name)
		}
		if _, twice := got[header.Name]; twice {
			t.Errorf("%s is there twice", header.Name)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = entry{header.Typeflag, header.Mode, header.Uid, header.Linkname, string(text)}
	}
	want := map[string]entry{
		"bin/":       {tar.TypeDir, 0o755, 0, "", ""},
		"bin/thing":  {tar.TypeReg, 0o755, 0, "", "binary"},
		"bin/sh":     {tar.TypeSymlink, 0o777, 0, "thing", ""},
		"etc/":       {tar.TypeDir, 0o755, 0, "", ""},
		"etc/passwd": {tar.TypeReg, 0o644, 0, "", "magos:x:65532:65532::/home:\n"},
		"home/":      {tar.TypeDir, 0o700, 65532, "", ""},
		"tmp/":       {tar.TypeDir, 0o1777, 0, "", ""},
	}
	for name, expected := range want {
		if got[name] != expected {
			t.Errorf("%s is %+v, want %+v", name, got[name], expected)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d entries, want %d: %v", len(got), len(want), got)
	}
}

func TestTheContentTagFollowsTheContentAlone(t *testing.T) {
	spec := testSpec(t)
	first, err := ContentTag(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Ref = "magos.local/thing:other"
	spec.Files[0], spec.Files[1] = spec.Files[1], spec.Files[0]
	if same, err := ContentTag(spec); err != nil || same != first {
		t.Errorf("another reference or order gave %s, not %s (%v)", same, first, err)
	}
	spec.User = "1:1"
	if other, err := ContentTag(spec); err != nil || other == first {
		t.Errorf("another user gave the same tag (%v)", err)
	}
}

func TestPathsThatLeaveTheImageAreRefused(t *testing.T) {
	for _, path := range []string{"relative", "/a/../../b", "/a//b", "/a/"} {
		if _, err := Render(Spec{Ref: "magos.local/a:b", Files: []File{{Path: path}}}); err == nil {
			t.Errorf("path %q was taken", path)
		}
	}
}

func TestAFailedBuildLeavesNoFile(t *testing.T) {
	folder := t.TempDir()
	spec := Spec{Ref: "magos.local/a:b", Files: []File{{Path: "/a", Source: filepath.Join(folder, "missing")}}}
	if err := Build(spec, filepath.Join(folder, "image.tar")); err == nil {
		t.Fatal("a missing source was no error")
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
