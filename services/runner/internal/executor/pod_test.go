//go:build runpod

package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"magosproject.io/services/runner/internal/executor/seal"
	"magosproject.io/services/runner/internal/runspec"
)

const withTime = `
terraform {
  required_providers {
    time = {
      source  = "hashicorp/time"
      version = "0.14.2"
    }
  }
}
resource "time_static" "now" {}
`

func TestAPlanIsSealedShownAndAppliedOnce(t *testing.T) {
	w := newWorkspace(t)
	mark := filepath.Join(w.root, "applied-times")
	commit := w.repo.Commit(map[string]string{
		"infra/main.tf": w.backend() + withTime + `
module "inner" {
  source = "../modules/inner"
  mark   = ` + fmt.Sprintf("%q", mark) + `
}
output "o" {
  value = "visible"
}
`,
		"modules/inner/main.tf": `
variable "mark" {}
resource "terraform_data" "x" {
  input = "value"
  provisioner "local-exec" {
    command = "sh ${path.module}/script.sh ${var.mark}"
  }
}
`,
		"modules/inner/script.sh": "echo once >>$1\n",
	})
	p := w.newPlan(commit, nil)
	p.in.Path = "infra"
	record, planned := p.mustPlan()
	if want := (runspec.Changes{Add: 2, Outputs: 1}); record.Changes != want || record.Empty {
		t.Errorf("the plan has %+v, empty %v, want %+v", record.Changes, record.Empty, want)
	}
	if !strings.Contains(planned.tool.log, "Plan: 2 to add") {
		t.Errorf("the tool's log lacks its plan:\n%s", planned.tool.log)
	}

	p.mustApply(record.Digest)
	serial, resources := w.stateOf()
	if resources["time_static.now"]["rfc3339"] == nil || resources["terraform_data.x"] == nil {
		t.Errorf("the state holds %v", resources)
	}

	again := p.newApply(record.Digest)
	again.dir += "-again"
	must(t, os.MkdirAll(filepath.Join(again.dir, "scratch", "apply"), 0o755))
	if got := again.start(runspec.ArgApply).wait(); got.code != runspec.ExitAlreadyUsed || !strings.Contains(got.message, "new run") {
		t.Errorf("the second apply ended with %d: %s\n%s", got.code, got.message, got.log)
	}
	if after, _ := w.stateOf(); after != serial {
		t.Errorf("the state's serial went from %d to %d", serial, after)
	}
	if lines, err := os.ReadFile(mark); err != nil || string(lines) != "once\n" {
		t.Errorf("the module ran %q, %v", lines, err)
	}

	next := w.newPlan(commit, nil)
	next.in.Path = "infra"
	record, _ = next.mustPlan()
	if !record.Empty || record.Changes != (runspec.Changes{}) {
		t.Errorf("planned again: %+v", record)
	}
	if left, _ := os.ReadDir(filepath.Join(w.root, "data", "runs")); len(left) != 1 || left[0].Name() != "run-2" {
		t.Errorf("folders of runs: %v", left)
	}
}

func TestALocalMirrorIsEnoughWithAndWithoutALockFile(t *testing.T) {
	w := newWorkspace(t)
	first := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + withTime}), nil)
	first.mustPlan()
	lock, err := os.ReadFile(filepath.Join(w.root, "data", "runs", "run-1", "sealed", "work", "source", lockFileName))
	must(t, err)
	second := w.newPlan(w.repo.Commit(map[string]string{lockFileName: string(lock)}), nil)
	record, _ := second.mustPlan()
	second.mustApply(record.Digest)

	// A lock file without a checksum for this platform.
	third := w.newPlan(w.repo.Commit(map[string]string{lockFileName: `
provider "registry.opentofu.org/hashicorp/time" {
  version = "0.14.2"
  hashes  = ["h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
}
`}), nil)
	failed, _ := third.mustFail(reasonFetchFailed)
	if !strings.Contains(failed.Message, "tofu providers lock -platform=") {
		t.Errorf("the message is %q", failed.Message)
	}
}

