package refs

import (
	"errors"
	"strings"
	"testing"
)

func TestSpellingsOfOneRemote(t *testing.T) {
	for want, spellings := range map[string][]string{
		"https://example.com/team/infra.git": {
			"https://example.com/team/infra.git", "https://example.com/team/infra.git/", "https://example.com/team/infra.git//", "https://EXAMPLE.com/team/infra.git",
			"https://example.com:443/team/infra.git", "HTTPS://example.com/team/infra.git", "https://example.com./team/infra.git", "https://example.com/team/%69nfra.git",
		},
		"https://example.com/team/infra":     {"https://example.com/team/infra", "https://example.com/team/infra/"},
		"https://me@example.com/team/infra":  {"https://me@example.com/team/infra"},
		"https://example.com:8443/infra":     {"https://example.com:8443/infra/"},
		"https://example.com/a%2Fb%20c":      {"https://example.com/a%2fb%20c"},
		"https://example.com/Team/infra":     {"https://example.com/Team/infra"},
		"http://example.com/infra":           {"http://example.com:80/infra"},
		"http://[2001:db8::1]/infra":         {"http://[2001:DB8:0::1]:80/infra"},
		"git://example.com/infra":            {"git://example.com:9418/infra/"},
		"ssh://git@example.com/srv/infra":    {"ssh://git@example.com/srv/infra", "ssh://git@example.com:22/srv/infra/", "git@example.com:/srv/infra", "git@Example.com:/srv/infra/"},
		"git@example.com:team/infra.git":     {"git@example.com:team/infra.git", "git@EXAMPLE.COM:team/infra.git/"},
		"ssh://git@example.com/~/infra":      {"ssh://git@example.com/~/infra", "git@example.com:~/infra"},
		"ssh://git@example.com:2222/infra":   {"ssh://git@example.com:2222/infra"},
		"ssh://example.com/infra":            {"ssh://example.com/infra", "example.com:/infra"},
		"ssh://git@[2001:db8::1]/infra":      {"git@[2001:db8::1]:/infra"},
		"ssh://git@example.com/srv/a%20b":    {"ssh://git@example.com/srv/a%20b"},
		"ssh://other@example.com/srv/infra":  {"ssh://other@example.com/srv/infra"},
		"https://example.com/team//infra":    {"https://example.com/team//infra"},
		"file://localhost/srv/infra":         {"file://localhost/srv/infra"},
		"https://example.com/team/-infra":    {"https://example.com/team/-infra"},
		"https://127.0.0.1:3000/infra":       {"https://127.0.0.1:3000/infra"},
		"https://example.com/%7Euser%25.git": nil,
	} {
		for _, spelling := range spellings {
			got, err := ParseURL(spelling)
			if err != nil || got.String() != want {
				t.Errorf("ParseURL(%q) = %q, %v; want %q", spelling, got, err, want)
				continue
			}
			again, err := ParseURL(got.String())
			if err != nil || again != got {
				t.Errorf("%q does not parse to itself: %#v, %v; want %#v", got, again, err, got)
			}
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "an option": "-oProxyCommand=x", "an option as host": "ssh://-oProxyCommand=x/y", "an option as scp host": "-x:y", "an option as path": "git@host:-x",
		"an option as user": "ssh://-x@host/y", "a remote helper": "ext::sh -c x", "a remote helper without spaces": "ext::x", "a helper with user": "a@ext::x",
		"a password": "https://me:secret@example.com/x", "a password in what cannot be parsed": "https://me:secret@exa%zzmple.com/x", "a query": "https://example.com/x?token=secret",
		"a fragment": "https://example.com/x#y", "no path": "https://example.com/", "no host": "https:///x", "a local path": "/srv/git/x", "a file": "file:///srv/git/x",
		"a new line": "https://example.com/a\nb", "a new line in the path, encoded": "git://example.com/a%0ab", "white space": "https://example.com/a b",
		"a dot segment": "https://example.com/team/./infra", "a segment that leads up": "https://example.com/team/../infra", "one that is encoded": "https://example.com/team/%2e%2E/infra",
		"one over ssh": "git@example.com:../infra",
	} {
		var invalid *InvalidError
		got, err := ParseURL(raw)
		if !errors.As(err, &invalid) {
			t.Errorf("%s: ParseURL(%q) = %v, %v; want InvalidError", name, raw, got, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error %q shows what was secret", name, err)
		}
	}
}

func TestAPrefixMayBeAHost(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com": "https://example.com/", "https://Example.com:443/": "https://example.com/", "https://example.com/team/": "https://example.com/team",
		"ssh://git@example.com": "ssh://git@example.com/", "git@example.com:team": "git@example.com:team",
	} {
		got, err := ParsePrefix(raw)
		if err != nil || strings.TrimSuffix(got.String(), "/") != strings.TrimSuffix(want, "/") {
			t.Errorf("ParsePrefix(%q) = %q, %v; want %q", raw, got, err, want)
		}
	}
	for _, raw := range []string{"", "example.com", "https://", "https://me:secret@example.com", "-x"} {
		if got, err := ParsePrefix(raw); err == nil {
			t.Errorf("ParsePrefix(%q) = %q", raw, got)
		}
	}
}
