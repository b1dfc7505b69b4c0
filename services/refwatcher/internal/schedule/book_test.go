package schedule

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
)

var schemes = []string{"https", "http", "ssh"}

func named(name, url, target string) *v1alpha1.Workspace {
	w := &v1alpha1.Workspace{}
	w.Namespace, w.Name, w.UID = "team", name, types.UID("uid-"+name)
	w.Spec.ProjectRef.Name = "p"
	w.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: url, TargetRevision: target}
	return w
}

const infra = "https://example.com/infra.git"

// poll takes the one poll that is due and answers it.
func poll(t *testing.T, b *Book, now time.Time, commit string) Poll {
	t.Helper()
	p, due := b.Next(now)
	if !due {
		t.Fatal("nothing is due")
	}
	b.Finish(now, p, Answer{Findings: map[string]Finding{"main": {Commit: commit}}})
	return p
}

func TestEventsOfOneRemoteAreBounded(t *testing.T) {
	k := NewBook(settings, schemes)
	say := []Announcement{{Reason: v1alpha1.ReasonRemoteUnavailable}}
	said := 0
	for i := range 100 {
		w := named(fmt.Sprint("ws-", i), infra, "main")
		k.Observe(start, w, Access{})
		said += len(k.Tell(w, Told{Reason: v1alpha1.ReasonRemoteUnavailable}, say))
		if _, told := k.Observe(start, w, Access{}); told.Reason != v1alpha1.ReasonRemoteUnavailable {
			t.Fatal("what was not said because of the bound would be said later")
		}
	}
	if said != announcementsPerPoll {
		t.Errorf("%d Events, want %d", said, announcementsPerPoll)
	}
	j, due := k.Next(start)
	if !due {
		t.Fatal("nothing is due")
	}
	k.Finish(start, j, Answer{Outcome: Unreachable, Trouble: &Trouble{Reason: v1alpha1.ReasonRemoteUnavailable}})
	if got := k.Tell(named("ws-0", infra, "main"), Told{}, say); len(got) != 1 {
		t.Error("nothing can be said after the next poll either")
	}
}

// Two credentials for one URL see different repositories: one poll for each.
func TestOnePollPerURLAndCredential(t *testing.T) {
	b := NewBook(settings, schemes)
	for i, access := range []Access{{}, {}, {Namespace: "team", Secret: "one"}, {Namespace: "team", Secret: "one"}, {Namespace: "team", Secret: "two"}, {Namespace: "other", Secret: "one"}} {
		b.Observe(start, named(fmt.Sprint(i), infra, "main"), access)
	}
	polled := map[Access]int{}
	for {
		p, due := b.Next(start)
		if !due {
			break
		}
		b.Finish(start, p, Answer{Findings: map[string]Finding{"main": {Commit: commitA}}})
		polled[Access{Namespace: p.Access.Namespace, Secret: p.Access.Secret}]++
	}
	if len(polled) != 4 || polled[Access{}] != 1 || polled[Access{Namespace: "team", Secret: "one"}] != 1 {
		t.Errorf("polled %v", polled)
	}
}

// A credential that was rotated is used at once, and what is known stays.
func TestARotatedCredentialIsPolledAtOnce(t *testing.T) {
	b := NewBook(settings, schemes)
	w := named("a", infra, "main")
	b.Observe(start, w, Access{Namespace: "team", Secret: "s", Version: "1"})
	poll(t, b, start, commitA)
	now := start.Add(5 * time.Second)
	b.Observe(now, w, Access{Namespace: "team", Secret: "s", Version: "1"})
	if _, due := b.Next(now); due {
		t.Fatal("due although nothing changed")
	}
	if found, _ := b.Observe(now, w, Access{Namespace: "team", Secret: "s", Version: "2"}); found.Commit != commitA {
		t.Errorf("found %+v", found)
	}
	if p := poll(t, b, now, commitB); p.Access.Version != "2" {
		t.Errorf("polled with version %s", p.Access.Version)
	}
	if found, _ := b.Observe(now, w, Access{Namespace: "team", Secret: "s", Version: "2"}); found.Commit != commitB {
		t.Errorf("found %+v", found)
	}
	// The Secret is deleted: the repository is asked without.
	b.Observe(now, w, Access{})
	if p := poll(t, b, now, commitB); p.Access.Secret != "" {
		t.Errorf("polled with %+v", p.Access)
	}
}

