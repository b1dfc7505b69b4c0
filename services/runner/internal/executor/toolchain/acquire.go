// Package toolchain finds the exact version of terraform or tofu that a run declares: in the run image, on the
// Workspace's volume, on a mirror, or on the official site, and proves what it downloads by the release's checksums.
package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrUnavailable is wrapped by every error of Acquire: the message names all places that were tried.
var ErrUnavailable = errors.New("the tool is not to be had")

// Engine is a tool and how its releases are laid out.
type Engine struct {
	// Folder on volumes and mirrors, Binary, and the prefix of the files of a release.
	Folder, Binary, Prefix string
}

// Engines that runs may declare.
var (
	Terraform = Engine{Folder: "terraform", Binary: "terraform", Prefix: "terraform"}
	OpenTofu  = Engine{Folder: "opentofu", Binary: "tofu", Prefix: "tofu"}
)

// ByName returns the Engine that a Workspace calls name.
func ByName(name string) (Engine, error) {
	switch name {
	case "Terraform":
		return Terraform, nil
	case "OpenTofu":
		return OpenTofu, nil
	}
	return Engine{}, fmt.Errorf("engine %q: want Terraform or OpenTofu", name)
}

// Source says where tools may come from.
type Source struct {
	// Image and Volume are folders with <engine>/<version>/<binary>; only Volume is written to.
	Image, Volume string
	// Mirror is a folder or an http(s) URL with <engine>/<version>/<zip and SHA256SUMS>; may be empty.
	Mirror string
	// Sites are asked at last, by the engine's Folder; none where it is nil.
	Sites map[string]Site
	// OS and Arch of the machine, as Go calls them.
	OS, Arch string
	// Client for mirror and site.
	Client *http.Client
	Log    *slog.Logger
}

// Tool is a binary that is proven to be the declared one.
type Tool struct {
	// Path of the binary and the SHA-256 of its content.
	Path, SHA256 string
}

// Acquire returns the tool of the exact version, which it downloads onto the volume if it is nowhere else.
func (s Source) Acquire(ctx context.Context, engine Engine, version string) (Tool, error) {
	if version == "" || strings.ContainsAny(version, "/\\ \x00") || strings.HasPrefix(version, ".") {
		return Tool{}, fmt.Errorf("%w: %q is no version", ErrUnavailable, version)
	}
	var tried []string
	note := func(place string, err error) { tried = append(tried, fmt.Sprintf("%s: %v", place, err)) }

	inImage := filepath.Join(s.Image, engine.Folder, version, engine.Binary)
	tool, err := inspect(inImage)
	if err == nil {
		return tool, nil
	}
	note("run image "+inImage, err)

	onVolume := filepath.Join(s.Volume, engine.Folder, version, engine.Binary)
	tool, err = verified(onVolume)
	if err == nil {
		return tool, nil
	}
	note("volume "+onVolume, err)

	for _, r := range s.releases(engine, version) {
		s.Log.Info("downloading the tool", "from", r.url)
		err := s.install(ctx, r, engine, version, onVolume)
		if err == nil {
			return verified(onVolume)
		}
		if ctx.Err() != nil {
			return Tool{}, err
		}
		note(r.url, err)
	}
	return Tool{}, fmt.Errorf("%w: %s %s for %s_%s; tried %s%s", ErrUnavailable, engine.Folder, version, s.OS, s.Arch,
		strings.Join(tried, "; "), s.knownVersions(engine))
}

func (s Source) releases(engine Engine, version string) []release {
	var releases []release
	if s.Mirror != "" {
		releases = append(releases, release{url: strings.TrimRight(s.Mirror, "/") + "/" + engine.Folder + "/" + version})
	}
	if site, known := s.Sites[engine.Folder]; known {
		releases = append(releases, release{url: site.Release(version), site: &site})
	}
	return releases
}

// knownVersions lists what the folders hold, so that a typing error is seen at once.
func (s Source) knownVersions(engine Engine) string {
	var known []string
	folders := []string{s.Image, s.Volume}
	if strings.HasPrefix(s.Mirror, "/") {
		folders = append(folders, s.Mirror)
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(filepath.Join(folder, engine.Folder))
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
				known = append(known, entry.Name())
			}
		}
	}
	if len(known) == 0 {
		return ""
	}
	slices.Sort(known)
	return "; versions at hand: " + strings.Join(slices.Compact(known), ", ")
}

const sumSuffix = ".sha256"

// verified returns the tool on the volume if it is still what was installed.
func verified(binary string) (Tool, error) {
	tool, err := inspect(binary)
	if err != nil {
		return Tool{}, err
	}
	want, err := os.ReadFile(binary + sumSuffix)
	if err != nil {
		return Tool{}, fmt.Errorf("reading its checksum: %w", err)
	}
	if tool.SHA256 != strings.TrimSpace(string(want)) {
		return Tool{}, fmt.Errorf("its checksum is %s, want %s", tool.SHA256, strings.TrimSpace(string(want)))
	}
	return tool, nil
}

func inspect(binary string) (Tool, error) {
	info, err := os.Stat(binary)
	if errors.Is(err, fs.ErrNotExist) {
		return Tool{}, errors.New("not there")
	}
	if err != nil {
		return Tool{}, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return Tool{}, errors.New("no executable file")
	}
	sum, err := Checksum(binary)
	if err != nil {
		return Tool{}, err
	}
	return Tool{Path: binary, SHA256: sum}, nil
}

// Checksum returns the SHA-256 of a file in hexadecimal digits.
func Checksum(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("hashing: %w", err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("hashing %s: %w", name, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
