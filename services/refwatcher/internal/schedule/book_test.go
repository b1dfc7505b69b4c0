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
		return b.Pushed(start.Add(5*time.Second), []refs.URL{url, url})
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