// A credential that cannot be used is a trouble of its own. Nobody is asked, and least of all without it.
func TestAMalformedCredentialIsNeverAnAnonymousPoll(t *testing.T) {
	b := NewBook(settings, schemes)
	w := named("a", infra, "main")
	bad := &Trouble{Reason: v1alpha1.ReasonCredentialInvalid, Message: "Secret s, key password"}
	found, _ := b.Observe(start, w, Access{Trouble: bad})
	if found.Trouble == nil || *found.Trouble != *bad {
		t.Errorf("found %+v", found)
	}
	if p, due := b.Next(start.Add(time.Hour)); due {
		t.Errorf("polled %+v", p)
	}
	b.Observe(start, w, Access{Namespace: "team", Secret: "s", Version: "2"})
	poll(t, b, start, commitA)
	if found, _ := b.Observe(start, w, Access{Namespace: "team", Secret: "s", Version: "2"}); found.Commit != commitA || found.Trouble != nil {
		t.Errorf("found %+v", found)
	}
}

func TestAPushHintFindsEverySpelling(t *testing.T) {
	b := NewBook(settings, schemes)
	for i, url := range []string{infra, "https://example.com/infra", "git@example.com:infra.git", "ssh://git@example.com:2222/infra", "http://example.com/infra"} {
		b.Observe(start, named(fmt.Sprint(i), url, "main"), Access{})
	}
	b.Observe(start, named("other", "https://example.com/other", "main"), Access{})
	for now := start; ; {
		p, due := b.Next(now)
		if !due {
			break
		}
		b.Finish(now, p, Answer{})
	}
	hint := func(raw string) int {
		url, err := refs.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		return b.Pushed(start.Add(5*time.Second), "team", []refs.URL{url, url})
	}
	if got := hint("https://Example.com/Infra.git"); got != 5 {
		t.Errorf("%d remotes, want 5", got)
	}
	if got := hint("https://example.com/unknown.git"); got != 0 {
		t.Errorf("%d remotes for an unknown repository", got)
	}
	due := 0
	for {
		p, some := b.Next(start.Add(5 * time.Second))
		if !some {
			break
		}
		due++
		b.Finish(start.Add(5*time.Second), p, Answer{})
	}
	if due != 5 {
		t.Errorf("%d are due, want 5", due)
	}
	for i := range 5 {
		b.Forget(types.NamespacedName{Namespace: "team", Name: fmt.Sprint(i)})
	}
	b.Forget(types.NamespacedName{Namespace: "team", Name: "other"})
	if len(b.places)+len(b.remotes)+len(b.workspaces)+len(b.schedule.remotes) != 0 {
		t.Errorf("left over: %+v", b)
	}
}

// A successor that wants another repository leaves nothing of its predecessor behind.
func TestASuccessorLeavesNothingBehind(t *testing.T) {
	b := NewBook(settings, schemes)
	b.Observe(start, named("a", infra, "main"), Access{})
	successor := named("a", "https://example.com/other.git", "main")
	successor.UID = "another"
	b.Observe(start, successor, Access{})
	if remotes := b.Remotes(""); len(remotes) != 1 || remotes[0].URL != "https://example.com/other.git" {
		t.Errorf("remotes %+v", remotes)
	}
}

