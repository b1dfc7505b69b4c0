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

func TestURLsAreHeldAgainstTheSchemesThatAreAllowed(t *testing.T) {
	narrow := Access{Schemes: []string{"https"}, Helpers: []string{"s3"}}
	for url, want := range map[string]map[*Access]bool{
		"https://h/x":           {nil: true, &narrow: true},
		"HTTPS://h/x":           {nil: true, &narrow: true},
		"http://h/x":            {nil: true, &narrow: false},
		"ssh://git@h/x":         {nil: true, &narrow: false},
		"git@h:x":               {nil: true, &narrow: false},
		"h:x":                   {nil: true, &narrow: false},
		"ssh://git@[2001::1]/x": {nil: true, &narrow: false},
		"git@[2001:db8::1]:x":   {nil: true, &narrow: false},
		"s3://bucket/x":         {nil: false, &narrow: true},
		"s3::https://bucket/x":  {nil: false, &narrow: false},
		"ext::sh -c x":          {nil: false, &narrow: false},
		"file:///x":             {nil: false, &narrow: false},
		"/x":                    {nil: false, &narrow: false},
		"./x":                   {nil: false, &narrow: false},
		"x":                     {nil: false, &narrow: false},
		"--upload-pack=x":       {nil: false, &narrow: false},
		"https://h/\nx":         {nil: false, &narrow: false},
		"":                      {nil: false, &narrow: false},
	} {
		for access, allowed := range want {
			if access == nil {
				access = &Access{}
			}
			if err := access.check(url); (err == nil) != allowed || err != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("%q with %v: %v, want allowed %v", url, *access, err, allowed)
			}
		}
	}
	if err := (Access{}).check("https://user:hunter2@h/x\n"); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the refusal shows the password: %v", err)
	}
}

// A remote helper is a program of the run image; git calls it for the scheme of its name.
func TestAGitRemoteHelperFetchesOtherSchemes(t *testing.T) {
	repo := gittest.Serve(t, `echo x >f; git add .; git commit -qm 1`)
	folder, bin := t.TempDir(), t.TempDir()
	helper := "#!/bin/sh\nexec git remote-http \"$1\" \"http://${2#bucket://}\"\n"
	if err := os.WriteFile(filepath.Join(bin, "git-remote-bucket"), []byte(helper), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(path string, access Access) (string, error) {
		c := Checkout{URL: "bucket://" + strings.TrimPrefix(repo.URL, "http://"), Commit: repo.Rev("main"), Ref: "main", Into: filepath.Join(t.TempDir(), "source"),
			Scratch: filepath.Join(folder, "git"), Access: access, Env: Environment([]string{"PATH=" + path, "HOME=" + folder}, access)}
		return c.Into, c.Run(t.Context(), group, slog.New(slog.DiscardHandler))
	}
	with := os.Getenv("PATH") + ":" + bin
	into, err := run(with, Access{Helpers: []string{"bucket"}})
	if err != nil || fileIn(into, "f") != "x\n" {
		t.Errorf("%v; f holds %q", err, fileIn(into, "f"))
	}
	if _, err := run(with, Access{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--git-helpers") {
		t.Errorf("not allowed: %v", err)
	}
	if _, err := run(os.Getenv("PATH"), Access{Helpers: []string{"bucket"}}); err == nil || !strings.Contains(err.Error(), "run image has no git-remote-bucket") {
		t.Errorf("not in the image: %v", err)
	}
}
