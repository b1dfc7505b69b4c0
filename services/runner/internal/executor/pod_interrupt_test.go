//go:build runpod

package executor

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"magosproject.io/services/runner/internal/runspec"
)

func TestAnApplyThatIsAskedToEndKeepsItsState(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
resource "terraform_data" "a" {
  input = "a"
}
resource "terraform_data" "b" {
  depends_on = [terraform_data.a]
  provisioner "local-exec" {
    command = "echo b has begun; sleep 120"
  }
}
`}), nil)
	record, _ := p.mustPlan()
	apply := p.newApply(record.Digest).start(runspec.ArgApply)
	apply.waitFor("b has begun")
	// A second signal must not reach the tool: it would give up its state.
	must(t, apply.cmd.Process.Signal(syscall.SIGTERM))
	must(t, apply.cmd.Process.Signal(syscall.SIGINT))
	result := apply.wait()
	if result.code != runspec.ExitInterrupted || !strings.Contains(result.message, "asked to end") {
		t.Errorf("the apply ended with %d: %s\n%s", result.code, result.message, result.log)
	}
	if _, resources := w.stateOf(); resources["terraform_data.a"] == nil {
		t.Errorf("the state holds %v\n%s", resources, result.log)
	}
	if _, err := os.Stat(filepath.Join(w.root, ".state.tfstate.lock.info")); !os.IsNotExist(err) {
		t.Errorf("the state is still locked: %v", err)
	}
	if got := p.newApply(record.Digest).start(runspec.ArgApply).wait(); got.code != runspec.ExitAlreadyUsed {
		t.Errorf("the plan was used again: %d", got.code)
	}
	if next, _ := w.newPlan(p.in.Revision, nil).mustPlan(); next.Changes.Add+next.Changes.Replace != 1 {
		t.Errorf("the next plan has %+v", next.Changes)
	}
}

func TestAnApplyWhoseToolIsKilledIsNotRepeated(t *testing.T) {
	w := newWorkspace(t)
	mark := filepath.Join(w.root, "created")
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "echo created >>` + mark + `; kill -9 $PPID"
  }
}
`}), nil)
	record, _ := p.mustPlan()
	if got := p.newApply(record.Digest).start(runspec.ArgApply).wait(); got.code != runspec.ExitToolFailed {
		t.Errorf("the apply ended with %d: %s", got.code, got.message)
	}
	if got := p.newApply(record.Digest).start(runspec.ArgApply).wait(); got.code != runspec.ExitAlreadyUsed {
		t.Errorf("the plan was used again: %d", got.code)
	}
	if lines, err := os.ReadFile(mark); err != nil || string(lines) != "created\n" {
		t.Errorf("the resource was created %q, %v", lines, err)
	}
}

// stateServer is an HTTP backend that can refuse to lock or to save.
type stateServer struct {
	mu             sync.Mutex
	state          []byte
	locked, refuse bool
}

func (s *stateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case "LOCK":
		if s.locked {
			w.WriteHeader(http.StatusLocked)
			fmt.Fprint(w, `{"ID":"1234","Who":"somebody else"}`)
		}
	case "UNLOCK":
	case http.MethodGet:
		if len(s.state) == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(s.state)
	case http.MethodPost:
		if s.refuse {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.state, _ = io.ReadAll(r.Body)
	}
}

func (s *stateServer) serve(t *testing.T) string {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return fmt.Sprintf("terraform {\n  backend \"http\" {\n    address        = %[1]q\n    lock_address   = %[1]q\n"+
		"    unlock_address = %[1]q\n    retry_max      = 0\n  }\n}\n", server.URL)
}

func TestALockedStateIsSaidToBeLocked(t *testing.T) {
	w, backend := newWorkspace(t), &stateServer{}
	commit := w.repo.Commit(map[string]string{"main.tf": backend.serve(t) + "resource \"terraform_data\" \"x\" {}\n"})
	p := w.newPlan(commit, nil)
	record, _ := p.mustPlan()
	backend.locked = true
	if got := p.newApply(record.Digest).start(runspec.ArgApply).wait(); got.code != runspec.ExitStateLocked {
		t.Errorf("the apply ended with %d: %s", got.code, got.message)
	}
	_, result := w.newPlan(commit, nil).mustFail(reasonPlanFailed)
	if result.tool.code != runspec.ExitStateLocked || !strings.Contains(result.tool.message, "locked by somebody else") {
		t.Errorf("tool ended with %d: %s", result.tool.code, result.tool.message)
	}
}

func TestAStateThatTheBackendRefusesIsKept(t *testing.T) {
	w, backend := newWorkspace(t), &stateServer{}
	commit := w.repo.Commit(map[string]string{"main.tf": backend.serve(t) + "resource \"terraform_data\" \"x\" {}\n"})
	p := w.newPlan(commit, nil)
	record, _ := p.mustPlan()
	backend.refuse = true
	got := p.newApply(record.Digest).start(runspec.ArgApply).wait()
	where := "runs/run-1/claim/errored.tfstate"
	if got.code != runspec.ExitToolFailed || !strings.Contains(got.message, where) {
		t.Errorf("the apply ended with %d: %s\n%s", got.code, got.message, got.log)
	}
	backend.refuse = false
	w.newPlan(commit, nil).mustPlan()
	state, err := os.ReadFile(filepath.Join(w.root, "data", where))
	if err != nil || !strings.Contains(string(state), "terraform_data") {
		t.Errorf("the kept state is %q, %v", state, err)
	}
}

