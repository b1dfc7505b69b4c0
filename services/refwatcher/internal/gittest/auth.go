package gittest

import (
	"net/http"
	"sync"
)

// Locked puts a check of the user and password in front of a server, and remembers every Authorization header that it saw.
type Locked struct {
	// Next serves who may enter.
	Next http.Handler
	// Accept judges a user and a password.
	Accept func(username, password string) bool

	mutex sync.Mutex
	seen  []string
}

// ServeHTTP asks for basic authentication, as Git servers do.
func (l *Locked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mutex.Lock()
	l.seen = append(l.seen, r.Header.Get("Authorization"))
	l.mutex.Unlock()
	username, password, given := r.BasicAuth()
	if !given || !l.Accept(username, password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	l.Next.ServeHTTP(w, r)
}

// Seen are the Authorization headers so far; empty strings for requests without one.
func (l *Locked) Seen() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]string(nil), l.seen...)
}
