package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// gitHandler serves the repositories below a folder by git's smart HTTP protocol, for fetching and for pushing. git itself
// does the work; its own program for this, git-http-backend, is not in the run image.
type gitHandler struct {
	git, data string
}

func (h gitHandler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{repository}/info/refs", h.advertise)
	mux.HandleFunc("POST /{repository}/{service}", h.serve)
	return mux
}

// services are the programs that clients may ask for, as git names them after "git-".
var services = map[string]string{"git-upload-pack": "upload-pack", "git-receive-pack": "receive-pack"}

func (h gitHandler) advertise(w http.ResponseWriter, r *http.Request) {
	service := r.URL.Query().Get("service")
	folder, found := h.find(w, r, service)
	if !found {
		return
	}
	var refs bytes.Buffer
	if !h.run(w, r, folder, service, nil, &refs, "--http-backend-info-refs") {
		return
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("Git-Protocol") != "version=2" {
		line := "# service=" + service + "\n"
		_, _ = fmt.Fprintf(w, "%04x%s0000", len(line)+4, line)
	}
	_, _ = refs.WriteTo(w)
}

func (h gitHandler) serve(w http.ResponseWriter, r *http.Request) {
	service := r.PathValue("service")
	folder, found := h.find(w, r, service)
	if !found {
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, "the body is not gzip", http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-result")
	w.Header().Set("Cache-Control", "no-cache")
	h.run(w, r, folder, service, body, w)
}

// find answers the request itself when it names no repository or no service.
func (h gitHandler) find(w http.ResponseWriter, r *http.Request, service string) (folder string, found bool) {
	if _, known := services[service]; !known {
		http.Error(w, "only git's smart protocol is spoken here", http.StatusForbidden)
		return "", false
	}
	name := r.PathValue("repository")
	if filepath.Base(name) != name || filepath.Ext(name) != ".git" {
		http.NotFound(w, r)
		return "", false
	}
	folder = filepath.Join(h.data, name)
	if _, err := os.Stat(folder); err != nil {
		http.NotFound(w, r)
		return "", false
	}
	return folder, true
}

func (h gitHandler) run(w http.ResponseWriter, r *http.Request, folder, service string, input io.Reader, output io.Writer, flags ...string) bool {
	arguments := append([]string{services[service], "--stateless-rpc"}, flags...)
	command := exec.CommandContext(r.Context(), h.git, append(arguments, folder)...)
	command.Env = append(environment(h.data), "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
	var said bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = input, output, &said
	if err := command.Run(); err != nil {
		slog.Error("git failed", "service", service, "error", err, "stderr", said.String())
		http.Error(w, "git failed", http.StatusInternalServerError)
		return false
	}
	return true
}

// environment for every git command. The volume's folder belongs to root and the pod's group, which git takes for somebody else's.
func environment(home string) []string {
	return append(os.Environ(), "HOME="+home, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_AUTHOR_NAME=Magos demo", "GIT_AUTHOR_EMAIL=demo@magos.invalid",
		"GIT_COMMITTER_NAME=Magos demo", "GIT_COMMITTER_EMAIL=demo@magos.invalid")
}
