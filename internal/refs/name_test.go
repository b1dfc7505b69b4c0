package refs

import (
	"errors"
	"strings"
	"testing"
)

const (
	shaA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	shaB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	shaC = "cccccccccccccccccccccccccccccccccccccccc"
)

// Cases C01, C02 and C03.
func TestResolve(t *testing.T) {
	remote := Advertised{
		"HEAD":                         {Object: shaA},
		"refs/heads/main":              {Object: shaA},
		"refs/heads/HEAD":              {Object: shaB},
		"refs/heads/" + shaA:           {Object: shaB},
		"refs/heads/release-1.0":       {Object: shaA},
		"refs/tags/release-1.0":        {Object: shaB},
		"refs/heads/twin":              {Object: shaA},
		"refs/tags/twin":               {Object: shaC, Peeled: shaA},
		"refs/tags/annotated":          {Object: shaC, Peeled: shaB},
		"refs/tags/light":              {Object: shaB},
		"refs/tags/20260817":           {Object: shaB},
		"refs/tags/@name/sub@v1.0.1":   {Object: shaB},
		"refs/heads/heads/odd":         {Object: shaC},
		"refs/pull/7/head":             {Object: shaC},
		"refs/heads/refs/heads/nested": {Object: shaC},
		"refs/heads/@":                 {Object: shaC},
	}
	for name, test := range map[string]struct {
		target, commit, ref string
		notFound            bool
		ambiguous           []string
	}{
		"a branch":                       {target: "main", commit: shaA, ref: "refs/heads/main"},
		"a light tag":                    {target: "light", commit: shaB, ref: "refs/tags/light"},
		"an annotated tag is its commit": {target: "annotated", commit: shaB, ref: "refs/tags/annotated"},
		"an annotated tag by its full name is its commit":   {target: "refs/tags/annotated", commit: shaB, ref: "refs/tags/annotated"},
		"HEAD is the remote's HEAD, not the branch HEAD":    {target: "HEAD", commit: shaA, ref: "HEAD"},
		"the branch HEAD has a full name":                   {target: "refs/heads/HEAD", commit: shaB, ref: "refs/heads/HEAD"},
		"40 digits are a commit, not the branch":            {target: shaA, commit: shaA},
		"40 digits in upper case are the same commit":       {target: strings.ToUpper(shaA), commit: shaA},
		"the branch of 40 digits has a full name":           {target: "refs/heads/" + shaA, commit: shaB, ref: "refs/heads/" + shaA},
		"a commit that no ref holds is not looked up":       {target: shaC, commit: shaC},
		"a tag that looks like a short commit is the tag":   {target: "20260817", commit: shaB, ref: "refs/tags/20260817"},
		"a tag with @ and / is a plain name":                {target: "@name/sub@v1.0.1", commit: shaB, ref: "refs/tags/@name/sub@v1.0.1"},
		"@ is a branch of that name, not HEAD":              {target: "@", commit: shaC, ref: "refs/heads/@"},
		"a ref outside heads and tags by its full name":     {target: "refs/pull/7/head", commit: shaC, ref: "refs/pull/7/head"},
		"a branch and a tag of one name":                    {target: "release-1.0", ambiguous: []string{"refs/heads/release-1.0", "refs/tags/release-1.0"}},
		"a branch and a tag of one name at the same commit": {target: "twin", ambiguous: []string{"refs/heads/twin", "refs/tags/twin"}},
		"the branch of an ambiguous name":                   {target: "refs/heads/release-1.0", commit: shaA, ref: "refs/heads/release-1.0"},
		"the tag of an ambiguous name":                      {target: "refs/tags/release-1.0", commit: shaB, ref: "refs/tags/release-1.0"},
		"heads/x is the branch heads/x":                     {target: "heads/odd", commit: shaC, ref: "refs/heads/heads/odd"},
		"heads/main is not main":                            {target: "heads/main", notFound: true},
		"refs/ is exact":                                    {target: "refs/heads/nested", notFound: true},
		"a short commit is not found":                       {target: "aaaaaaaa", notFound: true},
		"names are case-sensitive":                          {target: "Main", notFound: true},
		"a part of a name is no name":                       {target: "pull/7/head", notFound: true},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse(test.target)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Resolve(remote, parsed)
			var notFound *NotFoundError
			var ambiguous *AmbiguousError
			switch {
			case test.notFound:
				if !errors.As(err, &notFound) {
					t.Fatalf("got %v, %v; want NotFoundError", got, err)
				}
			case test.ambiguous != nil:
				if !errors.As(err, &ambiguous) {
					t.Fatalf("got %v, %v; want AmbiguousError", got, err)
				}
				for _, full := range test.ambiguous {
					if !strings.Contains(err.Error(), full) {
						t.Errorf("%q does not name %s", err, full)
					}
				}
			case err != nil || got != (Resolution{Commit: test.commit, Ref: test.ref}):
				t.Fatalf("got %v, %v; want %s at %s", got, err, test.ref, test.commit)
			}
		})
	}
}

func TestUnbornHeadIsNotFound(t *testing.T) {
	name, err := Parse("HEAD")
	if err != nil {
		t.Fatal(err)
	}
	var notFound *NotFoundError
	if _, err := Resolve(Advertised{"refs/heads/main": {Object: shaA}}, name); !errors.As(err, &notFound) {
		t.Fatalf("got %v, want NotFoundError", err)
	}
}

func TestParseRefusesWhatIsNoName(t *testing.T) {
	for _, target := range []string{
		"", "-b", "--upload-pack=touch", "main~1", "main^", "v1^{}", "a..b", "main@{1}", ":/fix", "a b", "a\tb", "a\x00b", "a\nb", "refs/heads/*", "a?", "a[b]", `a\b`,
		strings.Repeat("a", 256),
	} {
		var invalid *InvalidError
		if _, err := Parse(target); !errors.As(err, &invalid) {
			t.Errorf("Parse(%q) = %v, want InvalidError", target, err)
		}
	}
}

func FuzzResolveAnswersOnlyWithAdvertisedCommits(f *testing.F) {
	for _, seed := range []string{"main", "HEAD", "-x", "refs/heads/main", shaA, "a..b", "@{u}"} {
		f.Add(seed)
	}
	remote := Advertised{"HEAD": {Object: shaA}, "refs/heads/main": {Object: shaA}, "refs/tags/main": {Object: shaB}, "refs/tags/v1": {Object: shaC, Peeled: shaB}}
	f.Fuzz(func(t *testing.T, target string) {
		name, err := Parse(target)
		if err != nil {
			return
		}
		got, err := Resolve(remote, name)
		if err != nil {
			return
		}
		if sha, ok := name.Commit(); ok {
			if got.Commit != sha || got.Ref != "" {
				t.Fatalf("%q is a commit and became %v", target, got)
			}
			return
		}
		if ref, ok := remote[got.Ref]; !ok || ref.Commit() != got.Commit {
			t.Fatalf("%q became %v, which the remote does not say", target, got)
		}
	})
}
