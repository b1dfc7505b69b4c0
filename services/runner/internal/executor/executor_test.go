package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/executor/mask"
	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/executor/tfvars"
	"magosproject.io/services/runner/internal/runspec"
)

func newContainer(t *testing.T) *container {
	t.Helper()
	root := t.TempDir()
	cfg := NewDefaultConfig()
	cfg.Paths = Paths{
		Data: filepath.Join(root, "data"), Instructions: filepath.Join(root, "instructions.json"),
		Variables: filepath.Join(root, "variables"), Locks: filepath.Join(root, "locks"), Signals: filepath.Join(root, "signals"),
		Shown: filepath.Join(root, "shown"), Scratch: filepath.Join(root, "scratch"), ImageTools: filepath.Join(root, "tools"),
		TerminationLog: filepath.Join(root, "termination-log"),
	}
	cfg.Poll, cfg.Stdout, cfg.Stderr = time.Millisecond, io.Discard, io.Discard
	for _, folder := range []string{cfg.Paths.Data, cfg.Paths.Variables, cfg.Paths.Locks, cfg.Paths.Signals, cfg.Paths.Shown, cfg.Paths.Scratch} {
		must(t, os.MkdirAll(folder, 0o755))
	}
	return &container{cfg: cfg, log: slog.New(slog.DiscardHandler), in: runspec.Instructions{Version: runspec.Version, RunID: "run-1"}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, name, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(content), 0o644))
}

func TestReasonsAreThoseOfTheAPI(t *testing.T) {
	for ours, theirs := range map[string]v1alpha1.Reason{
		reasonPlanFailed: v1alpha1.ReasonPlanFailed, reasonTimedOut: v1alpha1.ReasonTimedOut,
		reasonInterrupted: v1alpha1.ReasonInterrupted, reasonFetchFailed: v1alpha1.ReasonFetchFailed,
		reasonToolUnavailable: v1alpha1.ReasonToolUnavailable, reasonStorageNotWritable: v1alpha1.ReasonStorageNotWritable,
		reasonStateLocked: v1alpha1.ReasonStateLocked, reasonApplyFailed: v1alpha1.ReasonApplyFailed,
		reasonSealBroken: v1alpha1.ReasonSealBroken, reasonAlreadyUsed: v1alpha1.ReasonAlreadyUsed,
		reasonStalePlan: v1alpha1.ReasonStalePlan, reasonStorageFull: v1alpha1.ReasonStorageFull,
	} {
		if ours != theirs {
			t.Errorf("%q is %q in the API", ours, theirs)
		}
	}
}

func TestARecordFitsHoweverLongItsMessage(t *testing.T) {
	for name, message := range map[string]string{
		"short": "no such host", "long": strings.Repeat("x", 50_000), "escapes": strings.Repeat("\x01\"\n", 9000),
		"wide": strings.Repeat("ü€", 9000), "binary": strings.Repeat("\xff\xfe", 9000), "html": strings.Repeat("<>&", 9000),
	} {
		data, err := renderRecord(failedRecord(runspec.Instructions{RunID: "r"}, failf(75, reasonFetchFailed, "%s", message)))
		if err != nil || len(data) > runspec.MaxRecordBytes {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
			continue
		}
		record, err := runspec.ParseRecord(string(data), "r")
		if err != nil || record.Reason != reasonFetchFailed || record.Message == "" {
			t.Errorf("%s: %+v, %v", name, record, err)
		}
		if name != "binary" && len(message) > 9000 && len(data) < runspec.MaxRecordBytes*3/4 {
			t.Errorf("%s: only %d bytes are used", name, len(data))
		}
	}
}

func TestALockTellsAbsentAliveAndEnded(t *testing.T) {
	dir := t.TempDir()
	watchers := []*peer{{folder: dir, name: "tool"}, {folder: dir, name: "tool"}}
	expect := func(when string, want peerState) {
		t.Helper()
		for range 3 {
			for _, w := range watchers {
				if got, err := w.state(); err != nil || got != want {
					t.Fatalf("%s: %v, %v; want %v", when, got, err, want)
				}
			}
		}
	}
	expect("before", peerAbsent)
	lock, err := holdLock(dir, "tool")
	must(t, err)
	expect("while held", peerAlive)
	// What module code can do to the name changes nothing for who has seen it.
	must(t, os.Remove(filepath.Join(dir, "tool")))
	put(t, filepath.Join(dir, "tool"), "")
	expect("while replaced", peerAlive)
	must(t, unix.Close(lock))
	expect("after", peerEnded)
}

func TestALockThatIsNoFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	for _, name := range []string{"pipe", "link"} {
		if state, err := (&peer{folder: dir, name: name}).state(); err == nil {
			t.Errorf("%s: %v", name, state)
		}
	}
}

