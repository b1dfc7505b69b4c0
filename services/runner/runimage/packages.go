package runimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// wanted are the Debian packages that a run needs: a shell with its usual programs for provisioners, git and ssh for
// repositories and modules, and the authorities of TLS.
var wanted = []string{"ca-certificates", "coreutils", "dash", "git", "grep", "openssh-client", "sed"}

// omitted are packages that the wanted ones depend on for installing, documenting or configuring themselves, which does
// not happen here, or for parts of git that are written in Perl. Assemble proves that no library is missed.
var omitted = []string{
	"adduser", "cdebconf", "debconf", "debianutils", "dpkg", "gcc-12-base", "git-man", "install-info", "libaudit-common",
	"libaudit1", "libbz2-1.0", "libcap-ng0", "libdb5.3", "libdebian-installer4", "liberror-perl", "libgdbm-compat4", "libgdbm6",
	"libnewt0.52", "libpam-modules", "libpam-modules-bin", "libpam0g", "libperl5.36", "libreadline8", "libsasl2-modules-db",
	"libsemanage-common", "libsemanage2", "libsepol2", "libslang2", "libtextwrap1", "libcrypt1", "openssl", "passwd", "perl",
	"perl-base", "perl-modules-5.36", "readline-common", "tar",
}

// archive is a package as apt would download it.
type archive struct {
	// file is the name it gets, checksum is what apt proves it by.
	file, checksum string
}

// closure returns the packages to unpack: the wanted ones and what they need to run.
func closure(ctx context.Context) ([]string, error) {
	args := []string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}
	out, err := run(ctx, "", "apt-cache", append(args, wanted...)...)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(out) {
		name := strings.TrimSpace(line)
		// Dependencies are indented, and virtual packages stand in angle brackets.
		if line == "" || line[0] == ' ' || line[0] == '<' || line[0] == '|' || slices.Contains(omitted, name) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("apt knows no package %s", name)
		}
	}
	return names, nil
}

// resolve asks apt which versions of the packages it would download.
func resolve(ctx context.Context, names []string) ([]archive, error) {
	out, err := run(ctx, "", "apt-get", append([]string{"download", "--print-uris"}, names...)...)
	if err != nil {
		return nil, err
	}
	var archives []archive
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 4 || !strings.HasPrefix(fields[0], "'") {
			continue
		}
		file, err := url.PathUnescape(path.Base(fields[1]))
		if err != nil {
			return nil, fmt.Errorf("reading what apt would download: %w", err)
		}
		archives = append(archives, archive{file: strings.ReplaceAll(file, ":", "%3a"), checksum: fields[3]})
	}
	if len(archives) != len(names) {
		return nil, fmt.Errorf("apt would download %d packages, want %d: %s", len(archives), len(names), strings.Join(names, " "))
	}
	slices.SortFunc(archives, func(a, b archive) int { return strings.Compare(a.file, b.file) })
	return archives, nil
}

// download puts the packages into folder; apt proves them. Those that are there already cost nothing.
func download(ctx context.Context, folder string, names []string, archives []archive) error {
	missing := false
	for _, a := range archives {
		if _, err := os.Stat(filepath.Join(folder, a.file)); err != nil {
			missing = true
		}
	}
	if !missing {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("downloading packages: %w", err)
	}
	_, err := run(ctx, folder, "apt-get", append([]string{"download", "-q"}, names...)...)
	return err
}

// withFreshLists repeats step once after apt has updated its lists, where they are missing or name what is gone.
func withFreshLists(ctx context.Context, progress func(string), step func() error) error {
	first := step()
	if first == nil || ctx.Err() != nil {
		return first
	}
	progress("updating apt's lists")
	if _, err := run(ctx, "", "apt-get", "update", "-q"); err != nil {
		return errors.Join(first, err)
	}
	return step()
}

func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running %s %s: %w\n%s", program, args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