// A hint for a namespace hurries the remotes of its Workspaces, and no others.
func TestAPushHintForANamespace(t *testing.T) {
	b := NewBook(settings, schemes)
	mine, theirs := named("a", infra, "main"), named("a", infra, "main")
	theirs.Namespace = "other"
	b.Observe(start, mine, Access{Namespace: "team", Secret: "s", Version: "1"})
	b.Observe(start, theirs, Access{Namespace: "other", Secret: "s", Version: "1"})
	for range 2 {
		poll(t, b, start, commitA)
	}
	url := WantOf(mine.Spec.Source, schemes).URL
	now := start.Add(5 * time.Second)
	for namespace, want := range map[string]int{"team": 1, "nobody": 0} {
		if got := b.Pushed(now, namespace, []refs.URL{url}); got != want {
			t.Errorf("a hint for %s hurries %d remotes, want %d", namespace, got, want)
		}
	}
	if p, due := b.Next(now); !due || p.Access.Namespace != "team" {
		t.Errorf("due is %+v, %t", p, due)
	}
	if p, due := b.Next(now); due {
		t.Errorf("the remote of another namespace is due: %+v", p)
	}
}

// The poll for a push knows when the push was heard of: the first of those since the last poll began, also where that one still ran.
func TestAPollKnowsThePushThatItIsFor(t *testing.T) {
	b := NewBook(settings, schemes)
	w := named("a", infra, "main")
	b.Observe(start, w, Access{})
	url := []refs.URL{WantOf(w.Spec.Source, schemes).URL}
	first, due := b.Next(start)
	if !due || !first.HintedAt.IsZero() {
		t.Fatalf("the first poll is %+v, %t", first, due)
	}
	heard := start.Add(100 * time.Millisecond)
	b.Pushed(heard, "", url)
	b.Pushed(heard.Add(time.Millisecond), "", url)
	b.Finish(start.Add(200*time.Millisecond), first, Answer{})
	if p, early := b.Next(start.Add(settings.MinGap - 1)); early {
		t.Fatalf("polled within the gap: %+v", p)
	}
	second, due := b.Next(start.Add(settings.MinGap))
	if !due || !second.HintedAt.Equal(heard) {
		t.Fatalf("the poll for the push is %+v, %t", second, due)
	}
	b.Finish(start.Add(settings.MinGap), second, Answer{})
	third, due := b.Next(start.Add(time.Hour))
	if !due || !third.HintedAt.IsZero() {
		t.Errorf("the poll after it is %+v, %t", third, due)
	}
	if r := b.Remotes(""); len(r) != 1 || !r[0].LastPush.Equal(heard.Add(time.Millisecond)) {
		t.Errorf("remotes %+v", r)
	}
}

// What the remote asks for itself counts more than a push, and people see it.
func TestRetryAfterIsHonouredAndShown(t *testing.T) {
	b := NewBook(settings, schemes)
	w := named("a", infra, "main")
	b.Observe(start, w, Access{})
	for i := range 3 {
		now := start.Add(time.Duration(i) * time.Hour)
		p, due := b.Next(now)
		if !due {
			t.Fatal("no poll is due")
		}
		if r := b.Remotes("")[0]; !r.NextPoll.IsZero() {
			t.Errorf("next poll at %s while one runs", r.NextPoll)
		}
		b.Finish(now, p, Answer{Outcome: Unreachable, RetryAfter: 10 * time.Minute, Trouble: &Trouble{Message: "429"}})
		until := now.Add(10 * time.Minute)
		if n := b.Pushed(now.Add(time.Minute), "", []refs.URL{p.URL}); n != 1 {
			t.Errorf("the hint hurries %d remotes", n)
		}
		if p, early := b.Next(until.Add(-1)); early {
			t.Errorf("asked before its time: %+v", p)
		}
		r := b.Remotes("")[0]
		if r.FailedPolls != i+1 || !r.LeftAloneUntil.Equal(until) || !r.NextPoll.Equal(until) || r.LastError != "429" || r.Interval != v1alpha1.DefaultGitPollInterval {
			t.Errorf("after %d failures it is shown as %+v", i+1, r)
		}
	}
	p, _ := b.Next(start.Add(5 * time.Hour))
	b.Finish(start.Add(5*time.Hour), p, Answer{})
	if r := b.Remotes("")[0]; r.FailedPolls != 0 || !r.LeftAloneUntil.IsZero() || r.LastError != "" {
		t.Errorf("after a success it is shown as %+v", r)
	}
}
