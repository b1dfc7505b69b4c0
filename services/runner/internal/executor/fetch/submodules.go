package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"magosproject.io/services/runner/internal/executor/beneath"
)

// maxNesting is how deep submodules of submodules are followed.
const maxNesting = 16

// submodule is a commit of another repository that a commit has at a path.
type submodule struct {
	// path from the root of the commit, and the commit to have there.
	path, commit string
	// name, url, branch and update are what .gitmodules says of the path; all may be empty.
	name, url, branch, update string
}

// checkOutSubmodules fetches what the commit pins, each submodule with the same care as the repository itself: neither
// scripts of git nor settings of the repository take part.
func (c Checkout) checkOutSubmodules(ctx context.Context, g git, log *slog.Logger) error {
	found, err := g.submodules(ctx, c.Commit)
	if err != nil || len(found) == 0 {
		return err
	}
	if !c.Submodules {
		log.Info("submodules are left out; spec.source.recurseSubmodules is false", "submodules", len(found))
		return nil
	}
	for _, s := range found {
		switch {
		case s.update == "none":
			log.Info("the repository wants a submodule left out", "path", s.path)
			continue
		case s.url == "":
			log.Warn("a submodule is not in .gitmodules; its folder stays empty", "path", s.path, "commit", s.commit)
			continue
		}
		if err := c.checkOutSubmodule(ctx, g, s, log); err != nil {
			return err
		}
	}
	return nil
}

func (c Checkout) checkOutSubmodule(ctx context.Context, g git, s submodule, log *slog.Logger) error {
	within := append(slices.Clone(c.within), s.path)
	if len(within) > maxNesting {
		return fmt.Errorf("fetching submodule %s: %w: submodules are nested more than %d deep", strings.Join(within, " > "), ErrRefused, maxNesting)
	}
	from, err := resolveURL(c.URL, s.url)
	if err == nil {
		err = c.makeRoom(s.path)
	}
	if err == nil {
		log.Info("fetching submodule", "path", path.Join(within...), "commit", s.commit, "from", redact(from))
		err = Checkout{
			URL: from, Commit: s.commit, Ref: s.branch, Into: filepath.Join(c.Into, s.path), Scratch: c.Scratch + ".sub",
			Submodules: true, Access: c.Access, Env: c.Env, Mask: c.Mask, within: within,
		}.checkOut(ctx, g.group, log)
	}
	if err != nil {
		return fmt.Errorf("submodule %s: %w", s.path, err)
	}
	return nil
}

// makeRoom removes the empty folder that git leaves for a submodule, if no link leads there.
func (c Checkout) makeRoom(name string) error {
	root, err := beneath.OpenDir(c.Into)
	if err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	defer func() { _ = root.Close() }()
	place, err := root.Dir(name)
	if err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	if err := errors.Join(place.Close(), os.Remove(filepath.Join(c.Into, name))); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	return nil
}

// submodules lists what commit pins, sorted by path.
func (g git) submodules(ctx context.Context, commit string) ([]submodule, error) {
	listing, err := g.run(ctx, "ls-tree", "-r", "-z", commit)
	if err != nil {
		return nil, err
	}
	var found []submodule
	for entry := range strings.SplitSeq(listing, "\x00") {
		what, name, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(what); len(fields) == 3 && fields[0] == "160000" {
			found = append(found, submodule{path: name, commit: fields[2]})
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	declared, err := g.declaredSubmodules(ctx, commit)
	if err != nil {
		return nil, err
	}
	for i, s := range found {
		at := slices.IndexFunc(declared, func(d submodule) bool { return path.Clean(d.path) == s.path })
		if at >= 0 {
			commit := s.commit
			found[i] = declared[at]
			found[i].path, found[i].commit = s.path, commit
		}
	}
	return found, nil
}

// declaredSubmodules reads .gitmodules as git does, from the commit and not from files: what it includes is not read.
func (g git) declaredSubmodules(ctx context.Context, commit string) ([]submodule, error) {
	blob := commit + ":.gitmodules"
	if _, err := g.run(ctx, "cat-file", "-e", blob); err != nil {
		return nil, ctx.Err()
	}
	listing, err := g.run(ctx, "config", "--no-includes", "--blob="+blob, "-z", "--list")
	if err != nil {
		return nil, fmt.Errorf("reading .gitmodules: %w", err)
	}
	var declared []submodule
	for entry := range strings.SplitSeq(listing, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		rest, ours := strings.CutPrefix(key, "submodule.")
		dot := strings.LastIndexByte(rest, '.')
		if !ours || dot < 0 {
			continue
		}
		name := rest[:dot]
		at := slices.IndexFunc(declared, func(d submodule) bool { return d.name == name })
		if at < 0 {
			at, declared = len(declared), append(declared, submodule{name: name})
		}
		declared[at].set(rest[dot+1:], value)
	}
	return declared, nil
}

func (s *submodule) set(key, value string) {
	switch key {
	case "path":
		s.path = value
	case "url":
		s.url = value
	case "update":
		s.update = value
	case "branch":
		// "." means the branch of the repository around it, which is no help here.
		if value != "." {
			s.branch = value
		}
	}
}

// resolveURL returns the URL of a submodule as git does: one that begins with ./ or ../ is relative to the URL of the
// repository around it.
func resolveURL(base, name string) (string, error) {
	if !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") {
		return name, nil
	}
	fixed, way := "", strings.TrimRight(base, "/")
	if scheme := withScheme.FindString(way); scheme != "" {
		rest := way[len(scheme):]
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return "", fmt.Errorf("resolving %q: %w: %s has no path", name, ErrRefused, redact(base))
		}
		fixed, way = scheme+rest[:slash+1], rest[slash+1:]
	} else if host := scpHost.FindString(way); host != "" {
		fixed, way = host, way[len(host):]
	}
	rooted := strings.HasPrefix(way, "/")
	parts := strings.FieldsFunc(way, func(r rune) bool { return r == '/' })
	for step := range strings.SplitSeq(strings.TrimRight(name, "/"), "/") {
		switch step {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return "", fmt.Errorf("resolving %q: %w: it leads out of %s", name, ErrRefused, redact(base))
			}
			parts = parts[:len(parts)-1]
		default:
			parts = append(parts, step)
		}
	}
	way = strings.Join(parts, "/")
	if rooted {
		way = "/" + way
	}
	return fixed + way, nil
}

// HostOf returns the host of a repository URL for messages, without user and port; the URL itself where it has none.
func HostOf(repository string) string {
	if withScheme.MatchString(repository) {
		if u, err := url.Parse(repository); err == nil {
			return u.Hostname()
		}
	}
	if found := scpLike.FindStringSubmatch(repository); found != nil {
		return found[2]
	}
	return redact(repository)
}
