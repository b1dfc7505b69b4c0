package gitauth

import (
	"fmt"
	"slices"
	"strings"

	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
)

// Explain adds to err what the agent found out about credentials since it was asked last: git itself says no more than
// that it could not authenticate.
func (a *Agent) Explain(err error) error {
	if err == nil {
		return nil
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if len(a.notes) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(a.notes, "; "), err)
}

// Forget drops what was noted so far: an attempt succeeded in spite of it.
func (a *Agent) Forget() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.notes = nil
}

func (a *Agent) note(text string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !slices.Contains(a.notes, text) {
		a.notes = append(a.notes, text)
	}
}

func (a *Agent) refused(url refs.URL, c *repocreds.Credential) {
	if c == nil {
		return
	}
	if c.GitHubApp != nil {
		a.tokens.Forget(c.GitHubApp)
	}
	a.note(fmt.Sprintf("%s did not accept the credential in %s", url.Address(), c))
}

// missing is noted when a host wants to know who asks. Over ssh every host does.
func (a *Agent) missing(url refs.URL, op string) {
	text := fmt.Sprintf("%s wants a credential, and no Secret of the namespace with the label %s=%s is for it", url, labelKey, labelValue)
	if op == opKey {
		text = fmt.Sprintf("there is no ssh key for %s: no Secret of the namespace with the label %s=%s is for it", url, labelKey, labelValue)
	}
	if set, err := a.set(); err == nil {
		for _, malformed := range set.Unusable() {
			text += fmt.Sprintf("; %v", malformed)
		}
	}
	a.note(text)
}

// The label of repository Secrets, as in package v1alpha1, which is not linked into every container of a run for two words;
// a test holds these to it.
const (
	labelKey   = "magosproject.io/secret-type"
	labelValue = "repository"
)
