package schedule

import (
	"strings"
	"time"

	"magosproject.io/internal/refs"
)

// Pushed makes the remotes due at once at which one of the URLs may lie, and returns how many they are. A push hint names a repository in whatever
// spelling its server likes best, so scheme, user, port, a leading slash and .git do not count: one poll too many is harmless. However many hints
// come, a remote is polled once per Settings.MinGap at most.
func (b *Book) Pushed(now time.Time, urls []refs.URL) int {
	prompted := map[string]struct{}{}
	for _, url := range urls {
		for key := range b.places[place(url)] {
			if _, done := prompted[key]; !done && b.schedule.Prompt(now, key) {
				prompted[key] = struct{}{}
			}
		}
	}
	return len(prompted)
}

// place is what a push hint and the URL of a Workspace have in common.
func place(url refs.URL) string {
	return url.Host + "/" + strings.ToLower(strings.TrimSuffix(strings.Trim(url.Path, "/"), ".git"))
}

func (b *Book) addPlace(url refs.URL, key string) {
	at := place(url)
	if b.places[at] == nil {
		b.places[at] = map[string]struct{}{}
	}
	b.places[at][key] = struct{}{}
}

func (b *Book) removePlace(url refs.URL, key string) {
	at := place(url)
	delete(b.places[at], key)
	if len(b.places[at]) == 0 {
		delete(b.places, at)
	}
}
