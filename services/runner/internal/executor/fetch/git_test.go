package fetch

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/executor/gittest"
	"magosproject.io/services/runner/internal/executor/links"
	"magosproject.io/services/runner/internal/executor/process"
)

var group = process.Own()

func checkout(t *testing.T, url, commit, ref string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	c := Checkout{URL: url, Commit: commit, Ref: ref, Into: filepath.Join(dir, "source"), Scratch: filepath.Join(dir, "git"), Submodules: true,
		Env: Environment([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Access{})}
	err := c.Run(t.Context(), group, slog.New(slog.DiscardHandler))
	if _, statErr := os.Stat(c.Scratch); !os.IsNotExist(statErr) {
		t.Errorf("git's data is left: %v", statErr)
	}
	return c.Into, err
}

func TestExactlyTheCommitIsCheckedOut(t *testing.T) {
	repo := gittest.Serve(t, `
		echo one >f; git add .; git commit -qm 1; git tag -a -m t v1
		echo two >f; git add .; git commit -qm 2
		git checkout -q -b side; echo three >f; git add .; git commit -qm 3; git checkout -q main`)
	for name, c := range map[string]struct{ commit, ref, want string }{
		"tip of the ref":            {repo.Rev("main"), "main", "two\n"},
		"behind the ref":            {repo.Rev("main~1"), "main", "one\n"},
		"by its tag":                {repo.Rev("v1"), "v1", "one\n"},
		"without a ref":             {repo.Rev("main~1"), "", "one\n"},
		"on another branch":         {repo.Rev("side"), "main", "three\n"},
		"the ref is gone by now":    {repo.Rev("main"), "gone", "two\n"},
		"the ref is the commit":     {repo.Rev("main~1"), repo.Rev("main~1"), "one\n"},
		"the ref has its full name": {repo.Rev("side"), "refs/heads/side", "three\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := checkout(t, repo.URL, c.commit, c.ref)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil || string(got) != c.want {
				t.Errorf("f holds %q, %v; want %q", got, err, c.want)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("the checkout has %v", entries)
			}
		})
	}
	if _, err := checkout(t, repo.URL, strings.Repeat("0", 40), "main"); err == nil || !strings.Contains(err.Error(), strings.Repeat("0", 40)) {
		t.Errorf("a commit that does not exist: %v", err)
	}
}

func TestWhatARepositoryNamesDoesNotRun(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	repo := gittest.Serve(t, `
		printf '* filter=evil\n' >.gitattributes; printf '[filter "evil"]\n\tsmudge = touch `+mark+`\n' >.gitconfig
		mkdir hooks; printf '#!/bin/sh\ntouch `+mark+`\n' >hooks/post-checkout; chmod +x hooks/post-checkout
		git add .; git commit -qm 1`)
	if _, err := checkout(t, repo.URL, repo.Rev("main"), "main"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("something ran: %v", err)
	}
}

func TestURLsThatAreNotPlainAreRefused(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	local := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", local).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, url := range []string{
		"--upload-pack=touch " + mark, "ext::sh -c touch% " + mark, "fd::3", "file://" + local, local, "",
		"https://host/\nx",
	} {
		if _, err := checkout(t, url, strings.Repeat("a", 40), "main"); err == nil {
			t.Errorf("%q was fetched", url)
		}
	}
	for _, commit := range []string{"main", "--output=x", "abc", strings.Repeat("A", 40)} {
		if _, err := checkout(t, "https://localhost/", commit, ""); !errors.Is(err, ErrRefused) {
			t.Errorf("commit %q: %v", commit, err)
		}
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("something ran: %v", err)
	}
}

func TestALinkThatLeavesTheCheckoutIsRefusedByName(t *testing.T) {
	repo := gittest.Serve(t, `
		mkdir a; echo x >a/main.tf; ln -s a harmless; git add .; git commit -qm 1; git tag good
		ln -s /etc/passwd a/secret.tf; git add .; git commit -qm 2`)
	if _, err := checkout(t, repo.URL, repo.Rev("good"), "main"); err != nil {
		t.Errorf("a harmless link: %v", err)
	}
	_, err := checkout(t, repo.URL, repo.Rev("main"), "main")
	if !errors.Is(err, links.ErrLeaves) || !strings.Contains(err.Error(), "a/secret.tf -> /etc/passwd") {
		t.Errorf("a link that leaves: %v", err)
	}
}

// Where there is no agent with credentials. With ssh's own default no host would do: it asks, and batch mode refuses.
func TestSSHAsksNothingAndTakesUnknownHosts(t *testing.T) {
	var command string
	for _, variable := range Environment(nil, Access{}) {
		if value, found := strings.CutPrefix(variable, "GIT_SSH_COMMAND="); found {
			command = value
		}
	}
	for _, option := range []string{"BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=" + os.DevNull, "LogLevel=ERROR"} {
		if !strings.Contains(command+" ", " -o "+option+" ") {
			t.Errorf("ssh is called as %q, without %s", command, option)
		}
	}
}
