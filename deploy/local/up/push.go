package up

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"magosproject.io/deploy/local/demo"
)

// Push commits a change to the branch main of the demo repository, through its server, and returns the commit. change edits
// the checkout in the folder.
func (i *Installation) Push(ctx context.Context, message string, change func(folder string) error) (string, error) {
	url, stop, err := i.ReachRepository(ctx)
	if err != nil {
		return "", err
	}
	defer stop()
	folder, err := os.MkdirTemp("", "magos-demo-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the checkout: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if _, err := git(ctx, folder, "clone", "--quiet", "--branch=main", url, "."); err != nil {
		return "", err
	}
	if err := change(folder); err != nil {
		return "", fmt.Errorf("changing the demo repository: %w", err)
	}
	for _, arguments := range [][]string{
		{"add", "--all"}, {"commit", "--quiet", "--message=" + message}, {"push", "--quiet", "origin", "main"},
	} {
		if _, err := git(ctx, folder, arguments...); err != nil {
			return "", err
		}
	}
	return git(ctx, folder, "rev-parse", "HEAD")
}

// PushMessage pushes another text for the demo to greet with, and returns the commit.
func (i *Installation) PushMessage(ctx context.Context, text string) (string, error) {
	return i.Push(ctx, "Say "+text, func(folder string) error {
		return os.WriteFile(filepath.Join(folder, demo.MessageFile), []byte(text+"\n"), 0o644)
	})
}

// ReachRepository returns a URL of the demo repository that works on this machine until stop is called.
func (i *Installation) ReachRepository(ctx context.Context) (url string, stop func(), err error) {
	if i.local != nil {
		service, err := i.kube.CoreV1().Services(demo.Namespace).Get(ctx, demo.Server, metav1.GetOptions{})
		if err != nil {
			return "", nil, fmt.Errorf("looking for the demo's Git server: %w", err)
		}
		return "http://" + service.Spec.ClusterIP + "/demo.git", func() {}, nil
	}
	address, stop, err := i.forward(ctx, demo.Namespace, "service/"+demo.Server, 80)
	if err != nil {
		return "", nil, err
	}
	return "http://" + address + "/demo.git", stop, nil
}

// git runs it as nobody in particular: neither the settings nor the name of whoever uses this machine matter.
func git(ctx context.Context, folder string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Magos demo", "GIT_AUTHOR_EMAIL=demo@magos.invalid",
		"GIT_COMMITTER_NAME=Magos demo", "GIT_COMMITTER_EMAIL=demo@magos.invalid",
		// The server is this machine's: no proxy knows it.
		"NO_PROXY=*", "no_proxy=*")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("git %s: %w: %s", arguments[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
