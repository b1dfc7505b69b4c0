//go:build runpod

package executor

import (
	"archive/zip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// Without a mirror the tools look for providers in folders too, unless they are told where else to look.
func TestAProviderThatTheRepositoryBringsIsNotInstalled(t *testing.T) {
	// Nobody listens there, and nothing but this test's folders has the provider.
	const host = "localhost:1"
	below := filepath.Join("plugins", host, "acme", "evil", "1.0.0", runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-evil_v1.0.0")
	module := `
terraform {
  required_providers {
    evil = {
      source = "` + host + `/acme/evil"
    }
  }
}
resource "evil_thing" "x" {}
`
	for name, home := range map[string]bool{"in the module's folder": false, "where the tools look by themselves": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			files := map[string]string{"main.tf": w.backend() + module}
			if !home {
				files[filepath.Join("terraform.d", below)] = "#!/bin/sh\n"
			}
			p := w.newPlan(w.repo.Commit(files), nil)
			p.in.ProviderMirror = ""
			if home {
				put(t, filepath.Join(p.dir, "scratch", "keeper", "home", ".terraform.d", below), "#!/bin/sh\n")
			}
			record, _ := p.mustFail(reasonFetchFailed)
			if !strings.Contains(record.Message, host) {
				t.Errorf("the record says %q", record.Message)
			}
			if left, _ := os.ReadDir(filepath.Join(w.root, "data", "plugin-cache")); len(left) != 0 {
				t.Errorf("the cache holds %v", left)
			}
		})
	}
}

// serveMirror serves the time provider as a network mirror, packed.
func serveMirror(t *testing.T) *httptest.Server {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "providers", "registry.opentofu.org", "hashicorp", "time")
	archive := fmt.Sprintf("terraform-provider-time_%s_%s_%s.zip", providerVersion, runtime.GOOS, runtime.GOARCH)
	put(t, filepath.Join(folder, "index.json"), `{"versions":{"`+providerVersion+`":{}}}`)
	put(t, filepath.Join(folder, providerVersion+".json"),
		fmt.Sprintf(`{"archives":{"%s_%s":{"url":%q}}}`, runtime.GOOS, runtime.GOARCH, archive))
	file, err := os.Create(filepath.Join(folder, archive))
	must(t, err)
	packed := zip.NewWriter(file)
	header := &zip.FileHeader{Name: "terraform-provider-time_v" + providerVersion, Method: zip.Store}
	header.SetMode(0o755)
	inside, err := packed.CreateHeader(header)
	must(t, err)
	binary, err := os.Open(required(t, "MAGOS_TEST_TIME_PROVIDER"))
	must(t, err)
	_, err = io.Copy(inside, binary)
	must(t, err)
	must(t, packed.Close())
	must(t, file.Close())
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(folder)))))))
	t.Cleanup(server.Close)
	return server
}

func TestAProviderMirrorWithoutTLSServes(t *testing.T) {
	w, server := newWorkspace(t), serveMirror(t)
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + withTime}), nil)
	p.in.ProviderMirror = server.URL + "/providers"
	record, _ := p.mustPlan()
	server.Close()
	p.mustApply(record.Digest)
	// The next run takes the provider from the cache of the volume, also for a module without a lock file.
	if _, resources := w.stateOf(); resources["time_static.now"] == nil {
		t.Errorf("the state holds %v", resources)
	}
}

// A run that is killed while it installs a provider leaves a part of it in the cache of the volume.
func TestATornProviderDoesNotBreakTheRunsToCome(t *testing.T) {
	w, server := newWorkspace(t), serveMirror(t)
	plan := func(files map[string]string) (runspec.Record, planned) {
		t.Helper()
		p := w.newPlan(w.repo.Commit(files), nil)
		p.in.ProviderMirror = server.URL + "/providers"
		return p.mustPlan()
	}
	cache := filepath.Join(w.root, "data", "plugin-cache")
	mark := filepath.Join(cache, fillingMark)
	tear := func() {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(cache, "*", "*", "*", "*", "*", "terraform-provider-*"))
		if must(t, err); len(found) != 1 {
			t.Fatalf("the cache holds %v", found)
		}
		must(t, os.Truncate(found[0], 1000))
	}
	plan(map[string]string{"main.tf": w.backend() + withTime})
	if _, err := os.Lstat(mark); !os.IsNotExist(err) {
		t.Errorf("the mark is still there: %v", err)
	}
	lock, err := os.ReadFile(filepath.Join(w.root, "data", "runs", "run-1", "sealed", "work", "source", lockFileName))
	must(t, err)

	tear()
	put(t, mark, "")
	_, result := plan(map[string]string{"README": "x"})
	if !strings.Contains(result.keeper.log, "ended while it filled the cache") {
		t.Errorf("without a lock file keeper said\n%s", result.keeper.log)
	}
	tear()
	_, result = plan(map[string]string{lockFileName: string(lock)})
	if !strings.Contains(result.keeper.log, "all are fetched again") {
		t.Errorf("with a lock file keeper said\n%s", result.keeper.log)
	}
	if _, err := os.Lstat(mark); !os.IsNotExist(err) {
		t.Errorf("the mark is still there: %v", err)
	}
}

// registry is a host that is asked for a provider and does not answer; it counts.
func registry(t *testing.T) (host string, asked *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	asked = &atomic.Int32{}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = connection.Close()
		}
	}()
	return "localhost:" + strings.Split(listener.Addr().String(), ":")[1], asked
}

func TestProvidersThatAreLimitedToAMirrorAreAskedForNowhereElse(t *testing.T) {
	for name, c := range map[string]struct {
		mirror func(*testing.T, *workspace) string
		// portless: OpenTofu does not ask network mirrors for hosts with a port.
		portless bool
	}{
		"a folder": {func(_ *testing.T, w *workspace) string { return w.mirror() }, false},
		"a server": {func(t *testing.T, _ *workspace) string { return serveMirror(t).URL + "/providers" }, true},
	} {
		for _, only := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, only %v", name, only), func(t *testing.T) {
				w := newWorkspace(t)
				host, asked := registry(t)
				if c.portless {
					host = "localhost"
				}
				at := c.mirror(t, w)
				plan := func(source string) *pod {
					p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + strings.ReplaceAll(withTime, "hashicorp/time", source)}), nil)
					p.in.ProviderMirror, p.in.ProviderMirrorOnly = at, only
					return p
				}
				plan("hashicorp/time").mustPlan()
				if n := asked.Load(); n != 0 {
					t.Errorf("the registry was asked %d times for what the mirror has", n)
				}
				record, result := plan(host + "/hashicorp/time").mustFail(reasonFetchFailed)
				// Nobody answers as the host: the tool says that it tried.
				tried := strings.Contains(strings.Join(strings.Fields(result.keeper.log), " "), "could not connect to")
				if tried == only || !c.portless && (asked.Load() == 0) != only {
					t.Errorf("the registry was asked %d times, tried %v: %s\n%s", asked.Load(), tried, record.Message, result.keeper.log)
				}
			})
		}
	}
}
