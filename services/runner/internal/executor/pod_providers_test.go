//go:build runpod

package executor

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
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