func TestARepositorysOwnToolDataDoesNotCount(t *testing.T) {
	w := newWorkspace(t)
	elsewhere := filepath.Join(w.root, "elsewhere.tfstate")
	p := w.newPlan(w.repo.Commit(map[string]string{
		"main.tf": w.backend() + "resource \"terraform_data\" \"x\" {}\n",
		".terraform/terraform.tfstate": fmt.Sprintf(
			`{"version":3,"serial":1,"lineage":"x","backend":{"type":"local","config":{"path":%q},"hash":1}}`, elsewhere),
		".terraform/providers/x": "#!/bin/sh\n", ".terraformrc": "provider_installation {}\n", ".tofurc": "plugin_cache_dir = \"/\"\n",
	}), nil)
	record, result := p.mustPlan()
	if !strings.Contains(result.keeper.log, "data of the tool's own") {
		t.Errorf("keeper's log:\n%s", result.keeper.log)
	}
	p.mustApply(record.Digest)
	if _, resources := w.stateOf(); resources["terraform_data.x"] == nil {
		t.Errorf("the state holds %v", resources)
	}
	if _, err := os.Stat(elsewhere); !os.IsNotExist(err) {
		t.Errorf("the other state: %v", err)
	}
}

func TestAMissingValueFailsAndDoesNotAsk(t *testing.T) {
	w := newWorkspace(t)
	_, result := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + "variable \"needed\" {}\n"}), nil).mustFail(reasonPlanFailed)
	if result.tool.code != runspec.ExitToolFailed || !strings.Contains(result.tool.message, "needed") {
		t.Errorf("tool ended with %d: %s", result.tool.code, result.tool.message)
	}
}

func TestWhatCannotBeFetchedIsSaid(t *testing.T) {
	w := newWorkspace(t)
	commit := w.repo.Commit(map[string]string{"main.tf": w.backend(), "infra/dev/main.tf": w.backend()})
	for name, c := range map[string]struct {
		change func(*runspec.Instructions)
		reason string
		code   int
		part   string
	}{
		"path":    {func(in *runspec.Instructions) { in.Path = "infra/prod" }, reasonFetchFailed, runspec.ExitFetchFailed, "nearest folder that exists is infra"},
		"tfvars":  {func(in *runspec.Instructions) { in.TfvarsPath = "x.tfvars" }, reasonFetchFailed, runspec.ExitFetchFailed, "x.tfvars"},
		"commit":  {func(in *runspec.Instructions) { in.Revision = strings.Repeat("0", 40) }, reasonFetchFailed, runspec.ExitFetchFailed, "0000000000"},
		"scheme":  {func(in *runspec.Instructions) { in.RepoURL = "file://" + w.repo.Dir }, reasonFetchFailed, runspec.ExitFetchFailed, "file"},
		"version": {func(in *runspec.Instructions) { in.ToolVersion = "1.99.0" }, reasonToolUnavailable, runspec.ExitToolUnavailable, "versions at hand: 1.12.6"},
	} {
		p := w.newPlan(commit, nil)
		c.change(&p.in)
		record, result := p.mustFail(c.reason)
		if result.keeper.code != c.code || !strings.Contains(record.Message, c.part) {
			t.Errorf("%s: keeper ended with %d: %s", name, result.keeper.code, record.Message)
		}
		if result.tool.code != runspec.ExitPeerEnded || result.show.code != runspec.ExitPeerEnded {
			t.Errorf("%s: tool ended with %d, show with %d", name, result.tool.code, result.show.code)
		}
	}
}

func TestKeeperThatIsAskedToEndSaysInterrupted(t *testing.T) {
	w := newWorkspace(t)
	w.hostileTool(`trap 'exit 1' INT; echo waiting; i=0; while [ $i -lt 1000 ]; do sleep 0.1; i=$((i+1)); done`, "")
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend()}), nil)
	keeper, tool, show := p.start(runspec.ContainerKeeper), p.start(runspec.ContainerTool), p.start(runspec.ContainerShow)
	tool.waitFor("waiting")
	for _, r := range []*running{keeper, tool, show} {
		must(t, r.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, r := range []*running{keeper, tool, show} {
		got := r.wait()
		// Show may see keeper's end before it sees its own signal.
		if got.code != runspec.ExitInterrupted && (r != show || got.code != runspec.ExitPeerEnded) {
			t.Errorf("%s ended with %d: %s\n%s", r.role, got.code, got.message, got.log)
		}
	}
	message, err := os.ReadFile(filepath.Join(p.dir, "termination-keeper"))
	must(t, err)
	if record, err := runspec.ParseRecord(string(message), p.in.RunID); err != nil || record.Reason != reasonInterrupted {
		t.Errorf("keeper's record is %+v, %v", record, err)
	}
}
