// Package remote asks a Git remote for its refs, as ls-remote does: it never fetches an object. Nothing that a remote, or the person who
// wrote its URL, can do costs more than a bounded time and a bounded number of bytes.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"magosproject.io/internal/githubapp"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
)

// Schemes are all that this package speaks. Remote helpers (ext::, fd::, …) and local paths are not among them and cannot be allowed.
var Schemes = []string{"https", "ssh", "http", "git"}

// Config says what may be asked, and how much it may cost.
type Config struct {
	// Schemes that URLs may have; a subset of the package's.
	Schemes []string
	// AllowLocalAddresses permits loopback, link-local and cloud metadata addresses.
	AllowLocalAddresses bool
	// Timeout of one listing, from the name lookup to the last ref.
	Timeout time.Duration
	// MaxBytes of one listing.
	MaxBytes int64
	// Now is the clock by which tokens of GitHub Apps expire.
	Now func() time.Time
}

// Client lists refs. It is safe for concurrent use.
type Client struct {
	config Config
	dialer *dialer
	http   *http.Client
	tokens *githubapp.Tokens
}

// New makes a Client. It opens no connection.
func New(config Config) *Client {
	d := newDialer(config.AllowLocalAddresses)
	web := newHTTPClient(d, config.Schemes)
	return &Client{config: config, dialer: d, http: web, tokens: githubapp.NewTokens(web, config.Now)}
}

// Check reports whether the URL may be asked at all: nil or a SchemeError.
func (c *Client) Check(url refs.URL) error {
	if !slices.Contains(c.config.Schemes, url.Scheme) {
		return &SchemeError{Scheme: url.Scheme, Allowed: c.config.Schemes}
	}
	return nil
}

// List returns those of the wanted refs (full names) that the remote has. The credential is for this URL, nil for none. It fails with a SchemeError, a
// RefusedError, a BusyError, or with what the network or git said; a list that was cut short is an error and never a list without the rest.
func (c *Client) List(ctx context.Context, url refs.URL, credential *repocreds.Credential, wanted []string) (refs.Advertised, error) {
	if err := c.Check(url); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	advertised, err := c.list(ctx, url, credential, wanted)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		// Whatever the connection says of its sudden end, this is why.
		return nil, fmt.Errorf("listing the refs of %s: no complete answer within %s", url, c.config.Timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the refs of %s: %w", url, err)
	}
	return advertised, nil
}

func (c *Client) list(ctx context.Context, url refs.URL, credential *repocreds.Credential, wanted []string) (refs.Advertised, error) {
	set := make(map[string]bool, len(wanted))
	for _, name := range wanted {
		set[name] = true
	}
	read := func(r io.Reader) (refs.Advertised, error) { return readAdvertisement(r, c.config.MaxBytes, set) }
	switch url.Scheme {
	case "http", "https":
		return c.listHTTP(ctx, url, credential, read)
	case "ssh":
		return c.listSSH(ctx, url, credential, read)
	case "git":
		return c.listGit(ctx, url, read)
	}
	return nil, &SchemeError{Scheme: url.Scheme, Allowed: c.config.Schemes}
}

// reader turns what a server sends into refs.
type reader func(io.Reader) (refs.Advertised, error)
