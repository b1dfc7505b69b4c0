package schedule

import (
	"reflect"
	"testing"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
)

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func workspace(annotations map[string]string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{}
	w.Spec.ProjectRef.Name = "p"
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: "https://example.com/infra.git", TargetRevision: "main"}
	w.Annotations = annotations
	return w
}

func TestDecide(t *testing.T) {
	subject := v1alpha1.GrantSubject(workspace(nil))
	detected := func(commit, subject string) map[string]string {
		return map[string]string{v1alpha1.AnnotationDetectedRevision: commit, v1alpha1.AnnotationDetectedFor: subject}
	}
	down := &Trouble{Reason: v1alpha1.ReasonRemoteUnavailable, Message: "no route"}
	gone := &Trouble{Reason: v1alpha1.ReasonRevisionNotFound, Message: "no branch"}
	said := func(warning bool, reason, message string) []Announcement {
		return []Announcement{{Warning: warning, Reason: reason, Message: message}}
	}
	badInterval := Announcement{Warning: true, Reason: v1alpha1.ReasonInvalidAnnotation, Message: `annotation magosproject.io/git-poll-interval is "soon": write a positive duration such as 90s, 5m or 1h30m; until then 30s is used`}
	for name, test := range map[string]struct {
		annotations map[string]string
		found       Finding
		told        Told
		want        Decision
	}{
		"nothing is known yet":                               {},
		"a first commit is written":                          {found: Finding{Commit: commitA}, want: Decision{Set: detected(commitA, subject)}},
		"the same commit is not written again":               {annotations: detected(commitA, subject), found: Finding{Commit: commitA}},
		"a new commit is written":                            {annotations: detected(commitA, subject), found: Finding{Commit: commitB}, want: Decision{Set: detected(commitB, subject)}},
		"a commit that somebody wrote is corrected":          {annotations: map[string]string{v1alpha1.AnnotationDetectedRevision: commitB}, found: Finding{Commit: commitA}, want: Decision{Set: detected(commitA, subject)}},
		"the same commit for another source is written":      {annotations: detected(commitA, "other"), found: Finding{Commit: commitA}, want: Decision{Set: detected(commitA, subject)}},
		"a commit of another source is no commit of this":    {annotations: detected(commitA, "other"), want: Decision{Remove: []string{v1alpha1.AnnotationDetectedFor, v1alpha1.AnnotationDetectedRevision}}},
		"a commit stays while the answer is on its way":      {annotations: detected(commitA, subject)},
		"a commit stays while the remote is down":            {annotations: detected(commitA, subject), found: Finding{Commit: commitA, Trouble: down}, told: Told{Reason: down.Reason}, want: Decision{Told: Told{Reason: down.Reason}}},
		"a commit stays when its branch is gone":             {annotations: detected(commitA, subject), found: Finding{Trouble: gone}, want: Decision{Told: Told{Reason: gone.Reason}, Announce: said(true, gone.Reason, gone.Message)}},
		"trouble is announced":                               {found: Finding{Trouble: down}, want: Decision{Told: Told{Reason: down.Reason}, Announce: said(true, down.Reason, down.Message)}},
		"trouble that lasts is not announced again":          {found: Finding{Trouble: down}, told: Told{Reason: down.Reason}, want: Decision{Told: Told{Reason: down.Reason}}},
		"other trouble is announced":                         {found: Finding{Trouble: gone}, told: Told{Reason: down.Reason}, want: Decision{Told: Told{Reason: gone.Reason}, Announce: said(true, gone.Reason, gone.Message)}},
		"its end is announced":                               {annotations: detected(commitA, subject), found: Finding{Commit: commitA}, told: Told{Reason: down.Reason}, want: Decision{Announce: said(false, v1alpha1.ReasonRevisionResolved, "the target revision is commit "+commitA)}},
		"it does not end before there is an answer":          {told: Told{Reason: down.Reason}, want: Decision{Told: Told{Reason: down.Reason}}},
		"an interval that is none is announced":              {annotations: map[string]string{v1alpha1.AnnotationGitPollInterval: "soon"}, want: Decision{Told: Told{BadInterval: "soon"}, Announce: []Announcement{badInterval}}},
		"an interval that is none is announced once":         {annotations: map[string]string{v1alpha1.AnnotationGitPollInterval: "soon"}, told: Told{BadInterval: "soon"}, want: Decision{Told: Told{BadInterval: "soon"}}},
		"another interval that is none is announced":         {annotations: map[string]string{v1alpha1.AnnotationGitPollInterval: "soon"}, told: Told{BadInterval: "-1"}, want: Decision{Told: Told{BadInterval: "soon"}, Announce: []Announcement{badInterval}}},
		"an interval that is mended is forgotten as a fault": {annotations: map[string]string{v1alpha1.AnnotationGitPollInterval: "1m"}, told: Told{BadInterval: "soon"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(workspace(test.annotations), test.found, test.told); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// What was decided and done is not decided again, whatever the state it starts from.
func TestDecideSettles(t *testing.T) {
	subject := v1alpha1.GrantSubject(workspace(nil))
	values := []string{"", commitA, commitB}
	for _, revision := range values {
		for _, detectedFor := range []string{"", subject, "other"} {
			for _, commit := range values {
				for _, trouble := range []*Trouble{nil, {Reason: v1alpha1.ReasonRemoteUnavailable}, {Reason: v1alpha1.ReasonRevisionNotFound}} {
					for _, told := range []Told{{}, {Reason: v1alpha1.ReasonRemoteUnavailable}, {BadInterval: "x"}} {
						w := workspace(map[string]string{v1alpha1.AnnotationGitPollInterval: "x"})
						setUnlessEmpty(w.Annotations, v1alpha1.AnnotationDetectedRevision, revision)
						setUnlessEmpty(w.Annotations, v1alpha1.AnnotationDetectedFor, detectedFor)
						first := Decide(w, Finding{Commit: commit, Trouble: trouble}, told)
						for key, value := range first.Set {
							w.Annotations[key] = value
						}
						for _, key := range first.Remove {
							delete(w.Annotations, key)
						}
						again := Decide(w, Finding{Commit: commit, Trouble: trouble}, first.Told)
						if !reflect.DeepEqual(again, Decision{Told: first.Told}) {
							t.Fatalf("%q for %q, found %q %v: first %+v, then %+v", revision, detectedFor, commit, trouble, first, again)
						}
						if got := w.Annotations[v1alpha1.AnnotationDetectedRevision]; commit != "" && got != commit {
							t.Fatalf("found %s, wrote %s", commit, got)
						}
					}
				}
			}
		}
	}
}

func setUnlessEmpty(m map[string]string, key, value string) {
	if value != "" {
		m[key] = value
	}
}

func TestWantOf(t *testing.T) {
	schemes := []string{"https", "ssh"}
	for name, test := range map[string]struct {
		url, target string
		polled      bool
		trouble     bool
	}{
		"a branch":                                  {url: "https://example.com/x", target: "main", polled: true},
		"scp form is ssh":                           {url: "git@example.com:x", target: "main", polled: true},
		"a commit needs no remote":                  {url: "https://example.com/x", target: commitA},
		"a scheme that is not allowed":              {url: "git://example.com/x", target: "main", trouble: true},
		"a URL that is none":                        {url: "/srv/x", target: "main", trouble: true},
		"a target that is an option":                {url: "https://example.com/x", target: "--upload-pack=x", trouble: true},
		"a commit of a remote that is not allowed":  {url: "git://example.com/x", target: commitA, trouble: true},
		"a commit of a URL that is none":            {url: "/srv/x", target: commitA, trouble: true},
		"a URL with a password":                     {url: "https://u:p@example.com/x", target: "main", trouble: true},
		"a target that is a revision expression":    {url: "https://example.com/x", target: "main~1", trouble: true},
		"a remote helper, which is never a scheme ": {url: "ext::sh", target: "main", trouble: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := WantOf(v1alpha1.WorkspaceSource{RepoURL: test.url, TargetRevision: test.target}, schemes)
			if got.Polled() != test.polled || (got.Trouble != nil) != test.trouble {
				t.Fatalf("got %+v", got)
			}
			if test.trouble && got.Trouble.Reason != v1alpha1.ReasonSourceRefused {
				t.Errorf("reason %s", got.Trouble.Reason)
			}
		})
	}
}

func TestFindingOf(t *testing.T) {
	for reason, err := range map[string]error{
		v1alpha1.ReasonRevisionNotFound:  &refs.NotFoundError{Name: "x"},
		v1alpha1.ReasonAmbiguousRevision: &refs.AmbiguousError{Name: "x"},
	} {
		if got := FindingOf(refs.Resolution{}, err); got.Commit != "" || got.Trouble == nil || got.Trouble.Reason != reason {
			t.Errorf("%v: got %+v", err, got)
		}
	}
	if got := FindingOf(refs.Resolution{Commit: commitA}, nil); got.Commit != commitA || got.Trouble != nil {
		t.Errorf("got %+v", got)
	}
}
