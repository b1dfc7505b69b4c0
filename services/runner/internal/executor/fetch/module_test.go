package fetch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"infra/dev", ".infra/dev", "with space/ü", "common", "infra/.terraform/providers", ".terraform", "infra/terraform.d/plugins"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"main.tf", "infra/.terraform/x", "common/.GIT"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"infra/link": "../common", "infra/out": "../.."} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSpellingsOfAModulePath(t *testing.T) {
	root := tree(t)
	for name, want := range map[string]string{
		"infra/dev/": "infra/dev", "./infra/dev": "infra/dev", "/infra/dev": "infra/dev", "infra//dev": "infra/dev",
		".infra/dev": ".infra/dev", "infra/../infra/dev": "infra/dev", "": ".", ".": ".", "with space/ü": "with space/ü",
		"infra/link": "common",
		"..":         "", "../x": "", "infra/../../x": "", "Infra/Dev": "", "main.tf": "", "infra/out": "", "infra/nope/deep": "",
	} {
		got, err := Folder(root, name, "abc")
		if got != want || (err != nil) != (want == "") {
			t.Errorf("Folder(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestAMissingPathNamesCommitAndNearestFolder(t *testing.T) {
	_, err := Folder(tree(t), "infra/prod/eu", "0123abcd")
	if !errors.Is(err, ErrNoModule) {
		t.Fatal(err)
	}
	for _, part := range []string{`"infra/prod/eu"`, "0123abcd", "is infra,", "dev/"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestAPathThatOnlyLooksRightIsAnsweredWithTheRealOne(t *testing.T) {
	root := tree(t)
	if err := os.MkdirAll(filepath.Join(root, "infra", "u\u0308ber"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"Infra/dev": `did you mean "infra"?`, "infra/DEV": `did you mean "dev"?`, "WITH SPACE/ü": `did you mean "with space"?`,
		"infra/\u00fcber": `"u\u0308ber", in another Unicode form`,
	} {
		if _, err := Folder(root, name, "abc"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", name, err, says)
		}
	}
	if got, err := Folder(root, "infra/u\u0308ber", "abc"); err != nil || got != "infra/u\u0308ber" {
		t.Errorf("as git has it: %q, %v", got, err)
	}
}

func TestARepositorysOwnToolDataIsDropped(t *testing.T) {
	root := tree(t)
	dropped, err := DropData(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(dropped, " "); got != ".terraform common/.GIT infra/.terraform infra/terraform.d" {
		t.Errorf("dropped %q", got)
	}
	for _, gone := range []string{".terraform", "infra/.terraform", "common/.GIT", "infra/terraform.d"} {
		if _, err := os.Lstat(filepath.Join(root, gone)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", gone, err)
		}
	}
}
