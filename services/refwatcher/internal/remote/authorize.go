package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"magosproject.io/internal/githubapp"
	"magosproject.io/internal/repocreds"
)

// authorize adds the credential to a request for the host that it is for.
func (c *Client) authorize(ctx context.Context, request *http.Request, credential *repocreds.Credential) error {
	switch {
	case credential == nil:
	case credential.Basic != nil:
		request.SetBasicAuth(credential.Basic.Username, credential.Basic.Password)
	case credential.GitHubApp != nil:
		token, err := c.tokens.Token(ctx, credential.GitHubApp)
		if err != nil {
			return err
		}
		request.SetBasicAuth(githubapp.Username, token)
	default:
		return refused("the credential in %s is not for this scheme", credential)
	}
	return nil
}

// guardCredential takes the credential off a request that a redirect leads to another host, port or scheme, or that came by way of one: net/http
// would pass it on to subdomains, and give it back on the way home.
func guardCredential(next *http.Request, via []*http.Request) {
	for _, earlier := range append(via[1:], next) {
		if !sameOrigin(earlier.URL, via[0].URL) {
			next.Header.Del("Authorization")
			return
		}
	}
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// refusal says what a server means by 401 and 403: that depends on what it was shown.
func refusal(status string, credential *repocreds.Credential) *RefusedError {
	if credential == nil {
		return refused("the server asks for credentials (%s): the repository is private or does not exist", status)
	}
	return refused("the server does not accept the credential in %s (%s)", credential, status)
}

// withSecret names the Secret whose credential was in use when something went wrong that may have to do with it.
func withSecret(err error, credential *repocreds.Credential) error {
	if credential == nil {
		return err
	}
	return fmt.Errorf("with the credential in %s: %w", credential, err)
}