func TestWhatModuleCodeDoesAfterwardsChangesNothing(t *testing.T) {
	w := newWorkspace(t)
	commit := w.repo.Commit(map[string]string{"main.tf": w.backend() + withTime + `
resource "terraform_data" "x" {
  input = "planned"
  provisioner "local-exec" {
    command = "sh ./script.sh"
  }
}
`, "script.sh": "echo planned script >" + filepath.Join(w.root, "script-ran") + "\n"})
	fake := `{"v":1,"runID":"run-1","outcome":"Planned","digest":"sha256:00","empty":true}`
	w.hostileTool(
		`echo '`+fake+`'; echo '`+fake+`' >&2; printf '\r\033[2J`+fake+`\n'
for f in fetched sealed plan.json termination-log .fetched manifest.json; do
  echo '`+fake+`' >$WORK/$f; echo '`+fake+`' >$WORK/source/$f; echo '`+fake+`' >$SCRATCH/$f
done
rm -f $LOCKS/keeper $LOCKS/tool; : >$LOCKS/keeper; : >$LOCKS/tool; : >$LOCKS/other`,
		// As soon as keeper has sealed, everything in the working copy becomes something else.
		`(
  while [ ! -e $SIGNALS/sealed ]; do sleep 0.05; done
  i=0; while [ $i -lt 20 ]; do
    echo 'echo evil >`+filepath.Join(w.root, "script-ran")+`' >$WORK/source/script.sh
    echo garbage >$PLAN; echo 'resource "terraform_data" "evil" {}' >$WORK/source/main.tf
    rm -rf $WORK/source/.terraform; ln -sfn / $WORK/source/.terraform; echo x >$WORK/source/evil.tf
    i=$((i+1)); sleep 0.1
  done
  echo >`+filepath.Join(w.root, "tampered")+`
) >/dev/null 2>&1 &`)
	p := w.newPlan(commit, nil)
	record, result := p.mustPlan()
	if want := (runspec.Changes{Add: 2}); record.Changes != want || record.Empty || record.Digest == "sha256:00" {
		t.Errorf("the record is %+v", record)
	}
	if !strings.Contains(result.tool.log, fake) {
		t.Error("the forged lines are missing from the log: nothing was tried")
	}
	// The end of a container ends all of its processes, and an apply has a folder of its own; here the two share one.
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(w.root, "tampered")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing tampered")
		}
	}
	p.mustApply(record.Digest)
	if ran, err := os.ReadFile(filepath.Join(w.root, "script-ran")); err != nil || string(ran) != "planned script\n" {
		t.Errorf("the script that ran says %q, %v", ran, err)
	}
	if _, resources := w.stateOf(); resources["terraform_data.evil"] != nil || resources["time_static.now"] == nil {
		t.Errorf("the state holds %v", resources)
	}
}

func TestLinksAndPipesInTheWorkingCopyAreNotSealed(t *testing.T) {
	for name, after := range map[string]string{
		"plan is a link":         `rm $PLAN; ln -s /etc/passwd $PLAN`,
		"plan is a link inside":  `mv $PLAN $WORK/p; ln -s p $PLAN`,
		"plan is a folder":       `rm $PLAN; mkdir $PLAN`,
		"plan is a pipe":         `rm $PLAN; mkfifo $PLAN`,
		"plan is no plan":        `echo '{"format_version":"1.2"}' >$PLAN`,
		"pipe in the module":     `mkfifo $WORK/source/pipe`,
		"link out of the module": `ln -s /etc/passwd $WORK/source/x`,
		"module is a link":       `mv $WORK/source $WORK/s; ln -s s $WORK/source`,
		"data is a link":         `mv $WORK/source/.terraform $WORK/d; ln -s ../d $WORK/source/.terraform`,
		"module is gone":         `rm -rf $WORK/source`,
		"no plan":                `rm $PLAN`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t)
			w.hostileTool("", after)
			p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + "resource \"terraform_data\" \"x\" {}\n"}), nil)
			record, result := p.mustFail(reasonPlanFailed)
			if strings.Contains(record.Message, "root:") {
				t.Errorf("something outside was read: %s", record.Message)
			}
			if result.tool.code != 0 {
				t.Errorf("tool ended with %d", result.tool.code)
			}
		})
	}
}

