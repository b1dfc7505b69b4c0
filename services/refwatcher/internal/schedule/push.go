package schedule

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/internal/refs"
)

// Pushed makes the remotes due at once at which one of the URLs may lie and that a Workspace of the namespace (any, if empty) wants, and returns how many
// they are. However many hints come, a remote is polled once per Settings.MinGap at most.
func (b *Book) Pushed(now time.Time, namespace string, urls []refs.URL) int {
	prompted := map[string]struct{}{}
	for _, url := range urls {
		for key := range b.places[Place(url)] {
			state := b.remotes[key]
			if _, done := prompted[key]; done || !isWantedIn(state.members, namespace) || !b.schedule.Prompt(now, key) {
				continue
			}
			prompted[key] = struct{}{}
			state.lastPush = now
			if state.hintedAt.IsZero() {
				state.hintedAt = now
			}
		}
	}
	return len(prompted)
}

func isWantedIn(members map[types.NamespacedName]struct{}, namespace string) bool {
	if namespace == "" {
		return true
	}
	for member := range members {
		if member.Namespace == namespace {
			return true
		}
	}
	return false
}

// sshOverHTTPS are the names under which hosting services take ssh on port 443, for networks that let nothing else out.
var sshOverHTTPS = map[string]string{"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org"}

// Place is what a push hint and the URL of a Workspace have in common. A hint names a repository in whatever spelling its server likes best, so scheme,
// user, port, upper and lower case, a leading slash and .git do not count: one poll too many is harmless.
func Place(url refs.URL) string {
	host := url.Host
	if usual, other := sshOverHTTPS[host]; other {
		host = usual
	}
	return host + "/" + strings.ToLower(strings.TrimSuffix(strings.Trim(url.Path, "/"), ".git"))
}

func (b *Book) addPlace(url refs.URL, key string) {
	at := Place(url)
	if b.places[at] == nil {
		b.places[at] = map[string]struct{}{}
	}
	b.places[at][key] = struct{}{}
}

func (b *Book) removePlace(url refs.URL, key string) {
	at := Place(url)
	delete(b.places[at], key)
	if len(b.places[at]) == 0 {
		delete(b.places, at)
	}
}
