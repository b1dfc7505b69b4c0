//go:build runpod

package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"magosproject.io/services/runner/internal/executor/gitauth"
	"magosproject.io/services/runner/internal/executor/gittest"
	"magosproject.io/services/runner/internal/runspec"
)

// The tests of this tag play whole pods: every container is a process of its own, started as magos-exec is, over real
// git and a real OpenTofu. They need MAGOS_TEST_TOFU and MAGOS_TEST_TIME_PROVIDER, the paths of both binaries.

const (
	toolVersion     = "1.12.6"
	providerVersion = "0.14.2"
	envRole         = "MAGOS_TEST_ROLE"
	envRoot         = "MAGOS_TEST_ROOT"
	envNoLandlock   = "MAGOS_TEST_NO_LANDLOCK"
)

func TestMain(m *testing.M) {
	if code, called := gitauth.Called(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); called {
		os.Exit(code)
	}
	if role := os.Getenv(envRole); role != "" {
		os.Exit(playPart(role, os.Getenv(envRoot)))
	}
	os.Exit(m.Run())
}

// playPart is what the test binary does when it stands for magos-exec. root is the folder of one pod's volumes.
func playPart(role, root string) int {
	cfg := NewDefaultConfig()
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	cfg.Paths = Paths{
		Data: filepath.Join(filepath.Dir(root), "data"), Instructions: in("instructions.json"), Variables: in("variables"),
		Locks: in("locks"), Signals: in("signals"), Shown: in("shown"), Scratch: in("scratch", role),
		ImageTools: filepath.Join(filepath.Dir(root), "image-tools"), TerminationLog: in("termination-" + role),
		Repositories: in("repositories"), Credentials: in("credentials"),
	}
	cfg.Self = os.Args[0]
	cfg.Sites = nil
	cfg.Landlock = cfg.Landlock && os.Getenv(envNoLandlock) == ""
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "MAGOS_TEST_") {
			cfg.Environment = append(cfg.Environment, entry)
		}
	}
	cfg.Stdout, cfg.Stderr = os.Stdout, os.Stderr
	return Run(role, cfg)
}

// workspace is a Workspace's volume, repository and run image.
type workspace struct {
	t     *testing.T
	root  string
	repo  gittest.Repo
	state string
	runs  int
}

func required(t *testing.T, name string) string {
	t.Helper()
	path := os.Getenv(name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s must name a binary: %v", name, err)
	}
	return path
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	// Providers listen on sockets below TMPDIR, whose names may have 108 bytes at most: t.TempDir is too long.
	root, err := os.MkdirTemp("", "pod-")
	must(t, err)
	t.Cleanup(func() { _ = removeTree(root) })
	w := &workspace{t: t, root: root, repo: gittest.Serve(t, "git commit -q --allow-empty -m first")}
	w.state = filepath.Join(w.root, "state.tfstate")
	must(t, os.MkdirAll(filepath.Join(w.root, "data"), 0o755))
	w.installTool(`exec ` + required(t, "MAGOS_TEST_TOFU") + ` "$@"`)
	return w
}

// installTool puts a script in the place of tofu; its last line usually starts the real one.
func (w *workspace) installTool(script string) {
	w.t.Helper()
	path := filepath.Join(w.root, "image-tools", "opentofu", toolVersion, "tofu")
	put(w.t, path, "#!/bin/sh\n"+script+"\n")
	must(w.t, os.Chmod(path, 0o755))
}

// hostileTool runs script as module code would run at plan time, around the real tool: before for what precedes it,
// after for what follows. $WORK is the run's working copy, $SIGNALS, $LOCKS and $SCRATCH what the container sees.
func (w *workspace) hostileTool(before, after string) {
	w.t.Helper()
	real := required(w.t, "MAGOS_TEST_TOFU")
	w.installTool(fmt.Sprintf(`
if [ "$1" != plan ]; then exec %[1]s "$@"; fi
SCRATCH=$(dirname "$HOME"); POD=$(dirname "$(dirname "$SCRATCH")"); LOCKS=$POD/locks; SIGNALS=$POD/signals
for arg; do case $arg in -out=*) PLAN=${arg#-out=}; WORK=$(dirname "$PLAN");; esac; done
%[2]s
%[1]s "$@" || exit $?
%[3]s
exit 0`, real, before, after))
}

