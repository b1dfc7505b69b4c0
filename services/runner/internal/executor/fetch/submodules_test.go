package fetch

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/executor/gittest"
)

// fileIn returns the content of a file of a checkout, or its absence.
func fileIn(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "absent"
	}
	return string(data)
}

func TestSubmodulesComeAtTheirPinnedCommitsFromWhereTheyAre(t *testing.T) {
	here, there := gittest.NewServer(t), gittest.NewServer(t)
	deep := here.Repo("deep", `echo deep >f; git add .; git commit -qm 1`)
	inner := here.Repo("inner", `echo old >f; git add .; git commit -qm 1
		git -c protocol.allow=always submodule --quiet add ../../deep/.git nested/deep 2>/dev/null || git submodule add `+deep.URL+` nested/deep
		git config -f .gitmodules submodule.nested/deep.url ../../deep/.git; git add .; git commit -qm 2`)
	far := there.Repo("far", `echo far >f; git add .; git commit -qm 1`)
	outer := here.Repo("outer", `
		git submodule --quiet add `+inner.URL+` mods/inner; git config -f .gitmodules submodule.mods/inner.url ../../inner/.git
		git submodule --quiet add `+far.URL+` "far away/ü"
		git add .; git commit -qm 1`)
	pinned := inner.Rev("main")
	inner.Run(`echo new >f; git add .; git commit -qm 3`)

	dir, err := checkout(t, outer.URL, outer.Rev("main"), "main")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"mods/inner/f": "old\n", "mods/inner/nested/deep/f": "deep\n", "far away/ü/f": "far\n"} {
		if got := fileIn(dir, name); got != want {
			t.Errorf("%s holds %q, want %q (the pinned commit is %s)", name, got, want, pinned)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "mods", "inner", ".git")); len(found) > 0 {
		t.Errorf("git's own data is in the checkout: %v", found)
	}
}

func TestSubmodulesThatAreNotWantedOrNotDeclaredLeaveEmptyFolders(t *testing.T) {
	s := gittest.NewServer(t)
	inner := s.Repo("inner", `echo x >f; git add .; git commit -qm 1`)
	outer := s.Repo("outer", `
		git submodule --quiet add `+inner.URL+` plain; git submodule --quiet add `+inner.URL+` none
		git config -f .gitmodules submodule.none.update none; git add .; git commit -qm 1; git tag declared
		git rm -q --cached .gitmodules; git commit -qm 2`)
	dir, err := checkout(t, outer.URL, outer.Rev("declared"), "main")
	if err != nil || fileIn(dir, "plain/f") != "x\n" || fileIn(dir, "none/f") != "absent" {
		t.Errorf("%v; plain %q, none %q", err, fileIn(dir, "plain/f"), fileIn(dir, "none/f"))
	}
	dir, err = checkout(t, outer.URL, outer.Rev("main"), "main")
	if err != nil || fileIn(dir, "plain/f") != "absent" {
		t.Errorf("without .gitmodules: %v; plain %q", err, fileIn(dir, "plain/f"))
	}
	folder := t.TempDir()
	off := Checkout{URL: outer.URL, Commit: outer.Rev("declared"), Into: filepath.Join(folder, "source"), Scratch: filepath.Join(folder, "git"),
		Env: Environment([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}, Access{})}
	if err := off.Run(t.Context(), group, slog.New(slog.DiscardHandler)); err != nil || fileIn(off.Into, "plain/f") != "absent" {
		t.Errorf("left out: %v; plain %q", err, fileIn(off.Into, "plain/f"))
	}
}

// C73 and GHSA cases of submodules: what .gitmodules says is somebody else's text.
func TestHostileSubmodulesAreRefused(t *testing.T) {
	s := gittest.NewServer(t)
	mark := filepath.Join(t.TempDir(), "ran")
	inner := s.Repo("inner", `echo x >f; git add .; git commit -qm 1`)
	commit := inner.Rev("main")
	gitlink := func(url, more string) string {
		return `mkdir -p keep; echo x >keep/f
			git config -f .gitmodules submodule.m.path m; git config -f .gitmodules submodule.m.url '` + url + `'; ` + more + `
			git add .; git update-index --add --cacheinfo 160000,` + commit + `,m; git commit -qm 1`
	}
	for name, c := range map[string]struct{ script, says string }{
		"a program":             {gitlink("ext::sh -c touch% "+mark, ""), "m"},
		"an option":             {gitlink("--upload-pack=touch "+mark, ""), "m"},
		"a folder of the node":  {gitlink(inner.Dir, ""), "no plain repository URL"},
		"a file URL":            {gitlink("file://"+inner.Dir, ""), "not file"},
		"out of the host":       {gitlink("../../../../../x", ""), "leads out"},
		"a link":                {gitlink(inner.URL, `ln -s keep n; git config -f .gitmodules submodule.m.path n;`), ""},
		"included":              {gitlink("relative", `printf '[include]\n\tpath = /etc/passwd\n' >>.gitmodules;`), "no plain"},
		"a commit that is gone": {strings.ReplaceAll(gitlink(inner.URL, ""), commit, strings.Repeat("1", 40)), strings.Repeat("1", 40)},
	} {
		t.Run(name, func(t *testing.T) {
			outer := gittest.NewServer(t).Repo("outer", c.script)
			dir, err := checkout(t, outer.URL, outer.Rev("main"), "main")
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "submodule m")) {
				t.Errorf("%v; want submodule m and %q", err, c.says)
			}
			if got := fileIn(dir, "keep/f"); got != "x\n" {
				t.Errorf("keep/f holds %q", got)
			}
			if err != nil && strings.Contains(err.Error(), "root:") {
				t.Errorf("a file of the node was read: %v", err)
			}
		})
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("something ran: %v", err)
	}
}

func TestSubmoduleURLsAreRelativeToTheRepositoryAsInGit(t *testing.T) {
	for name, c := range map[string]struct{ base, url, want string }{
		"sibling":          {"https://h/org/repo.git", "../other.git", "https://h/org/other.git"},
		"trailing slash":   {"https://h/org/repo/", "../other", "https://h/org/other"},
		"below":            {"https://h/org/repo", "./sub", "https://h/org/repo/sub"},
		"two up":           {"https://h:8443/a/b/c", "../../x/y", "https://h:8443/a/x/y"},
		"scp":              {"git@h:org/repo.git", "../other.git", "git@h:org/other.git"},
		"scp, top":         {"git@h:repo.git", "../other.git", "git@h:other.git"},
		"scp, rooted":      {"git@h:/org/repo.git", "../other.git", "git@h:/org/other.git"},
		"ssh":              {"ssh://git@h:2222/org/repo", "../o", "ssh://git@h:2222/org/o"},
		"absolute":         {"https://h/org/repo", "https://else/x", "https://else/x"},
		"out":              {"https://h/repo", "../../x", ""},
		"out of a host":    {"git@h:repo", "../../x", ""},
		"nothing relative": {"https://h/org/repo", "other", "other"},
	} {
		got, err := resolveURL(c.base, c.url)
		if got != c.want || (err != nil) != (c.want == "") || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}
