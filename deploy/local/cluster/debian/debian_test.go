package debian

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMissingNamesEachPackageOnce(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "there")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	got := Missing([]Requirement{
		{Package: "present", Program: "there"},
		{Package: "present-file", File: program},
		{Package: "absent", Program: "one"},
		{Package: "absent", Program: "two"},
		{Package: "absent-file", File: filepath.Join(folder, "nothing")},
	})
	if !slices.Equal(got, []string{"absent", "absent-file"}) {
		t.Fatalf("got %v", got)
	}
}

func TestWithoutAptTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Ensure(t.Context(), &bytes.Buffer{}, []Requirement{{Package: "containerd", Program: "containerd"}})
	if err == nil || !strings.Contains(err.Error(), "no apt-get") || !strings.Contains(err.Error(), "containerd") {
		t.Fatalf("got %v", err)
	}
}

// fakeApt stands for apt-get, which must not change the machine that tests run on.
func fakeApt(t *testing.T, script string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "apt-get"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	return folder
}

func TestMissingPackagesAreInstalledAfterAnUpdate(t *testing.T) {
	folder := fakeApt(t, "echo \"$@\" >>\"${0%/*}/calls\"\ncase \"$*\" in *install*) : >\"${0%/*}/installed\";; esac\n")
	var progress bytes.Buffer
	err := Ensure(t.Context(), &progress, []Requirement{{Package: "thing", File: filepath.Join(folder, "installed")}})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(filepath.Join(folder, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(calls)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "update") || !strings.Contains(lines[1], "install -y") || !strings.HasSuffix(lines[1], "thing") {
		t.Errorf("apt-get was called with %q", lines)
	}
	if !strings.Contains(progress.String(), "installing Debian packages: thing") {
		t.Errorf("progress was %q", progress.String())
	}
}

func TestAFailingAptIsQuoted(t *testing.T) {
	fakeApt(t, "echo 'E: Unable to locate package thing'; exit 100\n")
	err := Ensure(t.Context(), &bytes.Buffer{}, []Requirement{{Package: "thing", Program: "thing"}})
	if err == nil || !strings.Contains(err.Error(), "Unable to locate package thing") {
		t.Fatalf("got %v", err)
	}
}