// pod is one pod of a run.
type pod struct {
	*workspace
	dir string
	in  runspec.Instructions
}

func (w *workspace) newPlan(commit string, variables map[string]string) *pod {
	w.t.Helper()
	w.runs++
	p := &pod{workspace: w, dir: filepath.Join(w.root, fmt.Sprintf("pod-plan-%d", w.runs)), in: runspec.Instructions{
		Version: runspec.Version, RunID: fmt.Sprintf("run-%d", w.runs), Phase: runspec.PhasePlan, Namespace: "ns", Workspace: "ws",
		RepoURL: w.repo.URL, Revision: commit, TargetRevision: "main", RecurseSubmodules: true, Path: ".", Engine: "OpenTofu", ToolVersion: toolVersion,
		Timeout: runspec.Duration(5 * time.Minute), Grace: runspec.Duration(time.Minute), ProviderMirror: w.mirror(),
	}}
	for _, folder := range []string{"locks", "signals", "shown", "variables", "scratch/keeper", "scratch/tool", "scratch/show"} {
		must(w.t, os.MkdirAll(filepath.Join(p.dir, folder), 0o755))
	}
	for name, value := range variables {
		if value != absent {
			put(w.t, filepath.Join(p.dir, "variables", fmt.Sprint(len(p.in.Variables))), value)
		}
		p.in.Variables = append(p.in.Variables, name)
	}
	return p
}

// absent is the value of an optional reference that leads nowhere.
const absent = "\x00absent"

func (p *pod) newApply(digest string) *pod {
	p.t.Helper()
	in := p.in
	in.Phase, in.PlanDigest, in.Variables = runspec.PhaseApply, digest, nil
	a := &pod{workspace: p.workspace, dir: p.dir + "-apply", in: in}
	must(p.t, os.MkdirAll(filepath.Join(a.dir, "scratch", "apply"), 0o755))
	return a
}

// mirror is a provider mirror in a folder, with the time provider.
func (w *workspace) mirror() string {
	w.t.Helper()
	mirror := filepath.Join(w.root, "mirror")
	dir := filepath.Join(mirror, "registry.opentofu.org", "hashicorp", "time", providerVersion, runtime.GOOS+"_"+runtime.GOARCH)
	must(w.t, os.MkdirAll(dir, 0o755))
	err := os.Symlink(required(w.t, "MAGOS_TEST_TIME_PROVIDER"), filepath.Join(dir, "terraform-provider-time_v"+providerVersion))
	if err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
	return mirror
}

// ended is how one container ended.
type ended struct {
	code    int
	message string
	log     string
}

type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string
	role string
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(data)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (p *pod) start(role string, env ...string) *running {
	p.t.Helper()
	data, err := json.Marshal(p.in)
	must(p.t, err)
	// The containers that were started before may be reading it.
	put(p.t, filepath.Join(p.dir, "instructions.new"), string(data))
	must(p.t, os.Rename(filepath.Join(p.dir, "instructions.new"), filepath.Join(p.dir, "instructions.json")))
	r := &running{t: p.t, cmd: exec.Command(os.Args[0]), dir: p.dir, role: role, log: &lockedBuffer{}}
	r.cmd.Env = append(append(os.Environ(), envRole+"="+role, envRoot+"="+p.dir), env...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	// What module code leaves running holds the log open; a container runtime would have killed it.
	r.cmd.WaitDelay = 5 * time.Second
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(p.t, r.cmd.Start())
	p.t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	return r
}

func (r *running) wait() ended {
	r.t.Helper()
	if err := r.cmd.Wait(); r.cmd.ProcessState == nil {
		r.t.Fatalf("waiting for %s: %v", r.role, err)
	}
	message, _ := os.ReadFile(filepath.Join(r.dir, "termination-"+r.role))
	return ended{code: r.cmd.ProcessState.ExitCode(), message: string(message), log: r.log.String()}
}

// waitFor returns when the log holds text.
func (r *running) waitFor(text string) {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if strings.Contains(r.log.String(), text) {
			return
		}
	}
	r.t.Fatalf("%s never printed %q:\n%s", r.role, text, r.log)
}

