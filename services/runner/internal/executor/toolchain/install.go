package toolchain

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxSums    = 1 << 20
	maxArchive = 1 << 30
	maxBinary  = 2 << 30
)

var errNotThere = errors.New("no such release there")

// install downloads a release and puts its binary at target, whole or not at all.
func (s Source) install(ctx context.Context, r release, engine Engine, version, target string) error {
	sums, err := s.fetchSums(ctx, r, engine, version)
	if err != nil {
		return err
	}
	archive := fmt.Sprintf("%s_%s_%s_%s.zip", engine.Prefix, version, s.OS, s.Arch)
	want, ok := sums[archive]
	if !ok {
		return fmt.Errorf("the release has nothing for %s_%s, only for %s", s.OS, s.Arch, platforms(sums, engine, version))
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Dir(target)), 0o750); err != nil {
		return fmt.Errorf("making the tool's folder: %w", err)
	}
	staging, err := os.MkdirTemp(filepath.Dir(filepath.Dir(target)), ".install-")
	if err != nil {
		return fmt.Errorf("making the tool's folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(staging) }()

	packed := filepath.Join(staging, "archive.zip")
	if err := s.download(ctx, r.url+"/"+archive, packed); err != nil {
		return err
	}
	got, err := Checksum(packed)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("checksum of %s is %s, its SHA256SUMS says %s", archive, got, want)
	}
	folder := filepath.Join(staging, "tool")
	if err := unpack(packed, folder, engine.Binary); err != nil {
		return err
	}
	// A folder that is there holds something else than the declared tool, or it would have been used.
	if err := os.RemoveAll(filepath.Dir(target)); err != nil {
		return fmt.Errorf("replacing the tool: %w", err)
	}
	if err := os.Rename(folder, filepath.Dir(target)); err != nil {
		return fmt.Errorf("installing the tool: %w", err)
	}
	return nil
}

func (s Source) fetchSums(ctx context.Context, r release, engine Engine, version string) (map[string]string, error) {
	name := fmt.Sprintf("%s/%s_%s_SHA256SUMS", r.url, engine.Prefix, version)
	body, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxSums))
	if err != nil {
		return nil, fmt.Errorf("reading SHA256SUMS: %w", err)
	}
	if r.site != nil {
		if err := s.checkSignature(ctx, r.site, name, data); err != nil {
			return nil, err
		}
	}
	sums := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && len(fields[0]) == 64 {
			sums[strings.TrimPrefix(fields[1], "*")] = strings.ToLower(fields[0])
		}
	}
	if len(sums) == 0 {
		return nil, errors.New("its SHA256SUMS lists nothing")
	}
	return sums, nil
}

func platforms(sums map[string]string, engine Engine, version string) string {
	var found []string
	for name := range sums {
		platform, isZip := strings.CutSuffix(name, ".zip")
		platform, isTool := strings.CutPrefix(platform, engine.Prefix+"_"+version+"_")
		if isZip && isTool {
			found = append(found, platform)
		}
	}
	if len(found) == 0 {
		return "no platform at all"
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

func (s Source) download(ctx context.Context, from, to string) error {
	body, err := s.open(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return fmt.Errorf("downloading %s: %w", from, err)
	}
	n, err := io.Copy(file, io.LimitReader(body, maxArchive+1))
	if err == nil && n > maxArchive {
		err = errors.New("it is too large")
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("downloading %s: %w", from, err)
	}
	return nil
}

// open reads from a URL, or from a folder that stands for a mirror.
func (s Source) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.HasPrefix(name, "/") {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w (%s)", errNotThere, filepath.Base(name))
		}
		return file, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", name, err)
	}
	answer, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for the release: %w", err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return answer.Body, nil
	case http.StatusNotFound, http.StatusForbidden:
		err = fmt.Errorf("%w (%s: %s)", errNotThere, filepath.Base(name), answer.Status)
	default:
		err = fmt.Errorf("asking for %s: %s", name, answer.Status)
	}
	return nil, errors.Join(err, answer.Body.Close())
}

// unpack takes the binary out of the archive and writes its checksum beside it.
func unpack(archive, folder, binary string) error {
	reader, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("opening the archive: %w", err)
	}
	defer func() { _ = reader.Close() }()
	source, err := reader.Open(binary)
	if err != nil {
		return fmt.Errorf("the archive has no %s: %w", binary, err)
	}
	defer func() { _ = source.Close() }()
	if err := os.Mkdir(folder, 0o750); err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	target := filepath.Join(folder, binary)
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o750)
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	n, err := io.Copy(file, io.LimitReader(source, maxBinary+1))
	if err == nil && n > maxBinary {
		err = errors.New("it is too large")
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("unpacking %s: %w", binary, err)
	}
	sum, err := Checksum(target)
	if err != nil {
		return err
	}
	if err := os.WriteFile(target+sumSuffix, []byte(sum+"\n"), 0o640); err != nil {
		return fmt.Errorf("writing the tool's checksum: %w", err)
	}
	return nil
}
