package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
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
			guardCredential(next, via)
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

func (c *Client) listHTTP(ctx context.Context, url refs.URL, credential *repocreds.Credential, read reader) (refs.Advertised, error) {
	advertised, err := c.listHTTPOnce(ctx, url, credential, read)
	if errors.Is(err, errUnauthorized) && credential != nil && credential.GitHubApp != nil {
		// The rights of an installation change at any time, and its tokens end with them.
		c.tokens.Forget(credential.GitHubApp)
		return c.listHTTPOnce(ctx, url, credential, read)
	}
	return advertised, err
}

func (c *Client) listHTTPOnce(ctx context.Context, url refs.URL, credential *repocreds.Credential, read reader) (refs.Advertised, error) {
	// The user of the URL is none of the credential, and net/http would make one of it.
	url.User = ""
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String()+infoRefs+"?service=git-upload-pack", nil)
	if err != nil {
		return nil, errors.New("making the request: the URL cannot be used for http")
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", advertisementType)
	if err := c.authorize(ctx, request, credential); err != nil {
		return nil, withSecret(err, credential)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := checkResponse(response, credential, c.config.Now()); err != nil {
		return nil, err
	}
	advertised, err := read(response.Body)
	if err == nil {
		// Nothing follows but the end; once it is read the connection serves the next poll.
		_, _ = io.CopyN(io.Discard, response.Body, serverWords)
	}
	return advertised, err
}

// errUnauthorized is what a RefusedError for a status of 401 wraps.
var errUnauthorized = errors.New("unauthorized")

func checkResponse(response *http.Response, credential *repocreds.Credential, now time.Time) error {
	status := response.StatusCode
	switch {
	case status == http.StatusOK:
	case status == http.StatusUnauthorized:
		err := refusal(response.Status, credential)
		err.cause = errUnauthorized
		return err
	case status == http.StatusForbidden && response.Header.Get("Retry-After") == "":
		return refusal(response.Status, credential)
	case status == http.StatusNotFound, status == http.StatusGone:
		if credential != nil {
			return refused("the server has no repository at this URL, or does not show it to the credential in %s (%s)", credential, response.Status)
		}
		return refused("the server has no repository at this URL (%s)", response.Status)
	default:
		return overloaded(response, now)
	}
	if !strings.HasSuffix(response.Request.URL.Path, infoRefs) {
		return refused("the server redirects to %s, which is no repository", response.Request.URL.Redacted())
	}
	if kind := response.Header.Get("Content-Type"); kind != advertisementType {
		return refused("the server answers with %q: it does not speak Git's smart HTTP protocol at this URL", excerpt(kind))
	}
	return nil
}

// overloaded is for answers that are no verdict on the repository. GitHub answers 403 with Retry-After where others answer 429.
func overloaded(response *http.Response, now time.Time) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, serverWords+1))
	text := fmt.Sprintf("the server answers %s: %s", response.Status, excerpt(string(body)))
	wait := retryAfter(response.Header.Get("Retry-After"), now)
	if wait > 0 {
		text += fmt.Sprintf("; it asks to be left alone for %s", wait.Round(time.Second))
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return &BusyError{RetryAfter: wait, text: text}
	}
	return &RefusedError{RetryAfter: wait, text: text}
}

// retryAfter reads seconds or a date; 0 for what is neither or has passed.
func retryAfter(value string, now time.Time) time.Duration {
	const longest = 24 * 60 * 60
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), longest)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