type planned struct {
	keeper, tool, show ended
}

// plan plays a whole plan pod.
func (p *pod) plan() planned {
	p.t.Helper()
	keeper, tool, show := p.start(runspec.ContainerKeeper), p.start(runspec.ContainerTool), p.start(runspec.ContainerShow)
	result := planned{tool: tool.wait(), keeper: keeper.wait(), show: show.wait()}
	if p.t.Failed() {
		p.t.Logf("keeper: %+v\ntool: %+v\nshow: %+v", result.keeper, result.tool, result.show)
	}
	return result
}

func (r planned) String() string {
	return fmt.Sprintf("keeper %d %s\n%s\ntool %d %s\n%s\nshow %d %s\n%s", r.keeper.code, r.keeper.message, r.keeper.log,
		r.tool.code, r.tool.message, r.tool.log, r.show.code, r.show.message, r.show.log)
}

// mustPlan plays a plan pod that succeeds.
func (p *pod) mustPlan() (runspec.Record, planned) {
	p.t.Helper()
	result := p.plan()
	record, err := runspec.ParseRecord(result.keeper.message, p.in.RunID)
	if err != nil || record.Outcome != runspec.OutcomePlanned || result.keeper.code != 0 || result.tool.code != 0 || result.show.code != 0 {
		p.t.Fatalf("the plan did not succeed: %v\n%s", err, result)
	}
	return record, result
}

// mustFail plays a plan pod that fails, and returns keeper's record.
func (p *pod) mustFail(reason string) (runspec.Record, planned) {
	p.t.Helper()
	result := p.plan()
	record, err := runspec.ParseRecord(result.keeper.message, p.in.RunID)
	if err != nil || record.Outcome != runspec.OutcomeFailed || record.Reason != reason || result.keeper.code == 0 {
		p.t.Fatalf("want a record of %s: %v\n%s", reason, err, result)
	}
	return record, result
}

func (p *pod) mustApply(digest string) ended {
	p.t.Helper()
	result := p.newApply(digest).start(runspec.ArgApply).wait()
	if result.code != 0 {
		p.t.Fatalf("the apply ended with %d: %s\n%s", result.code, result.message, result.log)
	}
	return result
}

// stateOf reads the state that the module keeps outside of the run.
func (w *workspace) stateOf() (serial int, resources map[string]map[string]any) {
	w.t.Helper()
	var state struct {
		Serial    int `json:"serial"`
		Resources []struct {
			Type, Name string
			Instances  []struct {
				Attributes map[string]any `json:"attributes"`
			}
		}
	}
	data, err := os.ReadFile(w.state)
	if os.IsNotExist(err) {
		return 0, nil
	}
	must(w.t, err)
	must(w.t, json.Unmarshal(data, &state))
	resources = map[string]map[string]any{}
	for _, r := range state.Resources {
		for _, instance := range r.Instances {
			resources[r.Type+"."+r.Name] = instance.Attributes
		}
	}
	return state.Serial, resources
}

// backend is the module's own part that keeps its state outside of the run.
func (w *workspace) backend() string {
	return fmt.Sprintf("terraform {\n  backend \"local\" {\n    path = %q\n  }\n}\n", w.state)
}
