package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up"
	"magosproject.io/deploy/local/up/chart"
)

const (
	// pushes is how many are measured; each is rolled out to its end before the next.
	pushes        = 6
	webhookSecret = "bench-webhook"
	webhookKey    = "known to nobody but the bench"
)

// webhookValues turn webhooks on.
var webhookValues = map[string]any{"refwatcher": map[string]any{"webhook": map[string]any{"secretName": webhookSecret}}}

// pushToPlanning measures the time from sending the webhook of a push to the moment at which the API server tells that a Workspace plans its commit.
func pushToPlanning(ctx context.Context, installation *up.Installation, c client.WithWatch) (middle, spread float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	hook, err := newHook(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	var values []float64
	for n := range pushes {
		took, err := onePush(ctx, installation, c, hook, n)
		if err != nil {
			return 0, 0, fmt.Errorf("measuring push %d of %d: %w", n+1, pushes, err)
		}
		values = append(values, took)
		fmt.Fprintf(os.Stderr, "push to planning: %.0f ms\n", took)
	}
	middle, spread = median(values)
	return middle, spread, nil
}

func onePush(ctx context.Context, installation *up.Installation, c client.WithWatch, hook hook, n int) (milliseconds float64, err error) {
	workspaces, err := c.Watch(ctx, &v1alpha1.WorkspaceList{}, client.InNamespace(demo.Namespace))
	if err != nil {
		return 0, fmt.Errorf("watching Workspaces: %w", err)
	}
	defer workspaces.Stop()
	commit, err := installation.PushMessage(ctx, fmt.Sprintf("Pushed greeting %d", n+1))
	if err != nil {
		return 0, fmt.Errorf("pushing: %w", err)
	}
	sent := time.Now()
	status, err := hook.send(ctx, "push", fmt.Sprintf(`{"after": %q, "repository": {"clone_url": %q}}`, commit, demo.RepositoryURL))
	if err != nil || status != http.StatusAccepted {
		return 0, fmt.Errorf("sending the webhook: status %d: %w", status, errors.Join(err, errors.New("want 202")))
	}
	if err := awaitPlanning(ctx, workspaces, commit); err != nil {
		return 0, err
	}
	took := float64(time.Since(sent).Microseconds()) / 1000
	_, err = installation.Follow(ctx, commit)
	return took, err
}

func awaitPlanning(ctx context.Context, workspaces watch.Interface, commit string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a plan of %s: %w", commit, ctx.Err())
		case event, open := <-workspaces.ResultChan():
			if !open {
				return errors.New("the watch of Workspaces ended")
			}
			w, ok := event.Object.(*v1alpha1.Workspace)
			if ok && w.Status.Run != nil && w.Status.Run.Revision == commit && w.Status.Phase == v1alpha1.PhasePlanning {
				return nil
			}
		}
	}
}

// hook is where webhooks are sent to.
type hook struct{ url string }

// newHook makes the Secret with the key, and returns once the service has it: the kubelet brings it to the pods within two minutes.
func newHook(ctx context.Context, c client.Client) (hook, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: webhookSecret}, StringData: map[string]string{"bench": webhookKey},
	}
	if err := c.Create(ctx, secret); err != nil {
		return hook{}, fmt.Errorf("creating the key of webhooks: %w", err)
	}
	var service corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: chart.Namespace, Name: "magos-refwatcher-webhook"}, &service); err != nil {
		return hook{}, fmt.Errorf("looking for the Service of webhooks: %w", err)
	}
	h := hook{url: "http://" + net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port))) + "/webhook"}
	// Each replica gets it in its own time; ten in a row that work have most likely asked both.
	for ready := 0; ready < 10; {
		status, err := h.send(ctx, "ping", "{}")
		if err == nil && status == http.StatusOK {
			ready++
			continue
		}
		ready = 0
		if pauseErr := pause(ctx, time.Second); pauseErr != nil {
			return hook{}, fmt.Errorf("waiting for webhooks: status %d, %w", status, errors.Join(err, pauseErr))
		}
	}
	return h, nil
}

// send sends what GitHub would, over a connection of its own, so that the Service picks a replica, and returns the status of the answer.
func (h hook) send(ctx context.Context, event, body string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	sum := hmac.New(sha256.New, []byte(webhookKey))
	sum.Write([]byte(body))
	request.Header.Set("X-GitHub-Event", event)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
