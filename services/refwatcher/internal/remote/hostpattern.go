package remote

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"path"
	"strings"

	"golang.org/x/crypto/ssh/knownhosts"
)

// matchesHost reports whether one of the patterns of a line of known_hosts is for an address (host:port), and none excludes it. The package knownhosts
// can do this too, but reads files only, and a pod of this service has none.
func matchesHost(patterns []string, address string) bool {
	name := knownhosts.Normalize(address)
	matched := false
	for _, pattern := range patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !matchesPattern(pattern, name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

func matchesPattern(pattern, name string) bool {
	if strings.HasPrefix(pattern, "|1|") {
		return matchesHash(pattern, name)
	}
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	if pattern == name {
		return true
	}
	if !strings.ContainsAny(pattern, "*?") {
		return false
	}
	// Brackets are those of [host]:port here, and a class of characters to path.Match.
	escaped := strings.NewReplacer(`[`, `\[`, `]`, `\]`, `\`, `\\`).Replace(pattern)
	ok, err := path.Match(escaped, name)
	return err == nil && ok
}

// matchesHash is for names that ssh-keyscan -H or HashKnownHosts wrote: |1|salt|HMAC-SHA1(salt, name).
func matchesHash(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 {
		return false
	}
	salt, saltErr := base64.StdEncoding.DecodeString(parts[2])
	want, wantErr := base64.StdEncoding.DecodeString(parts[3])
	if saltErr != nil || wantErr != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	_, _ = mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), want)
}
