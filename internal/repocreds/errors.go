package repocreds

import (
	"fmt"
	"strings"

	"magosproject.io/internal/refs"
)

// MalformedError says what is wrong with a Secret. It never repeats a value.
type MalformedError struct {
	// Secret is its name.
	Secret string
	// Key of it that is wrong or missing.
	Key string
	// Why, in words that go on after the key.
	Why string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("repository credential in Secret %s cannot be used: key %s %s", e.Secret, e.Key, e.Why)
}

// AmbiguousError says that several Secrets are for the same URL.
type AmbiguousError struct {
	// URL that they share.
	URL refs.URL
	// Secrets are their names, sorted.
	Secrets []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("Secrets %s all hold a repository credential for %s: keep one of them", strings.Join(e.Secrets, " and "), e.URL)
}