func codeAndReason(err error) (int, string) {
	var f *failure
	if errors.As(err, &f) {
		return f.code, f.reason
	}
	return 0, ""
}

func TestWaitingForKeeperEndsWithKeeper(t *testing.T) {
	c := newContainer(t)
	lock, err := holdLock(c.cfg.Paths.Locks, runspec.ContainerKeeper)
	must(t, err)
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = unix.Close(lock)
	}()
	_, err = c.waitForSignal(t.Context(), runspec.SignalFetched, time.Minute)
	if code, _ := codeAndReason(err); code != runspec.ExitPeerEnded {
		t.Errorf("keeper ended without a word: %v", err)
	}
	must(t, writeSignal(c.cfg.Paths.Signals, runspec.SignalFetched, []byte("{}")))
	if content, err := c.waitForSignal(t.Context(), runspec.SignalFetched, time.Minute); err != nil || string(content) != "{}" {
		t.Errorf("keeper ended after its signal: %q, %v", content, err)
	}
}

// firstWords tells when something was written.
type firstWords struct {
	text bytes.Buffer
	told func()
}

func (f *firstWords) Write(data []byte) (int, error) {
	f.told()
	return f.text.Write(data)
}

func TestWaitsHaveDeadlinesAndSayWhatTheyWaitFor(t *testing.T) {
	c := newContainer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &firstWords{told: cancel}
	c.log = slog.New(slog.NewTextHandler(log, nil))
	c.cfg.Progress = time.Nanosecond
	if _, err := c.waitForSignal(ctx, runspec.SignalFetched, time.Hour); err == nil || !strings.Contains(log.text.String(), "keeper (fetched)") {
		t.Errorf("%v, and the log is %q", err, log.text.String())
	}
	_, err := c.waitForSignal(t.Context(), runspec.SignalFetched, 50*time.Millisecond)
	if code, reason := codeAndReason(err); code != runspec.ExitTimedOut || reason != reasonTimedOut {
		t.Errorf("%v", err)
	}
	c.cfg.PeerStart = time.Nanosecond
	if _, err := c.waitForSignal(t.Context(), runspec.SignalFetched, time.Minute); !strings.Contains(err.Error(), "did not start") {
		t.Errorf("keeper never starts: %v", err)
	}
	if err := c.waitForEnd(t.Context(), runspec.ContainerTool, time.Minute, nil); !strings.Contains(err.Error(), "did not start") {
		t.Errorf("tool never starts: %v", err)
	}
}

func TestASignalIsARegularFileOnly(t *testing.T) {
	dir := t.TempDir()
	if content, err := readSignal(dir, "fetched"); content != nil || err != nil {
		t.Errorf("absent: %q, %v", content, err)
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "fetched")))
	if content, err := readSignal(dir, "fetched"); err == nil {
		t.Errorf("a link: %q", content)
	}
}

func TestTheEnvironmentKeepsTheIdentityAndDropsWhatSteersTheTool(t *testing.T) {
	c := newContainer(t)
	c.cfg.Environment = []string{
		"AWS_ROLE_ARN=arn", "AWS_WEB_IDENTITY_TOKEN_FILE=/token", "AZURE_CLIENT_ID=x", "KUBERNETES_SERVICE_HOST=10.0.0.1",
		"TF_LOG=DEBUG", "TF_VAR_a=1", "TF_CLI_ARGS_apply=-destroy", "TF_DATA_DIR=/x", "TF_CLI_CONFIG_FILE=/x", "TF_INPUT=1",
		"GIT_SSH_COMMAND=evil", "HOME=/root", "TMPDIR=/x", "PATH=/bin", "WITH=a=b",
	}
	env, err := c.toolEnvironment("/cli.tfrc")
	must(t, err)
	got := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s appears twice", name)
		}
		got[name] = value
	}
	for name, want := range map[string]string{
		"AWS_ROLE_ARN": "arn", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AZURE_CLIENT_ID": "x", "KUBERNETES_SERVICE_HOST": "10.0.0.1",
		"TF_LOG": "DEBUG", "WITH": "a=b", "PATH": "/bin", "HOME": filepath.Join(c.cfg.Paths.Scratch, "home"),
		"TMPDIR": filepath.Join(c.cfg.Paths.Scratch, "tmp"), "TF_CLI_CONFIG_FILE": "/cli.tfrc", "TF_DATA_DIR": ".terraform",
		"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more came through: %v", got)
	}
}