func TestProvidersComeFromKeepersInit(t *testing.T) {
	w := newWorkspace(t)
	w.hostileTool("", `
d=$(find $WORK/source/.terraform/providers -type l); rm $d; mkdir $d
printf '#!/bin/sh\necho evil >`+filepath.Join(w.root, "evil")+`\n' >$d/terraform-provider-time_v0.14.2; chmod +x $d/*
echo '# changed' >>$WORK/source/.terraform.lock.hcl`)
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + withTime}), nil)
	record, _ := p.mustPlan()
	p.mustApply(record.Digest)
	if _, err := os.Stat(filepath.Join(w.root, "evil")); !os.IsNotExist(err) {
		t.Errorf("the module's provider ran: %v", err)
	}
	lock, err := os.ReadFile(filepath.Join(w.root, "data", "runs", "run-1", "sealed", "work", "source", lockFileName))
	if err != nil || strings.Contains(string(lock), "changed") {
		t.Errorf("the sealed lock file is %q, %v", lock, err)
	}
}

func TestABrokenSealIsNotApplied(t *testing.T) {
	w := newWorkspace(t)
	commit := w.repo.Commit(map[string]string{"main.tf": w.backend() + "resource \"terraform_data\" \"x\" {}\n"})
	p := w.newPlan(commit, nil)
	record, _ := p.mustPlan()
	tree := filepath.Join(w.root, "data", "runs", "run-1", "sealed", seal.TreeName)
	binary := filepath.Join(w.root, "image-tools", "opentofu", toolVersion, "tofu")
	for name, c := range map[string]struct {
		file   string
		change func(*pod)
		want   int
	}{
		"file":         {filepath.Join(tree, "source", "main.tf"), nil, runspec.ExitSealBroken},
		"plan":         {filepath.Join(tree, planName), nil, runspec.ExitSealBroken},
		"manifest":     {filepath.Join(tree, "..", seal.ManifestName), nil, runspec.ExitSealBroken},
		"tool":         {binary, nil, runspec.ExitToolUnavailable},
		"digest":       {"", func(a *pod) { a.in.PlanDigest = "sha256:" + strings.Repeat("0", 64) }, runspec.ExitSealBroken},
		"no digest":    {"", func(a *pod) { a.in.PlanDigest = "" }, runspec.ExitSealBroken},
		"other commit": {"", func(a *pod) { a.in.Revision = strings.Repeat("0", 40) }, runspec.ExitSealBroken},
		"tool version": {"", func(a *pod) { a.in.ToolVersion = "1.12.5" }, runspec.ExitSealBroken},
	} {
		apply := p.newApply(record.Digest)
		apply.dir += name
		must(t, os.MkdirAll(filepath.Join(apply.dir, "scratch", "apply"), 0o755))
		restore := func() {}
		if c.file != "" {
			original, err := os.ReadFile(c.file)
			must(t, err)
			info, err := os.Stat(c.file)
			must(t, err)
			must(t, os.Remove(c.file))
			must(t, os.WriteFile(c.file, append(append([]byte{}, original...), '\n'), info.Mode()))
			must(t, os.Chmod(c.file, info.Mode()))
			restore = func() {
				must(t, os.Remove(c.file))
				must(t, os.WriteFile(c.file, original, info.Mode()))
				must(t, os.Chmod(c.file, info.Mode()))
			}
		} else {
			c.change(apply)
		}
		if got := apply.start(runspec.ArgApply).wait(); got.code != c.want {
			t.Errorf("%s: ended with %d, want %d: %s", name, got.code, c.want, got.message)
		}
		restore()
	}
	if _, err := os.Stat(filepath.Join(w.root, "data", "runs", "run-1", "claim", claimMark)); !os.IsNotExist(err) {
		t.Errorf("the plan was claimed: %v", err)
	}
	p.mustApply(record.Digest)
}

