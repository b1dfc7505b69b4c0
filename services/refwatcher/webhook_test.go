package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"magosproject.io/api/v1alpha1"
	pb "magosproject.io/gen/magos/refwatcher/v1alpha1"
	"magosproject.io/services/refwatcher/internal/gittest"
)

const webhookKey = "a key that nobody else knows"

// push sends what GitHub sends after a push, signed with a key, and returns the status of the answer.
func (i *installation) push(replica, url, key string) (int, error) {
	body := fmt.Sprintf(`{"ref": "refs/heads/main", "after": "%s", "repository": {"clone_url": %q}}`, strings.Repeat("0", 40), url)
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodPost, "http://"+i.webhooks[replica]+"/webhook", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write([]byte(body))
	request.Header.Set("X-GitHub-Event", "push")
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// The remote is polled once a day: what is seen before is seen because of the push. Whichever replica hears of it, and whatever the payload says, the
// annotation becomes what the repository has.
func TestAPushIsDetectedWithoutWaitingForAPoll(t *testing.T) {
	i := install(t)
	if err := os.WriteFile(filepath.Join(i.keys, "github"), []byte(webhookKey), 0o600); err != nil {
		t.Fatal(err)
	}
	git := gittest.NewServer(t)
	repo := gittest.NewRepository(t, git.Root, "infra.git")
	commits := []string{repo.Commit()}
	for range 4 {
		commits = append(commits, repo.Commit(commits[len(commits)-1]))
	}
	repo.Set("refs/heads/main", commits[0])
	url := git.URL + "/infra.git"
	i.workspacePolled("one", url, "main", "24h")
	first, second := i.start(), i.start()
	i.grant("reader", []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"workspaces"}, Verbs: []string{"list", "watch"}}})
	i.wantDetected(commits[0], "one")

	watching, err := i.dial(second, "reader").WatchRevisions(t.Context(), &pb.WatchRevisionsRequest{Namespace: i.namespace})
	if err != nil {
		t.Fatal(err)
	}
	wantNews := func(commit string) {
		t.Helper()
		for {
			news, err := watching.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if news.GetRevision() == commit {
				return
			}
		}
	}
	wantNews(commits[0])
	for n, replica := range []string{first, second} {
		eventually(t, "webhooks at "+replica, func() (any, bool) {
			status, err := i.push(replica, url, "some other key of the right length")
			return fmt.Sprint(status, err), status == http.StatusUnauthorized
		})
		repo.Set("refs/heads/main", commits[n+1])
		if status, err := i.push(replica, strings.Replace(url, "http://", "https://", 1), webhookKey); status != http.StatusAccepted {
			t.Fatalf("answered %d, %v", status, err)
		}
		i.wantDetected(commits[n+1], "one")
		wantNews(commits[n+1])
	}
	for n, replica := range []string{first, second} {
		repo.Set("refs/heads/main", commits[n+3])
		answer, err := i.dial(replica, "reader").NotifyPush(t.Context(), &pb.NotifyPushRequest{Namespace: i.namespace, RepoUrls: []string{url}})
		if err != nil || answer.GetRemotes() != 1 {
			t.Fatalf("NotifyPush at %s: %v, %v", replica, answer, err)
		}
		i.wantDetected(commits[n+3], "one")
		wantNews(commits[n+3])
	}
	// A leader that has just begun asks every remote, so one more than the pushes may have been made.
	if listings := git.Listings.Load(); listings < 5 || listings > 7 {
		t.Errorf("%d listings for one start and four pushes", listings)
	}
	for _, stop := range i.replicas {
		stop()
		if err := <-i.ended; err != nil {
			t.Errorf("a replica ended with %v", err)
		}
	}
}