func TestVariablesReachTheToolByteForByteOrNotAtAll(t *testing.T) {
	c := newContainer(t)
	big := strings.Repeat("ü\"${x}\n", 30_000)
	values := []string{"$$ $(OTHER) ${x}\n", "", "\xff\xfe", big, "unset"}
	c.in.Variables = []string{"plain", "empty", "binary", "big", "optional"}
	for i, value := range values[:4] {
		put(t, filepath.Join(c.cfg.Paths.Variables, fmt.Sprint(i)), value)
	}
	variables, err := c.readVariables()
	must(t, err)
	g, err := c.give(variables, tfvars.Declared{"plain": {}, "empty": {}, "binary": {}, "big": {}})
	must(t, err)
	defer g.close()
	want := []string{"TF_VAR_plain=" + values[0], "TF_VAR_empty=", "TF_VAR_binary=\xff\xfe"}
	if !slices.Equal(g.environment, want) {
		t.Errorf("environment %q, want %q", g.environment, want)
	}
	if len(g.files()) != 1 || len(g.arguments()) != 1 {
		t.Fatalf("files %v, arguments %v", g.files(), g.arguments())
	}
	var out bytes.Buffer
	must(t, process.Own().Run(t.Context(), process.Command{
		Path: "/bin/cat", Args: []string{strings.TrimPrefix(g.arguments()[0], "-var-file=")}, Output: &out, Files: g.files()}, 0))
	var carried map[string]string
	if err := json.Unmarshal(out.Bytes(), &carried); err != nil || len(carried) != 1 || carried["big"] != big {
		t.Errorf("the file begins with %.40q, %v", out.String(), err)
	}

	for name, c2 := range map[string]struct {
		declared tfvars.Declaration
		value    string
	}{
		"no expression": {tfvars.Declaration{Expression: true}, big}, "no text": {tfvars.Declaration{}, big + "\xff"},
	} {
		_, err := c.give([]variable{{name: "big", value: c2.value}}, tfvars.Declared{"big": c2.declared})
		if err == nil || !strings.Contains(err.Error(), "variable big") || strings.Contains(err.Error(), "ü") {
			t.Errorf("a large one that is %s: %v", name, err)
		}
	}
	if g, err := c.give([]variable{{name: "big", value: big}}, tfvars.Declared{}); err != nil || len(g.environment) > 0 || g.large != nil {
		t.Errorf("a large undeclared one: %v, %v", g, err)
	}
}

func TestAnEnvironmentStringJustBelowTheLimitPasses(t *testing.T) {
	c := newContainer(t)
	v := variable{name: "a", value: strings.Repeat("x", environmentLimit-1-len("TF_VAR_a="))}
	g, err := c.give([]variable{v}, tfvars.Declared{"a": {}})
	must(t, err)
	var out bytes.Buffer
	must(t, process.Own().Run(t.Context(), process.Command{Path: "/bin/true", Env: g.environment, Output: &out}, 0))
	v.value += "x"
	g, err = c.give([]variable{v}, tfvars.Declared{"a": {}})
	if err != nil || len(g.environment) > 0 || g.large == nil {
		t.Errorf("one byte more: %d strings in the environment, %v", len(g.environment), err)
	}
	g.close()
}

// TestWhatAnEnvironmentCannotCarryAltogetherGoesIntoTheFile: each value fits, all of them do not.
func TestWhatAnEnvironmentCannotCarryAltogetherGoesIntoTheFile(t *testing.T) {
	c := newContainer(t)
	declared := tfvars.Declared{}
	var variables []variable
	for i := range 40 {
		v := variable{name: fmt.Sprintf("v%d", i), value: strings.Repeat("x", 100_000)}
		variables = append(variables, v)
		declared[v.name] = tfvars.Declaration{}
	}
	g, err := c.give(variables, declared)
	must(t, err)
	defer g.close()
	var carried map[string]string
	var out bytes.Buffer
	must(t, process.Own().Run(t.Context(), process.Command{
		Path: "/bin/cat", Args: []string{g.largeName}, Env: g.environment, Output: &out, Files: g.files()}, 0))
	if err := json.Unmarshal(out.Bytes(), &carried); err != nil || len(carried)+len(g.environment) != 40 || len(g.environment) < 5 {
		t.Errorf("%d in the environment, %d in the file, %v", len(g.environment), len(carried), err)
	}
}

