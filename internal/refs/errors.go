package refs

import (
	"fmt"
	"strings"
)

// InvalidError says that a URL or target revision is refused before anything is asked for it.
type InvalidError struct {
	// What is refused: "target revision" or "repository URL".
	What string
	// Why it is refused.
	Why string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s is refused: %s", e.What, e.Why) }

// NotFoundError says that the remote has no ref of a name.
type NotFoundError struct {
	// Name that was looked up.
	Name string
	// Hint says what is missing, and where it can be guessed what to write.
	Hint string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("revision %q does not exist in the repository: %s", e.Name, e.Hint)
}

// AmbiguousError says that a name is a branch and a tag.
type AmbiguousError struct {
	// Name that was looked up.
	Name string
	// Refs are the full names that it could mean.
	Refs []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("revision %q is ambiguous: write %s", e.Name, strings.Join(e.Refs, " or "))
}
