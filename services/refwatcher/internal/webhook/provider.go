package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// provider is one kind of hosting service.
type provider struct {
	// events are the headers, one of which names the kind of event; a request that has one is of this provider.
	events []string
	// hints are the kinds that tell of refs that may have changed.
	hints []string
	// prove reads from the headers what the sender proves its knowledge of a key with.
	prove func(http.Header) proof
}

const systemHook = "System Hook"

// providers in the order in which they are looked for: Gitea and Forgejo also send the headers of GitHub.
var providers = []provider{
	{
		events: []string{"X-Forgejo-Event", "X-Gitea-Event", "X-Gogs-Event"},
		hints:  []string{"push", "create", "delete", "pull_request", "pull_request_sync", "repository"},
		prove: func(h http.Header) proof {
			return proof{macs: append(plainHex(h, "X-Forgejo-Signature", "X-Gitea-Signature", "X-Gogs-Signature"), prefixedHex(h, "X-Hub-Signature-256")...)}
		},
	},
	{
		events: []string{"X-GitHub-Event"},
		hints:  []string{"push", "create", "delete", "pull_request", "repository"},
		prove:  func(h http.Header) proof { return proof{macs: prefixedHex(h, "X-Hub-Signature-256")} },
	},
	{
		events: []string{"X-Gitlab-Event"},
		hints:  []string{"Push Hook", "Tag Push Hook", "Merge Request Hook", systemHook},
		prove:  proveGitLab,
	},
	{
		// Bitbucket, Cloud and Data Center.
		events: []string{"X-Event-Key"},
		hints:  []string{"repo:push", "repo:refs_changed", "mirror:repo_synchronized"},
		prove:  func(h http.Header) proof { return proof{macs: prefixedHex(h, "X-Hub-Signature")} },
	},
}

// providerOf finds who sends, by the headers alone, and the kind of event; nil for nobody known.
func providerOf(header http.Header) (*provider, string) {
	for i := range providers {
		for _, name := range providers[i].events {
			if event := header.Get(name); event != "" {
				return &providers[i], event
			}
		}
	}
	return nil, ""
}

func (p *provider) isHint(event string) bool { return slices.Contains(p.hints, event) }

// proof is what a request claims. It proves nothing before it was compared.
type proof struct {
	// token is a key itself.
	token string
	// macs are HMAC-SHA256 sums, with a key, of prefix and body.
	macs   [][]byte
	prefix string
	// encoded says that the key is what stands in base64 behind keyPrefix.
	encoded bool
}

// keyPrefix begins a key of the kind that the Standard Webhooks specification has.
const keyPrefix = "whsec_"

// proveGitLab: newer versions sign, when they are given a signing token; a secret token is sent as it is.
func proveGitLab(h http.Header) proof {
	p := proof{token: h.Get("X-Gitlab-Token"), encoded: true, prefix: h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "."}
	for signature := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		if text, current := strings.CutPrefix(signature, "v1,"); current {
			if mac, err := base64.StdEncoding.DecodeString(text); err == nil && len(mac) == sha256.Size {
				p.macs = append(p.macs, mac)
			}
		}
	}
	return p
}

// hasToken is whether the token is one of the keys. It takes the same time whichever it is, and whether it is one.
func (p proof) hasToken(keys [][]byte) bool {
	if p.token == "" {
		return false
	}
	// Sums have one length; to compare texts of different lengths takes a time that depends on them.
	got, found := sha256.Sum256([]byte(p.token)), 0
	for _, key := range keys {
		want := sha256.Sum256(key)
		found |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return found == 1
}

// signed is whether one of the keys made one of the sums of one of the contents. Every key is tried, whichever it is.
func (p proof) signed(keys [][]byte, contents ...[]byte) bool {
	found := 0
	for _, key := range keys {
		if p.encoded {
			encoded, ours := strings.CutPrefix(string(key), keyPrefix)
			decoded, err := base64.StdEncoding.DecodeString(encoded)
			if !ours || err != nil || len(decoded) < minKey {
				continue
			}
			key = decoded
		}
		for _, content := range contents {
			sum := hmac.New(sha256.New, key)
			sum.Write([]byte(p.prefix))
			sum.Write(content)
			want := sum.Sum(nil)
			for _, mac := range p.macs {
				found |= subtle.ConstantTimeCompare(mac, want)
			}
		}
	}
	return found == 1
}

func plainHex(h http.Header, names ...string) [][]byte {
	var macs [][]byte
	for _, name := range names {
		if mac, err := hex.DecodeString(h.Get(name)); err == nil && len(mac) == sha256.Size {
			macs = append(macs, mac)
		}
	}
	return macs
}

// prefixedHex takes no other algorithm: the SHA-1 that some servers still send beside it is not looked at.
func prefixedHex(h http.Header, name string) [][]byte {
	text, found := strings.CutPrefix(h.Get(name), "sha256=")
	if !found {
		return nil
	}
	mac, err := hex.DecodeString(text)
	if err != nil || len(mac) != sha256.Size {
		return nil
	}
	return [][]byte{mac}
}
