package repocreds

import (
	"errors"
	"slices"
	"strings"

	"magosproject.io/internal/refs"
)

// sshUser is whom hosting services expect where a URL names nobody.
const sshUser = "git"

// Set holds the credentials of one namespace. It does not change.
type Set struct {
	entries  []entry
	unusable []*MalformedError
}

// entry is one Secret whose repoURL can be read: either credential or err is set.
type entry struct {
	secret     string
	prefix     refs.URL
	credential *Credential
	err        error
}

// NewSet reads the labelled Secrets of a namespace. What is wrong with one is said to those whom it is for, by For.
func NewSet(secrets []Secret) *Set {
	s := &Set{}
	for _, secret := range secrets {
		prefix, err := parsePrefix(secret)
		var malformed *MalformedError
		if errors.As(err, &malformed) {
			s.unusable = append(s.unusable, malformed)
			continue
		}
		credential, err := Parse(secret)
		s.entries = append(s.entries, entry{secret: secret.Name, prefix: prefix, credential: credential, err: err})
	}
	slices.SortFunc(s.entries, func(a, b entry) int { return strings.Compare(a.secret, b.secret) })
	slices.SortFunc(s.unusable, func(a, b *MalformedError) int { return strings.Compare(a.Secret, b.Secret) })
	return s
}

// Unusable has the Secrets for which it cannot even be said what they are for: their repoURL is missing or wrong. A repository for which For has nothing
// may be one of theirs, so whoever finds that it is private should be told of them.
func (s *Set) Unusable() []*MalformedError { return s.unusable }

// For returns the credential for a repository: nil without an error if there is none, and the repository is then asked without one. A Secret that is
// malformed is an error for every repository that it is for, never a reason to go on without it or with a less specific one: MalformedError. So are two
// for the same URL: AmbiguousError.
func (s *Set) For(url refs.URL) (*Credential, error) {
	var best []entry
	for _, e := range s.entries {
		if !covers(e.prefix, url) {
			continue
		}
		switch {
		case len(best) == 0 || moreSpecific(e.prefix, best[0].prefix):
			best = []entry{e}
		case !moreSpecific(best[0].prefix, e.prefix):
			best = append(best, e)
		}
	}
	switch len(best) {
	case 0:
		return nil, nil
	case 1:
		return best[0].credential, best[0].err
	}
	ambiguous := &AmbiguousError{URL: best[0].prefix}
	for _, e := range best {
		ambiguous.Secrets = append(ambiguous.Secrets, e.secret)
	}
	return nil, ambiguous
}

// covers reports whether a credential for prefix is meant for url.
func covers(prefix, url refs.URL) bool {
	if prefix.Scheme != url.Scheme || prefix.Host != url.Host || prefix.Port != url.Port {
		return false
	}
	// Over https the user is part of the credential, over ssh it is part of the address.
	if url.Scheme == "ssh" && prefix.User != "" && prefix.User != orGit(url.User) {
		return false
	}
	short, long := segments(prefix), segments(url)
	return len(short) <= len(long) && slices.Equal(short, long[:len(short)])
}

func moreSpecific(a, b refs.URL) bool {
	if as, bs := len(segments(a)), len(segments(b)); as != bs {
		return as > bs
	}
	return a.Scheme == "ssh" && a.User != "" && b.User == ""
}

// segments of the path. The leading slash and a trailing .git are spellings that hosting services take for the same; a credential that is found
// through either goes to the same host.
func segments(url refs.URL) []string {
	path := strings.TrimSuffix(strings.Trim(url.Path, "/"), ".git")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

func orGit(user string) string {
	if user == "" {
		return sshUser
	}
	return user
}
