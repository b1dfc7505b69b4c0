// Package refs says which commit the target revision of a Workspace means, given what a remote advertises, and which
// spellings of a repository URL mean the same remote. It decides only: no network, no clock.
package refs

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	head       = "HEAD"
	branches   = "refs/heads/"
	tags       = "refs/tags/"
	anyRef     = "refs/"
	maxNameLen = 255
)

var (
	fullCommit  = regexp.MustCompile(`^[0-9a-fA-F]{40}$`)
	shortCommit = regexp.MustCompile(`^[0-9a-fA-F]{7,39}$`)
)

// Name is a target revision that was found fit to be looked up. The zero value is not.
type Name struct {
	text   string
	commit string
}

// Parse reads a target revision: a branch, a tag, a full ref name, HEAD, or a full commit SHA. What could be taken for an option or
// for a revision expression is refused with an InvalidError, although admission refuses it too: objects may be older than the rule.
func Parse(target string) (Name, error) {
	switch {
	case target == "":
		return Name{}, &InvalidError{What: "target revision", Why: "it is empty"}
	case len(target) > maxNameLen:
		return Name{}, &InvalidError{What: "target revision", Why: fmt.Sprintf("it is longer than %d bytes", maxNameLen)}
	case strings.HasPrefix(target, "-"):
		return Name{}, &InvalidError{What: "target revision", Why: "it starts with a hyphen"}
	case strings.ContainsFunc(target, unprintable):
		return Name{}, &InvalidError{What: "target revision", Why: "it holds white space or control characters"}
	case strings.ContainsAny(target, `~^:?*[\`), strings.Contains(target, ".."), strings.Contains(target, "@{"):
		return Name{}, &InvalidError{What: "target revision", Why: "it is an expression: write a branch, a tag or a full commit SHA"}
	case fullCommit.MatchString(target):
		return Name{text: target, commit: strings.ToLower(target)}, nil
	}
	return Name{text: target}, nil
}

// String is the name as it was written.
func (n Name) String() string { return n.text }

// Commit returns the SHA when the name is one: 40 hex digits are a commit, also where a branch of that name exists.
func (n Name) Commit() (sha string, ok bool) { return n.commit, n.commit != "" }

// Candidates lists the full names of the refs that n can mean; none for a commit.
func (n Name) Candidates() []string {
	switch {
	case n.commit != "":
		return nil
	case n.text == head || strings.HasPrefix(n.text, anyRef):
		return []string{n.text}
	}
	return []string{branches + n.text, tags + n.text}
}

// Ref is what a remote says of one of its refs.
type Ref struct {
	// Object is the SHA that the ref holds: of a tag object where the tag is annotated.
	Object string
	// Peeled is the SHA behind an annotated tag, through every nested one; empty for other refs.
	Peeled string
}

// Commit is the SHA to check out.
func (r Ref) Commit() string {
	if r.Peeled != "" {
		return r.Peeled
	}
	return r.Object
}

// Advertised maps the full names of a remote's refs to what they hold. It may lack refs that nobody asked for.
type Advertised map[string]Ref

// Resolution is the answer to what a name means.
type Resolution struct {
	// Commit is the full SHA.
	Commit string
	// Ref is the full name of the ref that matched, empty where the name is a commit.
	Ref string
}

// Resolve says what n means at a remote that advertises refs, which must hold every one of n.Candidates that the remote has.
// It fails with a NotFoundError or an AmbiguousError and never guesses.
func Resolve(refs Advertised, n Name) (Resolution, error) {
	if sha, ok := n.Commit(); ok {
		return Resolution{Commit: sha}, nil
	}
	var found []string
	for _, full := range n.Candidates() {
		if _, ok := refs[full]; ok {
			found = append(found, full)
		}
	}
	switch len(found) {
	case 0:
		return Resolution{}, &NotFoundError{Name: n.text, Hint: hint(n.text)}
	case 1:
		return Resolution{Commit: refs[found[0]].Commit(), Ref: found[0]}, nil
	}
	// Also where both hold the same commit: they would part ways at the next push, and then the run would depend on the order.
	return Resolution{}, &AmbiguousError{Name: n.text, Refs: found}
}

func hint(name string) string {
	switch {
	case name == head:
		return "its HEAD points to a branch that does not exist"
	case shortCommit.MatchString(name):
		return "no branch or tag has this name; if it is a commit, write all 40 digits"
	case strings.HasPrefix(name, "heads/"), strings.HasPrefix(name, "tags/"):
		return "no branch or tag has this name; a full name starts with refs/"
	case strings.HasPrefix(name, anyRef):
		return "no ref has this name"
	}
	return "no branch or tag has this name"
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0xa0 }
