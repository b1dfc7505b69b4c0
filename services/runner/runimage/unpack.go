package runimage

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// merged are the folders that Debian keeps below /usr; older packages still name them without it.
var merged = []string{"bin", "lib", "lib64", "sbin"}

// dropped are folders and files of packages that nothing in a run reads.
var dropped = []string{
	"etc/alternatives", "etc/bash_completion.d", "etc/cron*", "etc/default", "etc/init.d", "etc/ld.so.conf.d", "etc/perl",
	"lib/systemd", "usr/lib/systemd", "usr/share/apport", "usr/share/bash-completion", "usr/share/bug", "usr/share/debconf",
	"usr/share/doc-base", "usr/share/git-core/contrib", "usr/share/gitweb", "usr/share/info", "usr/share/lintian",
	"usr/share/locale", "usr/share/man", "usr/share/menu", "usr/share/perl5", "usr/share/pixmaps", "usr/lib/git-core/mergetools",
	"usr/lib/*/audit", "usr/lib/*/gconv", "usr/sbin/update-ca-certificates", "var",
	// Written in Perl, or only of use to a person at a terminal.
	"usr/lib/git-core/git-add--interactive", "usr/lib/git-core/git-archimport", "usr/lib/git-core/git-cvs*",
	"usr/lib/git-core/git-instaweb", "usr/lib/git-core/git-send-email", "usr/lib/git-core/git-svn", "usr/bin/git-cvsserver",
	"usr/lib/openssh/ssh-keysign",
	// For serving and for pushing; a run fetches.
	"usr/bin/git-shell", "usr/lib/git-core/git-shell", "usr/lib/git-core/git-daemon", "usr/lib/git-core/git-http-backend",
	"usr/lib/git-core/git-http-push", "usr/lib/git-core/git-imap-send", "usr/bin/scalar", "usr/lib/git-core/scalar",
}

func isDropped(name string) bool {
	if strings.HasPrefix(name, "usr/share/doc/") || name == "usr/share/doc" {
		// The terms under which the files are passed on go with them.
		return path.Base(name) != "copyright"
	}
	for dir := name; dir != "."; dir = path.Dir(dir) {
		if slices.ContainsFunc(dropped, func(pattern string) bool { ok, _ := path.Match(pattern, dir); return ok }) {
			return true
		}
	}
	return false
}

// unpack lays the files of a package out below root. Owners are not kept: everything belongs to root in an image.
func unpack(ctx context.Context, archive, root string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", archive)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(archive), err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(archive), err)
	}
	err = layOut(tar.NewReader(stdout), root)
	if err != nil {
		_ = cmd.Process.Kill()
	}
	_, drainErr := io.Copy(io.Discard, stdout)
	if err := errors.Join(err, drainErr, cmd.Wait()); err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(archive), err)
	}
	return nil
}

func layOut(files *tar.Reader, root string) error {
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := inImage(header.Name)
		if name == "." || isDropped(name) {
			continue
		}
		if err := layOutOne(files, header, name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
}

func layOutOne(content io.Reader, header *tar.Header, name, target string) error {
	if header.Typeflag == tar.TypeDir {
		return nil // Folders come with what is in them.
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg:
		file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		// Neither setuid nor setgid: nothing in a run may gain rights.
		return errors.Join(err, file.Chmod(os.FileMode(header.Mode).Perm()), file.Close())
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, target)
	case tar.TypeLink:
		relative, err := filepath.Rel(path.Dir(name), inImage(header.Linkname))
		if err != nil {
			return err
		}
		return os.Symlink(relative, target)
	default:
		return fmt.Errorf("%s is neither file nor link", name)
	}
}

// inImage is a clean path without a leading slash, below /usr where Debian merged it.
func inImage(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		return "."
	}
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(merged, first) {
		return "usr/" + name
	}
	return name
}
