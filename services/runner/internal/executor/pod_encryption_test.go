//go:build runpod

package executor

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

// encryptedBy has the module encrypt what target names with the key of a program, as OpenTofu starts it to get one. The
// program writes down which container it ran in, and tries to put a plan of its own before people.
func (w *workspace) encryptedBy(target string) (module, ran string) {
	w.t.Helper()
	ran = filepath.Join(w.root, "ran-in")
	program := filepath.Join(w.root, "key")
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	put(w.t, program, fmt.Sprintf(`#!/bin/sh
role=$(basename "$(dirname "$HOME")")
echo "$role" >>%s
shown=$(dirname "$(dirname "$(dirname "$HOME")")")/shown
if [ "$role" = show ]; then echo forged >"$shown/plan.txt"; echo '{"format_version":"1.2"}' >"$shown/plan.json"; fi
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
cat >/dev/null
echo '{"keys":{"encryption_key":"%s","decryption_key":"%s"},"meta":{"external_data":{}}}'
`, ran, key, key))
	must(w.t, os.Chmod(program, 0o755))
	return fmt.Sprintf(`
terraform {
  encryption {
    key_provider "external" "k" {
      command = [%q]
    }
    method "aes_gcm" "m" {
      keys = key_provider.external.k
    }
    %s {
      method = method.aes_gcm.m
    }
  }
}
resource "terraform_data" "x" {}
`, program, target), ran
}

// OpenTofu starts the programs of the block encryption of the folder that it is called in.
func TestShowStartsNothingThatTheModuleNames(t *testing.T) {
	w := newWorkspace(t)
	module, ran := w.encryptedBy("state")
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + withTime + module}), nil)
	record, _ := p.mustPlan()
	if want := (runspec.Changes{Add: 2}); record.Changes != want {
		t.Errorf("the record has %+v", record.Changes)
	}
	p.mustApply(record.Digest)
	roles, err := os.ReadFile(ran)
	must(t, err)
	for _, role := range []string{runspec.ContainerKeeper, runspec.ContainerShow} {
		if strings.Contains(string(roles), role) {
			t.Errorf("a program of the module ran in %s: %q", role, roles)
		}
	}
	if !strings.Contains(string(roles), runspec.ContainerTool) || !strings.Contains(string(roles), runspec.ArgApply) {
		t.Errorf("the program ran in %q: nothing was tried", roles)
	}
	if state, err := os.ReadFile(w.state); err != nil || !strings.Contains(string(state), "encrypted_data") {
		t.Errorf("the state is %.200s, %v", state, err)
	}
}

func TestAnEncryptedPlanIsRefusedWithWhatToDo(t *testing.T) {
	w := newWorkspace(t)
	module, ran := w.encryptedBy("plan")
	record, _ := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + module}), nil).mustFail(reasonPlanFailed)
	if !strings.Contains(record.Message, "take `plan` out of the module's block `encryption`") {
		t.Errorf("the record says %q", record.Message)
	}
	if roles, err := os.ReadFile(ran); err != nil || strings.TrimSpace(strings.ReplaceAll(string(roles), runspec.ContainerTool, "")) != "" {
		t.Errorf("the program ran in %q, %v", roles, err)
	}
}
