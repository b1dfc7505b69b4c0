package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"magosproject.io/internal/refs"
)

const (
	maxRedirects      = 5
	infoRefs          = "/info/refs"
	advertisementType = "application/x-git-upload-pack-advertisement"
	// userAgent begins with git/ because hosting services tell Git clients by it.
	userAgent = "git/2.0 (magos-refwatcher)"
)

// newHTTPClient uses no proxy of the environment: a proxy would look names up itself, and the dialer could not judge the address.
func newHTTPClient(d *dialer, schemes []string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2: true, MaxIdleConns: 32, MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			return checkRedirect(next, via[len(via)-1], len(via), schemes)
		},
	}
}

// checkRedirect lets a repository move to another path, host or from http to https. The new URL passes the same list of schemes and, when it is
// dialled, the same addresses.
func checkRedirect(next, last *http.Request, hops int, schemes []string) error {
	switch {
	case hops > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case !slices.Contains(schemes, next.URL.Scheme):
		return &SchemeError{Scheme: next.URL.Scheme, Allowed: schemes}
	case last.URL.Scheme == "https" && next.URL.Scheme != "https":
		return errors.New("redirected from https to http")
	case next.URL.User != nil:
		return errors.New("redirected to a URL with a user in it")
	}
	return nil
}

func (c *Client) listHTTP(ctx context.Context, url refs.URL, read reader) (refs.Advertised, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String()+infoRefs+"?service=git-upload-pack", nil)
	if err != nil {
		return nil, errors.New("making the request: the URL cannot be used for http")
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", advertisementType)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := checkResponse(response); err != nil {
		return nil, err
	}
	advertised, err := read(response.Body)
	if err == nil {
		// Nothing follows but the end; once it is read the connection serves the next poll.
		_, _ = io.CopyN(io.Discard, response.Body, serverWords)
	}
	return advertised, err
}

func checkResponse(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the server asks for credentials (%s): the repository is private or does not exist", response.Status)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("the server has no repository at this URL (%s)", response.Status)
	default:
		body, _ := io.ReadAll(io.LimitReader(response.Body, serverWords+1))
		return fmt.Errorf("the server answers %s: %s", response.Status, excerpt(string(body)))
	}
	if !strings.HasSuffix(response.Request.URL.Path, infoRefs) {
		return fmt.Errorf("the server redirects to %s, which is no repository", response.Request.URL.Redacted())
	}
	if kind := response.Header.Get("Content-Type"); kind != advertisementType {
		return fmt.Errorf("the server answers with %q: it does not speak Git's smart HTTP protocol at this URL", excerpt(kind))
	}
	return nil
}
