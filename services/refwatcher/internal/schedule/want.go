package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
)

// Trouble is why no commit is known for a Workspace.
type Trouble struct {
	// Reason as on Events and, by the workspace service, on conditions.
	Reason v1alpha1.Reason
	// Message for people.
	Message string
}

func (t *Trouble) with(note string) *Trouble {
	if note == "" {
		return t
	}
	return &Trouble{Reason: t.Reason, Message: t.Message + "; " + note}
}

// Want is what a Workspace's spec asks of the watcher. Either Trouble is set, or Name and URL are.
type Want struct {
	// Name to resolve.
	Name refs.Name
	// URL of the remote to ask.
	URL refs.URL
	// Trouble says that the remote is not asked at all.
	Trouble *Trouble
}

// WantOf reads a Workspace's source. Only URLs with one of the schemes are accepted, also for a commit, for which no remote
// is asked: the run fetches it from there.
func WantOf(source v1alpha1.WorkspaceSource, schemes []string) Want {
	name, err := refs.Parse(source.TargetRevision)
	if err != nil {
		return refused(err)
	}
	url, err := refs.ParseURL(source.RepoURL)
	if err != nil {
		return refused(err)
	}
	if !slices.Contains(schemes, url.Scheme) {
		return refused(fmt.Errorf("scheme %q of the repository URL is not allowed: use one of %s", url.Scheme, strings.Join(schemes, ", ")))
	}
	return Want{Name: name, URL: url}
}

func refused(err error) Want {
	return Want{Trouble: &Trouble{Reason: v1alpha1.ReasonSourceRefused, Message: err.Error()}}
}

// Polled reports whether a remote must be asked.
func (w Want) Polled() bool {
	_, pinned := w.Name.Commit()
	return w.Trouble == nil && !pinned
}

// Finding is what is known of a Workspace's target revision. Commit and Trouble may both be set: the commit is then of an earlier poll.
// Neither means that the remote has not been asked yet.
type Finding struct {
	// Commit is the full SHA.
	Commit string
	// Trouble with the last attempt.
	Trouble *Trouble
	// Unverified says that whoever answered could not be verified to be the server.
	Unverified bool
}

// FindingOf turns the answer of refs.Resolve into a Finding.
func FindingOf(answer refs.Resolution, err error) Finding {
	var ambiguous *refs.AmbiguousError
	switch {
	case err == nil:
		return Finding{Commit: answer.Commit}
	case errors.As(err, &ambiguous):
		return Finding{Trouble: &Trouble{Reason: v1alpha1.ReasonAmbiguousRevision, Message: err.Error()}}
	}
	return Finding{Trouble: &Trouble{Reason: v1alpha1.ReasonRevisionNotFound, Message: err.Error()}}
}
