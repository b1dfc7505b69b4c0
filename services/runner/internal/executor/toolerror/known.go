package toolerror

import (
	"fmt"
	"strings"
	"time"
)

// Kind is a failure that is recognised.
type Kind string

// The kinds. Everything else is Other.
const (
	// Other is any failure.
	Other Kind = ""
	// StateLocked: somebody else holds the lock of the state.
	StateLocked Kind = "StateLocked"
	// StalePlan: the state has changed since the plan was made, so that it cannot be applied.
	StalePlan Kind = "StalePlan"
	// StorageFull: a disk is full.
	StorageFull Kind = "StorageFull"
)

// stale are the titles under which both tools refuse a plan that no longer fits the state.
var stale = []string{"Saved plan is stale", "Saved plan does not match the given state"}

// full are the kernel's words for a disk that takes no more, in the spellings of Go and of C.
var full = []string{"no space left on device", "No space left on device", "disk quota exceeded", "Disk quota exceeded"}

// lockTitles are the titles of an error that kept the tools from the lock of the state, for whatever cause.
var lockTitles = []string{"Error acquiring the state lock", "Error locking state"}

// held are words of backends that say that somebody has the lock, where they do not say who.
var held = []string{"already locked", "is locked", "resource temporarily unavailable", "ConditionalCheckFailed", "lock is held", "already exists", "Locked"}

// Kind says which of the failures that are recognised this is.
func (r *Reader) Kind() Kind {
	said := r.flat()
	switch {
	case containsAny(said, lockTitles) && (r.Lock().ID != "" || containsAny(said, held)):
		return StateLocked
	case containsAny(said, stale):
		return StalePlan
	case DiskFull(said):
		return StorageFull
	}
	return Other
}

// DiskFull reports whether text holds the kernel's words for a disk that takes no more.
func DiskFull(text string) bool {
	return containsAny(strings.Join(strings.Fields(text), " "), full)
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// Lock is what the tool says of the lock that it met. What it did not say is empty.
type Lock struct {
	ID, Path, Operation, Who, Created string
}

// Lock reads the lock's description in the tool's error.
func (r *Reader) Lock() Lock {
	var lock Lock
	inside := false
	for _, line := range r.text() {
		if strings.HasPrefix(strings.TrimSpace(line), "Lock Info:") {
			inside = true
			continue
		}
		name, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if !inside || !found {
			continue
		}
		value = strings.TrimSpace(value)
		switch name {
		case "ID":
			lock.ID = value
		case "Path":
			lock.Path = value
		case "Operation":
			lock.Operation = strings.TrimPrefix(value, "OperationType")
		case "Who":
			lock.Who = value
		case "Created":
			lock.Created = instant(value)
		case "Info":
			return lock
		}
	}
	return lock
}

// instant writes the tools' time as people read times elsewhere in Kubernetes.
func instant(text string) string {
	at, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", text)
	if err != nil {
		return text
	}
	return at.UTC().Format(time.RFC3339)
}

// Describe says who has the lock, since when and for what, and what to do about it; program is the tool's name.
func (l Lock) Describe(program string) string {
	var out strings.Builder
	out.WriteString("the state is locked")
	for _, part := range []struct{ before, what string }{
		{" by ", l.Who}, {" since ", l.Created}, {" for ", strings.ToLower(l.Operation)}, {", path ", l.Path}, {", lock ID ", l.ID},
	} {
		if part.what != "" {
			out.WriteString(part.before + clip(part.what))
		}
	}
	out.WriteString("; nothing was changed. Magos never breaks a lock: if its holder still works, wait for it")
	if l.ID != "" {
		fmt.Fprintf(&out, "; if it is gone, run `%s force-unlock %s` in the module's folder", program, clip(l.ID))
	} else {
		fmt.Fprintf(&out, "; if it is gone, remove the lock with the backend's own tools or `%s force-unlock`", program)
	}
	return out.String()
}

// clip bounds one of a lock's texts, which others wrote.
func clip(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