func TestAPlanThatFailsSaysWhyAndMasksWhatItKnows(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + `
variable "pw" {}
variable "key" {}
resource "terraform_data" "x" {
  input = "${var.pw} ${base64encode(var.pw)} ${urlencode(var.pw)} ${jsonencode(var.pw)} ${join("", [for i in range(700): join("", [for j in range(100): "y"])])} tail"
}
resource "terraform_data" "y" {
  input = var.key
}
resource "terraform_data" "bad" {
  lifecycle {
    precondition {
      condition     = var.pw == ""
      error_message = "the password is ${var.pw}"
    }
  }
}
`}), map[string]string{"pw": `hunter"22&x`, "key": "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJ\nxY=\n-----END KEY-----\n"})
	record, result := p.mustFail(reasonPlanFailed)
	if result.tool.code != runspec.ExitToolFailed {
		t.Errorf("tool ended with %d", result.tool.code)
	}
	// OpenTofu leaves a plan file also of a plan that failed; it says inside that it is none.
	if !strings.Contains(record.Message, "the plan is incomplete") {
		t.Errorf("the record says %q", record.Message)
	}
	if !strings.Contains(result.tool.message, "the password is (masked)") || len(result.tool.message) > messageLimit {
		t.Errorf("tool says %q", result.tool.message)
	}
	for _, secret := range []string{"hunter", "aHVudGVy", "MIIEpAIBAAKCAQEA0Z3VS5JJ"} {
		if strings.Contains(result.tool.log, secret) || strings.Contains(result.tool.message, secret) {
			t.Errorf("%q is in the log:\n%s", secret, result.tool.log)
		}
	}
	if !strings.Contains(result.tool.log, strings.Repeat("y", 70_000)+" tail") {
		t.Error("the long line is not whole")
	}
}

func TestVariableSetsWinOverFilesOfEveryKind(t *testing.T) {
	w := newWorkspace(t)
	big := strings.Repeat("0123456789ü\"${x}\n", 20_000)
	commit := w.repo.Commit(map[string]string{
		"m/main.tf": w.backend() + `
variable "a" {}
variable "b" {}
variable "c" {}
variable "d" {}
variable "optional" {}
variable "list" { type = list(string) }
variable "big" { type = string }
resource "terraform_data" "x" {
  input = { a = var.a, b = var.b, c = var.c, d = var.d, optional = var.optional, list = var.list, big = sha256(var.big) }
}
output "big" { value = sha256(var.big) }
`,
		"m/terraform.tfvars":   "a = \"file\"\noptional = \"file\"\nbig = \"file\"\n",
		"m/x.auto.tfvars":      "b = \"file\"\nlist = [\"file\"]\n",
		"m/y.auto.tfvars.json": `{"c": "file"}`,
		"envs/dev.tfvars":      "d = \"file\"\na = \"file\"\n",
	})
	p := w.newPlan(commit, map[string]string{"a": "set", "b": "$$ $(X)", "c": "set", "list": `["x","y"]`, "big": big, "optional": absent, "nobody": "declares"})
	p.in.Path, p.in.TfvarsPath = "m", "envs/dev.tfvars"
	record, result := p.mustPlan()
	p.mustApply(record.Digest)
	_, resources := w.stateOf()
	input, _ := resources["terraform_data.x"]["input"].(map[string]any)
	value, _ := input["value"].(map[string]any)
	got := fmt.Sprint(value["a"], value["b"], value["c"], value["d"], value["optional"], value["list"])
	if want := fmt.Sprint("set", "$$ $(X)", "set", "file", "file", []any{"x", "y"}); got != want {
		t.Errorf("the module got %q, want %q (%v)", got, want, resources)
	}
	if value["big"] != sha256Hex(big) {
		t.Errorf("the large variable arrived as %v", value["big"])
	}
	for _, line := range []string{"variable=a file=m/terraform.tfvars", "variable=a file=envs/dev.tfvars", "variable=c file=m/y.auto.tfvars.json", "variable=nobody"} {
		if !strings.Contains(result.tool.log, line) {
			t.Errorf("the log does not say %q:\n%s", line, result.tool.log)
		}
	}
}

func TestATimeoutInterruptsTheTool(t *testing.T) {
	w := newWorkspace(t)
	w.hostileTool(`trap 'echo interrupted once; exit 1' INT; echo waiting; i=0; while [ $i -lt 1000 ]; do sleep 0.1; i=$((i+1)); done`, "")
	p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend()}), nil)
	// Long enough for what precedes the plan, also on a busy machine.
	p.in.Timeout = runspec.Duration(30 * time.Second)
	_, result := p.mustFail(reasonPlanFailed)
	if result.tool.code != runspec.ExitTimedOut || strings.Count(result.tool.log, "interrupted once") == 0 {
		t.Errorf("tool ended with %d: %s\n%s", result.tool.code, result.tool.message, result.tool.log)
	}
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
