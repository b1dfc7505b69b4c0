package toolchain

import (
	"archive/zip"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const content = "#!/bin/sh\necho a tool\n"

// mirror lays out one release of tofu 1.2.3 for linux_amd64.
func mirror(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	release := filepath.Join(root, "opentofu", "1.2.3")
	archive := filepath.Join(release, "tofu_1.2.3_linux_amd64.zip")
	must(t, os.MkdirAll(release, 0o755))
	file, err := os.Create(archive)
	must(t, err)
	packed := zip.NewWriter(file)
	for name, text := range map[string]string{"LICENSE": "x", "tofu": content} {
		w, err := packed.Create(name)
		must(t, err)
		_, err = w.Write([]byte(text))
		must(t, err)
	}
	must(t, packed.Close())
	must(t, file.Close())
	sum, err := Checksum(archive)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(release, "tofu_1.2.3_SHA256SUMS"), []byte(fmt.Sprintf(
		"%s  tofu_1.2.3_linux_amd64.zip\n%s  tofu_1.2.3_windows_386.zip\n", sum, strings.Repeat("0", 64))), 0o600))
	return root
}

func source(t *testing.T, mirror string) Source {
	t.Helper()
	return Source{Image: t.TempDir(), Volume: t.TempDir(), Mirror: mirror, OS: "linux", Arch: "amd64",
		Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler)}
}

func TestAToolIsInstalledOnceFromAMirror(t *testing.T) {
	folder := mirror(t)
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.FileServer(http.Dir(folder)).ServeHTTP(w, r)
	}))
	defer server.Close()
	for name, place := range map[string]string{"folder": folder, "http": server.URL + "/"} {
		s := source(t, place)
		tool, err := s.Acquire(t.Context(), OpenTofu, "1.2.3")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := os.ReadFile(tool.Path); err != nil || string(got) != content {
			t.Errorf("%s: the tool is %q, %v", name, got, err)
		}
		if tool.Path != filepath.Join(s.Volume, "opentofu", "1.2.3", "tofu") {
			t.Errorf("%s: the tool is at %s", name, tool.Path)
		}
		before := requests
		if again, err := s.Acquire(t.Context(), OpenTofu, "1.2.3"); err != nil || again != tool || requests != before {
			t.Errorf("%s: the second time: %v, %v, %d requests", name, again, err, requests-before)
		}
		if left, _ := filepath.Glob(filepath.Join(s.Volume, "opentofu", ".install-*")); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func TestTheImageComesFirst(t *testing.T) {
	s := source(t, "")
	want := filepath.Join(s.Image, "terraform", "1.5.7", "terraform")
	must(t, os.MkdirAll(filepath.Dir(want), 0o755))
	must(t, os.WriteFile(want, []byte(content), 0o755))
	tool, err := s.Acquire(t.Context(), Terraform, "1.5.7")
	if err != nil || tool.Path != want {
		t.Errorf("%+v, %v", tool, err)
	}
}

func TestADamagedToolOnTheVolumeIsReplaced(t *testing.T) {
	s := source(t, mirror(t))
	tool, err := s.Acquire(t.Context(), OpenTofu, "1.2.3")
	must(t, err)
	must(t, os.WriteFile(tool.Path, []byte("#!/bin/sh\necho evil\n"), 0o755))
	again, err := s.Acquire(t.Context(), OpenTofu, "1.2.3")
	if err != nil || again != tool {
		t.Errorf("%+v, %v; want %+v", again, err, tool)
	}
}

func TestWhatIsMissingOrWrongIsSaidWithAllThatWasTried(t *testing.T) {
	damaged := mirror(t)
	zipName := filepath.Join(damaged, "opentofu", "1.2.3", "tofu_1.2.3_linux_amd64.zip")
	data, err := os.ReadFile(zipName)
	must(t, err)
	must(t, os.WriteFile(zipName, append(data, 'x'), 0o600))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()

	for name, c := range map[string]struct {
		mirror, version, arch string
		parts                 []string
	}{
		"unknown version":      {mirror(t), "1.99.0", "amd64", []string{"1.99.0", "run image", "volume", "no such release", "versions at hand: 1.2.3"}},
		"unknown to a server":  {missing.URL, "1.99.0", "amd64", []string{missing.URL + "/opentofu/1.99.0", "404"}},
		"unreachable":          {closed.URL, "1.2.3", "amd64", []string{closed.URL, "refused"}},
		"unsupported platform": {mirror(t), "1.2.3", "riscv64", []string{"nothing for linux_riscv64", "linux_amd64, windows_386"}},
		"damaged":              {damaged, "1.2.3", "amd64", []string{"checksum of tofu_1.2.3_linux_amd64.zip is", "SHA256SUMS says"}},
		"no version":           {"", "", "amd64", []string{"no version"}},
		"a path":               {"", "../../x", "amd64", []string{"no version"}},
	} {
		s := source(t, c.mirror)
		s.Arch = c.arch
		_, err := s.Acquire(t.Context(), OpenTofu, c.version)
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", name, err, part)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(s.Volume, "*", "*")); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
