package webhook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// serving starts a Server for a receiver and returns its address.
func serving(t *testing.T, r *receiver, patience time.Duration) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer("", r, 0, slog.New(slog.DiscardHandler))
	server.patience = patience
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return listener.Addr().String()
}

func TestTheServerHasOnePathAndOneMethod(t *testing.T) {
	r := newReceiver(t)
	address := serving(t, r, time.Minute)
	s := senders()["Gitea"]
	for line, want := range map[string]int{
		"POST /webhook": http.StatusAccepted, "GET /webhook": http.StatusMethodNotAllowed, "POST /": http.StatusNotFound, "GET /metrics": http.StatusNotFound,
	} {
		method, path, _ := strings.Cut(line, " ")
		signed := s.request(t, rightKey)
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, signed.Body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = signed.Header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: answered %d, want %d", line, response.StatusCode, want)
		}
	}
}

// Until everybody knows that a replica stops it is still sent webhooks, and answers them.
func TestAStoppingServerAnswersForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 16)
		server := NewServer("", newReceiver(t), 3*time.Second, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.serve(ctx, listener) }()
		stop()
		time.Sleep(2 * time.Second)
		connection, err := listener.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(connection, "POST /webhook HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(connection); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("answered %q, %v", answer, err)
		}
		began := time.Now()
		if err := <-ended; err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("ended with %v after %s", err, time.Since(began))
		}
	})
}

// A sender that never ends is cut off; the test waits for that, however long it takes.
func TestABodyThatDoesNotArriveIsCutOff(t *testing.T) {
	r := newReceiver(t)
	address := serving(t, r, 100*time.Millisecond)
	for name, head := range map[string]string{
		"in the body":    "POST /webhook HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: push\r\nX-Hub-Signature-256: sha256=" + strings.Repeat("0", 64) + "\r\nContent-Length: 100\r\n\r\n{",
		"in the headers": "POST /webhook HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: pu",
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = connection.Close() }()
			if _, err := fmt.Fprint(connection, head); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(connection)
			if err != nil {
				t.Fatalf("the connection broke: %v", err)
			}
			if len(answer) > 0 && !strings.Contains(string(answer), "HTTP/1.1 408") {
				t.Errorf("answered %q", answer)
			}
		})
	}
	if len(r.offered) > 0 || r.room.free.Load() != allBodies {
		t.Errorf("offered %v, %d bytes free", r.offered, r.room.free.Load())
	}
}
