// Command probe is what the pods of the cluster test run: it does one thing and says so, or fails.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Println("probe:", err)
		os.Exit(1)
	}
}

func run(verb string, arguments []string) error {
	switch verb {
	case "write":
		return os.WriteFile(arguments[0], []byte(arguments[1]), 0o644)
	case "read":
		content, err := os.ReadFile(arguments[0])
		fmt.Printf("read %s as user %d\n", content, os.Getuid())
		return err
	case "serve":
		return http.ListenAndServe(arguments[0], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "hello from %s", os.Getenv("HOSTNAME"))
		}))
	case "get":
		return get(arguments[0])
	}
	return fmt.Errorf("unknown verb %q", verb)
}

// get asks until it gets an answer: a Service's first endpoint may not be programmed yet.
func get(url string) error {
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	var last error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		response, err := client.Get(url)
		if last = err; err != nil {
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		fmt.Printf("answer %d %s\n", response.StatusCode, body)
		return err
	}
	return last
}