func TestNamesThatAreNoneAreRefused(t *testing.T) {
	c := newContainer(t)
	for _, name := range []string{"a=b", "", "1a", "ü", "a b", "../x"} {
		c.in.Variables = []string{name}
		if _, err := c.readVariables(); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	c.in.Variables = []string{"a"}
	put(t, filepath.Join(c.cfg.Paths.Variables, "0"), "x\x00y")
	if _, err := c.readVariables(); err == nil || !strings.Contains(err.Error(), "NUL") {
		t.Errorf("a NUL byte: %v", err)
	}
}

func TestStorageThatCannotBeWrittenIsNamed(t *testing.T) {
	c := newContainer(t)
	put(t, c.cfg.Paths.pluginCache(), "a file where a folder should be")
	err := c.prepareStorage()
	code, reason := codeAndReason(err)
	if code != runspec.ExitStorageNotWritable || reason != reasonStorageNotWritable || !strings.Contains(err.Error(), c.cfg.Paths.pluginCache()) {
		t.Errorf("%v", err)
	}
}

func TestEarlierRunsAreRemovedButNotAStateThatCouldNotBeSaved(t *testing.T) {
	c := newContainer(t)
	p := c.cfg.Paths
	put(t, filepath.Join(p.work("run-1"), "mine"), "")
	put(t, filepath.Join(p.work("old"), "deep", "x"), "")
	must(t, os.Chmod(filepath.Join(p.work("old"), "deep"), 0))
	put(t, filepath.Join(p.claim("old"), claimMark), "")
	put(t, filepath.Join(p.sealed("failed"), "x"), "")
	put(t, filepath.Join(p.claim("failed"), erroredState), "state")
	outside := filepath.Join(t.TempDir(), "outside")
	put(t, outside, "")
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(p.runs(), "link")))
	must(t, os.MkdirAll(p.claim("forged"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(p.claim("forged"), erroredState)))
	c.pruneRuns()
	var left []string
	must(t, filepath.WalkDir(p.runs(), func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			left = append(left, strings.TrimPrefix(name, p.runs()+"/"))
		}
		return err
	}))
	if want := []string{"failed/claim/errored.tfstate", "run-1/work/mine"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

// A full disk shows itself by an error of the kernel or by what a program prints; it outranks only what it may have caused.
func TestAFullDiskIsNamed(t *testing.T) {
	c := newContainer(t)
	c.in.Workspace = "vpc"
	for name, test := range map[string]struct {
		err  error
		code int
	}{
		"kernel":       {fmt.Errorf("sealing: %w", &os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}), runspec.ExitStorageFull},
		"quota":        {fail(runspec.ExitStorageNotWritable, reasonStorageNotWritable, unix.EDQUOT), runspec.ExitStorageFull},
		"git":          {failf(runspec.ExitFetchFailed, reasonFetchFailed, "git: fatal: write error: No space left on device"), runspec.ExitStorageFull},
		"the tool":     {failf(runspec.ExitToolFailed, reasonApplyFailed, "exit status 1; it says:\nwrite x: no space left on\ndevice"), runspec.ExitStorageFull},
		"an interrupt": {failf(runspec.ExitInterrupted, reasonInterrupted, "ended; no space left on device"), runspec.ExitInterrupted},
		"a used plan":  {failf(runspec.ExitAlreadyUsed, reasonAlreadyUsed, "no space left on device"), runspec.ExitAlreadyUsed},
		"another":      {failf(runspec.ExitToolFailed, reasonPlanFailed, "no such file"), runspec.ExitToolFailed},
	} {
		got := c.orStorageFull(test.err)
		code, reason := codeAndReason(got)
		if code != test.code || (code == runspec.ExitStorageFull) != (reason == reasonStorageFull) {
			t.Errorf("%s: %d %s", name, code, reason)
		}
		if code == runspec.ExitStorageFull && (!strings.Contains(got.Error(), "volume vpc-data: ") || !strings.Contains(got.Error(), "MiB free")) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestALogThatIsGoneDoesNotStopTheTool(t *testing.T) {
	out := newToolOutput(broken{}, mask.NewForms([]string{"hunter22"}))
	var none bytes.Buffer
	must(t, process.Own().Run(t.Context(), process.Command{
		Path: "/bin/sh", Args: []string{"-c", "i=0; while [ $i -lt 3000 ]; do echo 'a line of some length that fills the pipe'; i=$((i+1)); done; echo hunter22"},
		Output: out, Stdout: io.MultiWriter(out, &none)}, 0))
	out.end()
	if words := out.words(); !strings.HasSuffix(words, "length that fills the pipe\n(masked)") {
		t.Errorf("the last words are %q", words)
	}
}

func TestAPartRefusesInstructionsThatAreNotIts(t *testing.T) {
	for name, c := range map[string]struct{ role, instructions string }{
		"unknown part":  {"judge", `{"version":1,"phase":"plan","runID":"r"}`},
		"another phase": {"apply", `{"version":1,"phase":"plan","runID":"r"}`},
		"version":       {"apply", `{"version":2,"phase":"apply","runID":"r"}`},
		"no run":        {"apply", `{"version":1,"phase":"apply"}`},
		"run with dots": {"apply", `{"version":1,"phase":"apply","runID":".."}`},
		"run in a path": {"apply", `{"version":1,"phase":"apply","runID":"a/b"}`},
		"no JSON":       {"apply", `version`},
	} {
		ct := newContainer(t)
		put(t, ct.cfg.Paths.Instructions, c.instructions)
		if code, message := run(t.Context(), c.role, ct.cfg, ct.log); code != runspec.ExitInternal || len(message) == 0 {
			t.Errorf("%s: code %d, message %q", name, code, message)
		}
	}
}
