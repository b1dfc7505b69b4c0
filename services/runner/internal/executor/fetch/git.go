// Package fetch brings a commit of a git repository into a folder, without running anything that the repository names.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"magosproject.io/services/runner/internal/executor/beneath"
	"magosproject.io/services/runner/internal/executor/links"
	"magosproject.io/services/runner/internal/executor/process"
)

// killTime is how long git may take to end after an interrupt; it leaves nothing that matters.
const killTime = 5 * time.Second

var (
	// ErrRefused is wrapped when a URL or a name is not one that git may be given.
	ErrRefused = errors.New("refused")

	fullSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// Checkout is what to fetch, and where to.
type Checkout struct {
	// URL of the repository, Commit (a full SHA) to check out, and Ref, a hint for servers that do not serve commits.
	URL, Commit, Ref string
	// Into is a folder that must not exist; it receives the files alone, no .git.
	Into string
	// Scratch is a folder that must not exist; it holds git's own data meanwhile and is removed.
	Scratch string
	// Submodules says whether they are fetched too, at the commits that are pinned.
	Submodules bool
	// Access is held against every URL, and Env is the environment for git that Environment made of it.
	Access Access
	Env    []string
	// Mask takes what must not be shown out of what git prints; may be nil.
	Mask func(string) string
	// within names the submodules that lead here, from the repository on.
	within []string
}

// Run fetches and checks out, and refuses links that leave the checkout.
func (c Checkout) Run(ctx context.Context, group *process.Group, log *slog.Logger) error {
	if err := c.checkOut(ctx, group, log); err != nil {
		return err
	}
	return c.checkLinks()
}

func (c Checkout) checkOut(ctx context.Context, group *process.Group, log *slog.Logger) error {
	if err := c.validate(); err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(c.Scratch); err != nil {
			log.Warn("removing git's data", "error", err)
		}
	}()
	g := git{checkout: c, group: group}
	if _, err := g.run(ctx, "init", "--quiet", "--bare", "--template="); err != nil {
		return err
	}
	if err := c.fetch(ctx, g, log); err != nil {
		return err
	}
	if err := os.Mkdir(c.Into, 0o750); err != nil {
		return fmt.Errorf("checking out: %w", err)
	}
	if _, err := g.run(ctx, "--work-tree="+c.Into, "checkout", "--quiet", "--force", "--detach", c.Commit); err != nil {
		return err
	}
	head, err := g.run(ctx, "rev-parse", "--verify", "HEAD")
	if err != nil {
		return err
	}
	if head != c.Commit {
		return fmt.Errorf("checking out %s: HEAD became %s", c.Commit, head)
	}
	return c.checkOutSubmodules(ctx, g, log)
}

func (c Checkout) validate() error {
	if err := c.Access.check(c.URL); err != nil {
		return err
	}
	if strings.HasPrefix(c.Ref, "-") || strings.ContainsAny(c.Ref, "\x00\n\r") {
		return fmt.Errorf("fetching %q: %w: it begins with a dash or holds control characters", c.Ref, ErrRefused)
	}
	if !fullSHA.MatchString(c.Commit) {
		return fmt.Errorf("fetching commit %q: %w: want 40 hexadecimal digits", c.Commit, ErrRefused)
	}
	return nil
}

// fetch asks for the commit itself first. Servers may serve only what a name points to, and some only whole histories.
func (c Checkout) fetch(ctx context.Context, g git, log *slog.Logger) error {
	attempts := [][]string{{"--depth=1", "--", c.URL, c.Commit}}
	if c.Ref != "" && c.Ref != c.Commit {
		attempts = append(attempts, []string{"--depth=1", "--", c.URL, c.Ref}, []string{"--", c.URL, c.Ref})
	}
	attempts = append(attempts, []string{"--", c.URL, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"})
	var problems []error
	for _, attempt := range attempts {
		_, err := g.run(ctx, append([]string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"}, attempt...)...)
		if err == nil {
			_, err = g.run(ctx, "cat-file", "-e", c.Commit+"^{commit}")
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		log.Info("the server did not give the commit this way", "asked", attempt[len(attempt)-1], "error", err)
		problems = append(problems, err)
	}
	return fmt.Errorf("fetching commit %s of %s: %w", c.Commit, redact(c.URL), problems[len(problems)-1])
}

func (c Checkout) checkLinks() error {
	root, err := beneath.OpenDir(c.Into)
	if err != nil {
		return fmt.Errorf("reading the checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := links.Check(root, c.Into, nil); err != nil {
		return fmt.Errorf("reading the checkout of %s: %w", c.Commit, err)
	}
	return nil
}

type git struct {
	checkout Checkout
	group    *process.Group
}

// run returns what git printed on its standard output.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	var stdout strings.Builder
	stderr := &process.Tail{Limit: 600}
	err := g.group.Run(ctx, process.Command{
		Path: "git", Args: append([]string{"--git-dir=" + g.checkout.Scratch}, args...),
		Dir: filepath.Dir(g.checkout.Scratch), Env: g.checkout.Env, Output: stderr, Stdout: &stdout,
	}, killTime)
	if err != nil {
		return "", fmt.Errorf("git %s: %w%s", verb(args), err, g.said(stderr))
	}
	return strings.TrimSpace(stdout.String()), nil
}

func verb(args []string) string {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}

func (g git) said(printed fmt.Stringer) string {
	text := printed.String()
	if g.checkout.Mask != nil {
		text = g.checkout.Mask(text)
	}
	if found := noHelper.FindStringSubmatch(text); found != nil {
		text += fmt.Sprintf("; the run image has no git-remote-%[1]s, which serves %[1]s:// URLs: use an image that has it", found[1])
	}
	if text != "" {
		return ": " + text
	}
	return ""
}

var noHelper = regexp.MustCompile(`'remote-([a-z0-9+.-]+)' is not a git command`)

var userinfo = regexp.MustCompile(`^([a-z+]+://)[^/@]*@`)

func redact(url string) string { return userinfo.ReplaceAllString(url, "$1") }

// DropData removes everything called .terraform or terraform.d from the checkout at dir, as nothing that a repository
// brings for the tool's own bookkeeping, or as a provider, is trusted, and every .git. It returns what it removed.
func DropData(dir string) ([]string, error) {
	var dropped []string
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() != ".terraform" && entry.Name() != "terraform.d" && !strings.EqualFold(entry.Name(), ".git") {
			return nil
		}
		dropped = append(dropped, strings.TrimPrefix(name, dir+"/"))
		if err := os.RemoveAll(name); err != nil {
			return err
		}
		if entry.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("removing the tool's data that the repository brings: %w", err)
	}
	return dropped, nil
}
