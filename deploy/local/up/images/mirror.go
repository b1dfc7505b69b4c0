package images

import (
	"archive/zip"
	"compress/flate"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"magosproject.io/deploy/local/cluster/image"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/demo"
)

const mirrorFolder = "/mirror"

// mirrorFiles returns OpenTofu and the time provider as the files of a mirror: a release as OpenTofu publishes it, and
// what the provider network mirror protocol asks for.
func (s Sources) mirrorFiles(ctx context.Context, progress io.Writer) ([]image.File, error) {
	built, err := parts.Builder{Root: s.Root, Cache: s.Cache}.Build(ctx, progress, parts.OpenTofu, parts.ProviderTime)
	if err != nil {
		return nil, err
	}
	platform := runtime.GOOS + "_" + runtime.GOARCH
	tofu := fmt.Sprintf("tofu_%s_%s.zip", demo.OpenTofuVersion, platform)
	tofuZip, err := s.zipped(progress, built[parts.OpenTofu], "tofu", tofu)
	if err != nil {
		return nil, err
	}
	sum, err := fileSum(tofuZip)
	if err != nil {
		return nil, fmt.Errorf("hashing %s: %w", tofu, err)
	}
	provider := fmt.Sprintf("terraform-provider-time_%s_%s.zip", demo.TimeProviderVersion, platform)
	providerZip, err := s.zipped(progress, built[parts.ProviderTime], "terraform-provider-time_v"+demo.TimeProviderVersion, provider)
	if err != nil {
		return nil, err
	}
	release := mirrorFolder + "/tools/opentofu/" + demo.OpenTofuVersion
	files := []image.File{
		{Path: release + "/" + tofu, Source: tofuZip, Mode: 0o644},
		{Path: fmt.Sprintf("%s/tofu_%s_SHA256SUMS", release, demo.OpenTofuVersion), Bytes: fmt.Appendf(nil, "%s  %s\n", sum, tofu)},
	}
	for _, registry := range []string{"registry.opentofu.org", "registry.terraform.io"} {
		folder := mirrorFolder + "/providers/" + registry + "/hashicorp/time"
		files = append(files,
			image.File{Path: folder + "/index.json", Bytes: fmt.Appendf(nil, `{"versions":{%q:{}}}`, demo.TimeProviderVersion)},
			image.File{Path: folder + "/" + demo.TimeProviderVersion + ".json", Bytes: fmt.Appendf(nil, `{"archives":{%q:{"url":%q}}}`, platform, provider)},
			image.File{Path: folder + "/" + provider, Source: providerZip, Mode: 0o644},
		)
	}
	return files, nil
}

// zipped packs one program, once: the archive lies in the cache under the content of the program.
func (s Sources) zipped(progress io.Writer, program, name, archive string) (string, error) {
	sum, err := fileSum(program)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	path := filepath.Join(s.Cache, "mirror", sum[:16], archive)
	if _, err := os.Stat(path); err == nil {
		parts.Used(filepath.Dir(path))
		return path, nil
	}
	_, _ = fmt.Fprintf(progress, "packing %s\n", archive)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("making the cache: %w", err)
	}
	staging, err := os.CreateTemp(filepath.Dir(path), "packing-")
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", archive, err)
	}
	defer func() { _ = os.Remove(staging.Name()) }()
	defer func() { _ = staging.Close() }()
	if err := writeZip(staging, program, name); err != nil {
		return "", fmt.Errorf("packing %s: %w", archive, err)
	}
	if err := staging.Close(); err != nil {
		return "", fmt.Errorf("packing %s: %w", archive, err)
	}
	if err := os.Rename(staging.Name(), path); err != nil {
		return "", fmt.Errorf("packing %s: %w", archive, err)
	}
	return path, nil
}

// writeZip writes the same bytes for the same program.
func writeZip(to io.Writer, program, name string) error {
	writer := zip.NewWriter(to)
	// A local mirror: packing quickly is worth more than a smaller download.
	writer.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestSpeed) })
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)
	entry, err := writer.CreateHeader(header)
	if err != nil {
		return err
	}
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(entry, file); err != nil {
		return err
	}
	return writer.Close()
}
